"""What is read of pages that many generators made, against gold.

`python -m tests.quality.extraction` fetches the pages where it can, measures, and prints a table. The generators of the
half that is held out are only measured: nobody who changes how pages are read looks at them.
"""

import hashlib
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from shutil import copyfile
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from embedder.config import Role
from indexer.config import CrawlLimits
from indexer.cut.chunking import Chunker
from indexer.errors import ParseError
from indexer.read.document_reader import read_document
from indexer.records import SEPARATOR, Chunk, Page
from indexer.sources import reading
from indexer.sources.reading import Templates
from tests.dummy import DummyEmbedder
from tests.quality.gold import Generator, Gold, gold, read_generators, words
from tests.quality.packages import NotFetched, fetch

SITE = 60  # pages read as one site: those with gold, and others
OWN_TEXT = 300  # characters of own text above which a page may not be dropped
CACHE = Path.home() / ".cache" / "pilotlight" / "extraction"
_STEP = 7919  # a prime, so that multiples of it visit the names of a folder in no order of theirs
_LARGEST = 1_000_000  # bytes of another page of the site
_LEADS = (12, 8, 5)  # words by which the place of a passage is found
_WHOLE = 100_000  # tokens of a passage that holds a whole section
_MODEL = 256  # tokens that the default model reads


class Unseeing(DummyEmbedder):
    """Counts tokens and makes no vectors worth the name, as nothing is searched."""

    def encode(self, texts: Sequence[str], *, role: Role = "document") -> npt.NDArray[np.float32]:
        """Return the same vector for every text."""
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        vectors[:, 0] = 1.0
        return vectors


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage as a reader is led to it."""

    anchor: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What became of a page."""

    text: str
    title: str = ""
    headings: tuple[str, ...] = ()  # shown above passages, not in them
    passages: tuple[Passage, ...] = ()


def pilotlight(root: Path, wanted: Iterable[str], others: Iterable[str]) -> dict[str, Reading]:
    """Read the pages of a site as a build does, the wanted ones to the end; those that a build leaves out are missing.

    Passages are cut twice: as they are by default, and with sections left whole, so that code is not cut.
    """
    wanted = list(wanted)
    whole = Chunker(Unseeing(max_length=_WHOLE + 1_000), _WHOLE)
    cut = Chunker(Unseeing(max_length=_MODEL), 200)
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder).resolve()
        for name in {*wanted, *others}:
            copy = site / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copyfile(root / name, copy)
        urls = {(site / name).as_uri(): name for name in wanted}
        items = reading.read_sources([str(site)], reading.Reading(CrawlLimits(), templates=Templates()))
        pages = [item for item in items if isinstance(item, Page) and item.url in urls]
    found = {}
    for page in pages:
        with suppress(ParseError):
            document = read_document(page)
            if chunks := whole.split(document):
                found[urls[page.url]] = _reading(chunks, cut.split(document))
    return found


def _reading(whole: list[Chunk], cut: list[Chunk]) -> Reading:
    paths: dict[tuple[str, ...], None] = {}
    for chunk in whole:
        names = chunk.section.split(SEPARATOR) if chunk.section else []
        shown = len(names) - bool(names and chunk.text.startswith(names[-1]))
        paths |= {tuple(names[: end + 1]): None for end in range(shown)}
    passages = tuple(Passage(unquote(chunk.url.partition("#")[2]) or None, chunk.text) for chunk in cut)
    text = "\n\n".join(chunk.text for chunk in whole)
    return Reading(text, whole[0].title, tuple(path[-1] for path in paths), passages)


