"""Generations behind an address: in a bucket of an object store, or in a shared folder.

Such a place is laid out as an index folder is, so a folder that `pilotlight index` writes is one as well. Nothing that
is read from it is trusted before its checksum has been compared.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from indexer.errors import IndexCorrupt, IndexMissing, StoreAddressError, StoreRefused, StoreUnreachable
from indexer.generation.layout import COLLECTIONS, CURRENT, DEFAULT, GENERATIONS, is_collection_name
from indexer.generation.manifest import LARGEST, MANIFEST, FileRecord, Manifest, is_generation_id, parse_manifest
from indexer.stores.remote.client import CREDENTIALS, EXTRA, Trouble, first_line, open_bucket, trouble

if TYPE_CHECKING:
    from obstore.store import ObjectStore

BLOCK = 8 * 1024 * 1024  # bytes asked for at once
_PART = 32 * 1024 * 1024  # bytes sent at once: an object has 10,000 parts at most


class RemoteCollection:
    """A collection at an address; safe to use from several threads."""

    def __init__(self, url: str) -> None:
        """Ask for nothing yet. Raises StoreAddressError if the address cannot be used, or the extra is missing."""
        self.url = url.rstrip("/")
        self._open = _opener(self.url)
        self._prefix = ""

    def collection(self, name: str) -> "RemoteCollection":
        """Return a collection of the index that is here; the default one is the index itself."""
        if name == DEFAULT:
            return self
        found = copy(self)
        found.url, found._prefix = f"{self.url}/{COLLECTIONS}/{name}", f"{COLLECTIONS}/{name}/"
        return found

    def make(self) -> None:
        """Make the folder, if it is one that is not there; a bucket has to be. Raises StoreUnreachable."""
        if self.url.startswith("file:"):
            with self._asking(""):
                Path(unquote(urlsplit(self.url).path)).mkdir(parents=True, exist_ok=True)

    def collections(self) -> list[str]:
        """Return the names that collections may have here, default first. Raises StoreUnreachable or StoreRefused."""
        return [DEFAULT, *sorted(filter(is_collection_name, self._folders(COLLECTIONS)))]

    def live_id(self) -> str:
        """Return the id of the live generation.

        Raises:
            IndexMissing: nothing has been published here.
            IndexCorrupt: `CURRENT` does not name a generation.
            StoreUnreachable, StoreRefused: it cannot be asked.
        """
        try:
            raw = self._read(CURRENT, 100)
        except FileNotFoundError as error:
            raise IndexMissing(
                f"there is no index at {self.url}; publish one with: pilotlight push {self.url}"
            ) from error
        name = raw.decode("ascii", "replace").removesuffix("\n")
        if not is_generation_id(name):
            raise self.corrupt(CURRENT, "does not name a generation")
        return name

    def generation_ids(self) -> list[str]:
        """Return the ids of the generations here, whole or not, newest first. Raises as `live_id` does."""
        return sorted(filter(is_generation_id, self._folders(GENERATIONS)), reverse=True)

    def manifest(self, generation_id: str) -> tuple[bytes, Manifest]:
        """Return the manifest of a generation, as it is written and as it reads.

        Raises:
            IndexCorrupt: it is missing, altered, or of a version this program does not know.
            StoreUnreachable, StoreRefused: it cannot be asked for.
        """
        name = path_of(generation_id, MANIFEST)
        try:
            raw = self._read(name, LARGEST)
        except FileNotFoundError as error:
            raise self.corrupt(name, "is missing") from error
        return raw, parse_manifest(raw, self._shown(name), generation_id)

    def blocks(self, generation_id: str, file: str, record: FileRecord, start: int = 0) -> Iterator[bytes]:
        """Yield the bytes of a file from one of them on, not yet compared with its checksum.

        Raises:
            IndexCorrupt: it is missing, or has another size than its record.
            StoreUnreachable, StoreRefused: it cannot be read.
        """
        import obstore

        name = path_of(generation_id, file)
        try:
            size = self.size(name)
            if size != record.size:
                raise self.corrupt(name, f"has {size:,} bytes instead of {record.size:,}")
            while start < size:
                end = min(start + BLOCK, size)
                with self._asking(name):
                    block = obstore.get_range(self._open(), self._prefix + name, start=start, end=end).to_bytes()
                if len(block) != end - start:
                    raise self.corrupt(name, "was changed while it was read")
                yield block
                start = end
        except FileNotFoundError as error:
            raise self.corrupt(name, "is missing") from error

    def size(self, name: str) -> int:
        """Return the bytes of an object. Raises FileNotFoundError, or as `live_id` does."""
        import obstore

        with self._asking(name):
            return obstore.head(self._open(), self._prefix + name)["size"]

    def put(self, name: str, content: bytes | Path) -> None:
        """Write an object in one step, from memory or a file. Raises StoreUnreachable or StoreRefused."""
        import obstore

        try:
            with self._asking(name):
                obstore.put(self._open(), self._prefix + name, content, chunk_size=_PART, max_concurrency=4)
        except FileNotFoundError as error:
            raise StoreUnreachable(
                f"{self._shown(name)}: cannot be written, as a file or the place was removed meanwhile; try again"
            ) from error

    def remove(self, generation_id: str) -> None:
        """Remove a generation, its manifest first. Raises StoreUnreachable or StoreRefused."""
        import obstore

        folder = f"{self._prefix}{GENERATIONS}/{generation_id}/"
        with self._asking(folder):
            names = [entry["path"] for block in obstore.list(self._open(), folder) for entry in block]
            for name in sorted(names, key=lambda name: not name.endswith(f"/{MANIFEST}")):
                with suppress(FileNotFoundError):  # it is gone, then
                    obstore.delete(self._open(), name)

    def corrupt(self, name: str, what: str) -> IndexCorrupt:
        """Return the error for an object that is not as it was published."""
        return IndexCorrupt(f"{self._shown(name)}: {what}; push the generation again, or roll back and push that")

    def _shown(self, name: str) -> str:
        return f"{self.url}/{name}" if name else self.url

    def _folders(self, name: str) -> list[str]:
        import obstore

        with self._asking(""):
            listed = obstore.list_with_delimiter(self._open(), f"{self._prefix}{name}/")
        return [prefix.rstrip("/").rpartition("/")[2] for prefix in listed["common_prefixes"]]

    def _read(self, name: str, most: int) -> bytes:
        """An object, or its first bytes if it has more than `most`: one more than that. Raises FileNotFoundError."""
        import obstore

        with self._asking(name):
            found = obstore.get(self._open(), self._prefix + name)
            content = bytearray()
            for block in found.stream(min_chunk_size=1):
                content += block
                if len(content) > most:
                    break
            return bytes(content[: most + 1])

    @contextmanager
    def _asking(self, name: str) -> Iterator[None]:
        """Turn what the store says into our errors; what FileNotFoundError means, the caller knows."""
        from obstore import exceptions

        try:
            yield
        except (exceptions.BaseError, OSError) as error:
            kind, said = trouble(error), first_line(error)
            if kind is Trouble.MISSING:
                raise
            if kind is Trouble.REFUSED:
                raise StoreRefused(
                    f"{self._shown(name)}: the store does not allow it ({said}); "
                    f"check the credentials in {CREDENTIALS['s3']}, and their rights"
                ) from error
            if kind is Trouble.NO_BUCKET:
                raise StoreUnreachable(
                    f"{self.url}: there is no such bucket; make it, or correct the address"
                ) from error
            if kind is Trouble.NO_CREDENTIALS:
                raise StoreRefused(f"{self.url}: there are no credentials; set {CREDENTIALS['s3']}") from error
            remedy = "free some space" if "No space left" in str(error) else "check the address and the network"
            raise StoreUnreachable(
                f"{self._shown(name)}: the store does not answer as it should ({said}); {remedy}"
            ) from error


def path_of(generation_id: str, file: str) -> str:
    """Return the name of a generation's file in a remote collection."""
    return f"{GENERATIONS}/{generation_id}/{file}"


