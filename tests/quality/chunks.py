"""Written questions over the PostgreSQL manual: our passages beside those of RecursiveCharacterTextSplitter(1000, 0).

Both are cut from the same extracted text and go through the same embedder, index and search. A question is answered
by a passage from the section it was written about, or from one below it, or by one that holds such a section whole; a
passage of the plain splitter is from the section in its middle. `python -m tests.quality.chunks` prints the table;
--work keeps the two indexes.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from unittest import mock

from langchain_text_splitters import RecursiveCharacterTextSplitter

from embedder.protocol import Embedder
from indexer.config import BuildConfig, ChunkConfig
from indexer.cut.chunking import Chunker, hash_text
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress, progress_for
from indexer.read.parsing import parse
from indexer.records import SEPARATOR, Chunk, Document, Page, Section
from indexer.sources.folders.folder import read_path
from indexer.urls import with_anchor
from rag.query.request import SearchRequest
from rag.query.results import Hit
from rag.query.retriever import Retriever

MANUAL = Path("/usr/share/doc/postgresql-doc-15/html")
QUESTIONS = Path(__file__).with_name("postgresql.jsonl")
MODES = ("hybrid", "dense", "lexical")
K = 5


class Recursive:
    """Stands in for the chunker: a page's text, headings included, cut every 1,000 characters or less."""

    def __init__(self, embedder: Embedder, _: ChunkConfig) -> None:
        self._embedder = embedder
        self._splitter = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=0, add_start_index=True)

    def split(self, document: Document) -> list[Chunk]:
        text, begins = "", []
        for section in document.sections:
            heading = f"{section.path[-1]}\n\n" if section.path else ""
            begins.append((len(text), section))
            text += f"{heading}{section.text}\n\n"
        pieces = self._splitter.create_documents([text])
        texts = [piece.page_content for piece in pieces]
        chunks = []
        for position, (piece, tokens) in enumerate(zip(pieces, self._embedder.count_tokens(texts), strict=True)):
            middle = piece.metadata["start_index"] + len(piece.page_content) // 2
            section = [section for begin, section in begins if begin <= middle][-1]
            chunks.append(
                Chunk(
                    id=hash_text(f"{document.url} {position}")[:32],
                    url=with_anchor(document.url, section.anchor),
                    document_url=document.url,
                    title=document.title,
                    section=SEPARATOR.join(section.path),
                    text=piece.page_content,
                    embedded_text=piece.page_content,
                    content_hash=hash_text(piece.page_content),
                    tokens=tokens,
                    position=position,
                )
            )
        return chunks


CHUNKERS: Mapping[str, Callable[..., object]] = {
    "RecursiveCharacterTextSplitter(1000, 0)": Recursive,
    "Pilotlight": Chunker,
}


def read_questions() -> list[tuple[str, str]]:
    """Questions, and the page and anchor that each was written about."""
    rows = map(json.loads, QUESTIONS.read_text(encoding="utf-8").splitlines())
    return [(row["question"], row["url"]) for row in rows]


def section_path(manual: Path, url: str) -> tuple[str, ...]:
    """Headings down to the section with this anchor."""
    anchor = url.partition("#")[2]  # which terms below, without one of their own, have too
    return next(section.path for section in _sections(manual, url) if section.anchor == anchor)


def sections_about(manual: Path, url: str) -> list[Section]:
    """The section with this anchor and those below it."""
    path = section_path(manual, url)
    return [section for section in _sections(manual, url) if section.path[: len(path)] == path]


def answers(hit: Hit, manual: Path, url: str) -> bool:
    """Whether a hit is of the section with this anchor or of one below it, or holds one of these whole."""
    page, sections = (manual / url.partition("#")[0]).as_uri(), sections_about(manual, url)
    anchors = {section.anchor for section in sections} | {anchor for each in sections for _, anchor in each.marks}
    return hit.url in {with_anchor(page, anchor) for anchor in anchors} or (
        hit.url.partition("#")[0] == page and any(section.text in hit.text for section in sections)
    )


@cache
def _sections(manual: Path, url: str) -> tuple[Section, ...]:
    [page] = read_path(str(manual / url.partition("#")[0]), 10_000_000, lambda _: None)
    assert isinstance(page, Page)
    return parse(page).sections


def make(name: str, sources: Iterable[Path], index: Path, embedder: Embedder, progress: Progress) -> int:
    """Index with one of CHUNKERS; return the number of chunks."""
    with mock.patch("indexer.pipeline.build.Chunker", CHUNKERS[name]):
        return build(list(map(str, sources)), index, embedder, BuildConfig(), progress=progress).chunks


def hits(index: Path, manual: Path, embedder: Embedder, mode: str) -> tuple[list[bool], list[bool]]:
    """For every question, whether the right section, and the right page, is among the first five."""
    retriever = Retriever.open(index, embedder)
    sections, pages = [], []
    for question, url in read_questions():
        found = retriever.search(SearchRequest(question, k=K, mode=mode)).hits
        sections.append(any(answers(hit, manual, url) for hit in found))
        page = (manual / url.partition("#")[0]).as_uri()
        pages.append(any(hit.url.partition("#")[0] == page for hit in found))
    return sections, pages


def table(manual: Path, sources: Sequence[Path], work: Path, embedder: Embedder, progress: Progress) -> list[list[str]]:
    """Rows of chunker, mode, chunks, right sections and right pages among the first five."""
    rows = []
    for place, name in enumerate(CHUNKERS):
        chunks = make(name, sources, work / str(place), embedder, progress)
        for mode in MODES:
            sections, pages = hits(work / str(place), manual, embedder, mode)
            count = len(sections)
            shares = [f"{sum(found) / count:.3f} ({sum(found)} of {count})" for found in (sections, pages)]
            rows.append([name, mode, f"{chunks:,}", *shares])
    return rows


def main() -> None:
    """Print the table in Markdown."""
    from embedder import EmbedderConfig, Embeddings

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--manual", type=Path, default=MANUAL, help="folder of the manual's HTML pages")
    parser.add_argument("--work", type=Path, help="folder to keep the two indexes in")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        embedder = Embeddings(EmbedderConfig())
        rows = table(args.manual, [args.manual], args.work or Path(folder), embedder, progress_for(sys.stderr))
    print("| passages | mode | chunks | right section in 5 | right page in 5 |\n|---|---|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
