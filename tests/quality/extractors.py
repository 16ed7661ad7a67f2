"""What a build reads of pages, and the passages it cuts of them."""

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from embedder.config import Role
from indexer.config import ChunkConfig, CrawlLimits
from indexer.cut.chunking import Chunker
from indexer.errors import ParseError
from indexer.read.parsing import parse
from indexer.records import SEPARATOR, Chunk, Page
from indexer.sources import reading
from indexer.sources.templates import Templates
from tests.dummy import DummyEmbedder

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
    whole = Chunker(Unseeing(max_length=_WHOLE + 1_000), ChunkConfig(tokens=_WHOLE))
    cut = Chunker(Unseeing(max_length=_MODEL), ChunkConfig())
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
            document = parse(page)
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