def _opener(url: str) -> "Callable[[], ObjectStore]":
    """Return what opens a store, once and when it is first asked: a shared folder may not be mounted yet."""
    parts = urlsplit(url)
    if parts.username or parts.password or parts.query or parts.fragment:
        # it may hold a secret, so it is not repeated
        raise StoreAddressError(
            f"an address {parts.scheme}:// takes no user, password, ? or #; credentials come from AWS_ACCESS_KEY_ID "
            "and AWS_SECRET_ACCESS_KEY, the endpoint from AWS_ENDPOINT_URL"
        )
    path = unquote(parts.path)
    if parts.scheme not in ("s3", "file"):
        raise StoreAddressError(f"{url}: an index is a folder, s3://BUCKET/PREFIX or file:///FOLDER")
    if parts.scheme == "s3" and not parts.netloc:
        raise StoreAddressError(f"{url}: the bucket is missing; write s3://BUCKET/PREFIX")
    if parts.scheme == "file" and (parts.netloc not in ("", "localhost") or path in ("", "/")):
        raise StoreAddressError(f"{url}: write file:///FOLDER, with the whole path of the folder")
    try:
        from obstore.store import LocalStore
    except ModuleNotFoundError as error:
        raise StoreAddressError(f"{url}: {EXTRA}") from error

    def open_store() -> "ObjectStore":
        if parts.scheme == "file":
            if not Path(path).is_dir():
                raise OSError(f"there is no folder {path}")
            return LocalStore(path, automatic_cleanup=True)
        return open_bucket("s3", parts.netloc, path.strip("/") or None)

    return cache(open_store)
