"""Pages of the objects of a bucket: what has the same ETag as when it was last read is known, and not fetched."""

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from indexer.config import CrawlLimits
from indexer.errors import FetchError, SourceError
from indexer.generation.previous import PreviousGeneration
from indexer.read.container import with_parts
from indexer.read.formats import CONTAINER, CONTENT_TYPES, HTML, OCR_OFF, content_type_of, reader_of
from indexer.records import Failure, Item, Skip
from indexer.sources.objects.address import BucketAddress
from indexer.sources.objects.bucket import Bucket, Entry
from indexer.sources.stored_files import StoredFiles
from indexer.sources.templates import spread

_MOST_FAILURES = 20  # objects in a row that the store does not give, after which it is taken to be down


def read_objects(
    source: str,
    limits: CrawlLimits,
    found: Callable[[int], None],
    earlier: PreviousGeneration | None = None,
    study: Callable[[Iterable[Item]], None] | None = None,
    no_images: str = OCR_OFF,
) -> Generator[Item, None, None]:
    """Read the objects below a prefix, or one of that name.

    All of them are listed before the first is given, so a listing that fails leaves out nothing. Of objects that fail
    to be read this time, their records are given.

    Args:
        source: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`.
        limits: how large objects may be, which are wanted, how many are fetched at a time, where a person can see them.
        found: told how many objects there are to read.
        earlier: what an earlier build knows.
        study: shown pages from all over the bucket, before any is given.
        no_images: why images are not read, if they are not.

    Raises:
        SourceError: there is no such bucket or prefix, it may not be listed, or the store does not answer.
    """
    address = BucketAddress.read(source)
    yield from _Reading(address, Bucket(address, limits), limits, earlier, no_images).items(found, study)


class _Reading:
    """One bucket, and what is known of its objects."""

    def __init__(
        self,
        address: BucketAddress,
        bucket: Bucket,
        limits: CrawlLimits,
        earlier: PreviousGeneration | None,
        no_images: str,
    ) -> None:
        self._address = address
        self._bucket = bucket
        self._limits = limits
        # an archive is none of the pages that are known by themselves
        self._files = StoredFiles(
            address.source, address.root, limits, earlier, no_images=no_images, read_anyway=(CONTAINER,)
        )
        self._no_images = no_images
        self._studied: dict[bytes, list[Item]] = {}  # read before their turn
        self._failed = 0  # in a row
        manifest = earlier.manifest if earlier else None
        self._was_read = manifest is not None and address.source in manifest.sources

    def items(
        self, found: Callable[[int], None], study: Callable[[Iterable[Item]], None] | None
    ) -> Generator[Item, None, None]:
        """Yield what becomes of each object. Raises SourceError."""
        there, unlisted = self._bucket.entries()
        with closing(there):
            if not there and not unlisted and not self._was_read:
                raise SourceError(f"{self._address.source}: there are no objects of this name, or below it")
            self._files.note_lists(entry.path for entry in there)
            of_type, total = Counter[str | None](), 0
            for entry in self._wanted(there):
                if isinstance(entry, Entry):
                    of_type[_type(entry)] += 1
                    total += entry.size
            if total > (most := self._limits.max_total_bytes):
                raise SourceError(f"{self._address.source}: larger than --max-total-bytes {most:,}")
            found(of_type.total())
            if study is not None and of_type[HTML]:
                pages = (one for one in self._wanted(there) if isinstance(one, Entry) and _type(one) == HTML)
                study(item for entry in spread(pages, of_type[HTML]) for item in self._sampled(entry))
            for entry in (entry for same in _by_name(there) for entry in same[1:] if entry.size):
                yield Skip(self._files.url(entry.path), "has the name of another object but for a slash at an end")
            for folder in unlisted:
                yield Failure(f"{self._files.url(folder.path)}/", folder.reason)
                yield from self._files.kept_below(folder.path, folder.reason)
            with closing(self._read(self._wanted(there))) as items:
                for item in items:
                    yield from with_parts(item, self._limits.max_bytes, self._no_images)

    def _wanted(self, there: Iterable[Entry]) -> Iterator[Entry | Skip | Failure]:
        return self._files.wanted((same[0] for same in _by_name(there)), _special, types_are_told=True)

    def _read(self, wanted: Iterable[Entry | Skip | Failure]) -> Generator[Item, None, None]:
        """What becomes of each, in order; so many are fetched ahead as may be at a time."""
        ahead: deque[Future[_Fetched] | list[Item]] = deque()
        with ThreadPoolExecutor(self._limits.concurrency, thread_name_prefix="objects") as pool:
            try:
                for one in wanted:
                    ahead.append(self._begun(one, pool))
                    if len(ahead) > self._limits.concurrency:
                        yield from self._given(ahead.popleft())
                while ahead:
                    yield from self._given(ahead.popleft())
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _begun(self, one: Entry | Skip | Failure, pool: ThreadPoolExecutor) -> Future["_Fetched"] | list[Item]:
        if not isinstance(one, Entry):
            return [one]
        if (items := self._studied.pop(one.path, None)) is not None:
            return items
        return [*self._files.known(one.path, one.version)] or pool.submit(self._fetched, one)

    def _given(self, one: Future["_Fetched"] | list[Item]) -> list[Item]:
        if isinstance(one, list):
            return one
        items, trouble = one.result()
        self._failed = self._failed + 1 if trouble else 0
        if self._failed >= _MOST_FAILURES:
            raise SourceError(
                f"{self._address.source}: {_MOST_FAILURES} objects in a row could not be read ({trouble})"
            )
        return items

    def _sampled(self, entry: Entry) -> Iterator[Item]:
        """An object before its turn; it is not fetched again when that comes."""
        known: list[Item] = [*self._files.known(entry.path, entry.version)]
        if not known:
            items, trouble = self._fetched(entry)
            if not trouble:  # else it is tried again
                known = self._studied[entry.path] = items
        yield from known

    def _fetched(self, entry: Entry) -> "_Fetched":
        """The page of an object; where there is none, why, and what is known of it."""
        url = self._files.url(entry.path)
        is_named = content_type_of(entry.path.decode("utf-8", "replace")) is not None
        try:
            content = self._bucket.read(entry, None if is_named else CONTENT_TYPES)
        except FetchError as error:
            return _Fetched([Failure(url, str(error))])
        except FileNotFoundError:
            return _Fetched([Skip(url, "not there under this name: it was removed meanwhile, or ends with a slash")])
        except Exception as error:
            if not self._bucket.is_trouble(error):
                raise
            said = self._bucket.said(error)
            return _Fetched([*self._files.kept(entry.path, said)] or [Failure(url, said)], said)
        if isinstance(content, str):
            return _Fetched([Skip(url, f"media type {content or 'unknown'} is not read")])
        page = self._files.page(
            entry.path,
            content.body,
            content.version,
            content_type=content.content_type,
            charset=content.charset,
            last_modified=entry.last_modified,
        )
        return _Fetched([page])


class _Fetched(NamedTuple):
    """What became of an object, and what its store has against giving it."""

    items: list[Item]
    trouble: str = ""


def _by_name(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Yield the objects of each name, of which there may be several; first, one that has content."""
    for _, same in groupby(entries, key=attrgetter("path")):
        yield sorted(same, key=lambda entry: not entry.size)


def _special(entry: Entry) -> str:
    return "" if entry.size else "empty, as what marks a folder is"


def _type(entry: Entry) -> str | None:
    """Name of the reader of an object."""
    return reader_of(content_type_of(entry.path.decode("utf-8", "replace")) or "")