@dataclass(frozen=True, slots=True)
class Counts:
    """Sums over pages, of which the shares are made."""

    pages: int = 0
    own: int = 0  # words
    kept: int = 0  # of them
    interface: int = 0  # words
    let_in: int = 0  # of them
    read: int = 0  # words that were read, without those that count neither way
    passages: int = 0  # with text of the page itself
    anchored: int = 0  # with the nearest anchor
    code: int = 0  # blocks
    code_kept: int = 0  # byte-equal
    dropped: int = 0  # pages with much text of their own

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    @property
    def f1(self) -> float:
        """Of words: the harmonic mean of the share kept and the share of what was read that is the page's own."""
        return 2 * self.kept / max(1, self.own + self.read)


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of a generator where they lie."""

    generator: Generator
    root: Path
    golds: Mapping[str, Gold]
    others: tuple[str, ...]


def load(generator: Generator, cache: Path) -> Pages:
    """Find the pages of a generator; raises NotFetched where they cannot be had, or are others than were annotated."""
    root = fetch(generator.package, cache) / generator.root
    golds = {}
    for page in generator.pages:
        body = (root / page.path).read_bytes() if (root / page.path).is_file() else b""
        if hashlib.sha256(body).hexdigest() != page.sha256:
            raise NotFetched(f"{page.path} of {generator.name} is not the page that was annotated")
        golds[page.path] = gold(body, page)
    found = {path for glob in generator.site for path in root.glob(glob) if path.is_file()}
    names = sorted(str(path.relative_to(root)) for path in found if path.stat().st_size <= _LARGEST)
    spread = sorted(range(len(names)), key=lambda place: place * _STEP % len(names))
    others = [names[place] for place in spread if names[place] not in golds]
    return Pages(generator, root, golds, tuple(others[: SITE - len(golds)]))


def measure(pages: Pages) -> Counts:
    """Read the pages of a generator as a build does, and count."""
    readings = pilotlight(pages.root, pages.golds, pages.others)
    return sum((judge(found, readings.get(path)) for path, found in pages.golds.items()), Counts())


def judge(found: Gold, reading: Reading | None) -> Counts:
    """Counts of one page; None for a page that was left out."""
    own = Counter(found.own)
    reading = reading or Reading("")
    anchored = [passage.anchor in allowed for passage, allowed in _anchors(found, reading.passages)]
    text, headings = Counter(words(reading.text)), Counter(words(" ".join(reading.headings)))
    read = text + (headings & (own - text)) + (headings - own)
    read += Counter(words(reading.title)) & (own - read)  # shown with every hit, but says the site's name too
    read -= (read - own) & found.either
    return Counts(
        pages=1,
        own=own.total(),
        kept=(own & read).total(),
        interface=found.interface.total(),
        let_in=(found.interface & (read - own)).total(),
        read=read.total(),
        passages=len(anchored),
        anchored=sum(anchored),
        code=len(found.code),
        code_kept=sum(any(text in reading.text for text in block) for block in found.code),
        dropped=int(found.length >= OWN_TEXT and not reading.text.strip()),
    )


def _anchors(found: Gold, passages: Iterable[Passage]) -> Iterator[tuple[Passage, set[str | None]]]:
    """Passages with text of the page itself, and the ids that each may carry: those of any place that has its words."""
    places: dict[str, list[int]] = {}
    for place, word in enumerate(found.order):
        places.setdefault(word, []).append(place)
    for passage in passages:
        starts = _places(words(passage.text), found.order, places)
        if starts:
            yield passage, set().union(*map(found.allowed, starts))


def _places(text: Sequence[str], order: tuple[str, ...], places: Mapping[str, list[int]]) -> list[int]:
    """Where in the page's words a passage may begin, without what is no text of the page before that.

    A few words that are in several places do not settle it: a table that goes on begins with the names of its columns.
    """
    several: list[int] = []
    for begin in range(len(text)):
        for length in _LEADS:
            lead = tuple(text[begin : begin + length])
            starts = places.get(lead[0], []) if len(lead) == length or not begin else []
            found = [start for start in starts if order[start : start + len(lead)] == lead]
            if len(found) == 1 or (found and length == _LEADS[0]):
                return several + found
            several = several or found
    return several


def row(name: str, counts: Counts) -> str:
    """Return a row of the table that `main` prints: shares in percent."""
    cells = (
        name,
        str(counts.pages),
        _share(counts.kept, counts.own),
        _share(counts.let_in, counts.interface),
        f"{counts.f1:.4f}",
        f"{counts.code_kept} of {counts.code}",
        str(counts.dropped),
        f"{_share(counts.anchored, counts.passages)} of {counts.passages}",
    )
    return f"| {' | '.join(cells)} |"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if whole else "–"


def main() -> None:
    """Fetch and measure the generators that are named, or all, and print a table in Markdown."""
    print("| generator | pages | words kept | interface let in | F1 | code byte-equal | dropped | nearest anchor |")
    print("|---" * 8 + "|")
    totals = {"development": Counts(), "held-out": Counts()}
    for generator in read_generators():
        if generator.name in (sys.argv[1:] or [generator.name]):
            try:
                counts = measure(load(generator, CACHE))
            except NotFetched as error:
                print(f"skipped: {generator.name}: {error}", file=sys.stderr)
                continue
            totals[generator.half] += counts
            print(row(generator.name, counts))
    for half, counts in totals.items():
        print(row(f"**{half}, all**", counts))


if __name__ == "__main__":
    main()
