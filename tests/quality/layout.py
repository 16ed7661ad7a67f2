"""What is read of pages of real PDFs, against gold: blocks in reading order, words kept, running heads let in.

`python -m tests.quality.layout` fetches the documents where it can, measures, and prints a table. Gold is in
`tests/quality/layouts`, a file a document: made by hand from the picture of a page, it names each block by the words
that it begins and ends with, in reading order. Documents of the half that is held out are only measured.
"""

import gzip
import hashlib
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pypdfium2

from indexer.read.pdf.document import read
from tests.quality.extraction import CACHE
from tests.quality.packages import NotFetched, fetch

LAYOUTS = Path(__file__).parent / "layouts"
_GAP = "…"
_HYPHEN = re.compile("[-\u2010\u00ad\ufffe\x02]\\s*")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Counts:
    """Sums over pages, of which the shares are made."""

    pages: int = 0
    blocks: int = 0
    right: int = 0  # of them: whole, and after the one before
    words: int = 0  # without those of running heads
    kept: int = 0  # of them
    heads: int = 0  # running heads and feet
    let_in: int = 0  # of them

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))


def read_layouts(folder: Path = LAYOUTS) -> list[dict[str, Any]]:
    """Every annotated document, those of the development half first."""
    found = [{"name": path.stem, **tomllib.loads(path.read_text("utf-8"))} for path in folder.glob("*.toml")]
    return sorted(found, key=lambda layout: (layout["half"], layout["name"]))


def load(layout: Mapping[str, Any], cache: Path) -> bytes:
    """Return a document; raises NotFetched where it cannot be had, or is another than was annotated."""
    path = fetch(layout["package"], cache) / layout["path"]
    body = path.read_bytes() if path.is_file() else b""
    body = gzip.decompress(body) if path.suffix == ".gz" else body
    if hashlib.sha256(body).hexdigest() != layout["sha256"]:
        raise NotFetched(f"{path.name} is not the document that was annotated")
    return body


def pilotlight(body: bytes) -> dict[int, str]:
    """Text of each page as it is indexed, with its headings."""
    pages: dict[int, list[str]] = {}
    above: tuple[str, ...] = ()
    for section in read(body, None).sections:
        place, page = 0, _page(section.anchor)
        shared = sum(a == b for a, b in zip(above, section.path[:-1], strict=False))
        above = section.path
        # a heading with nothing below it but another heading is only in the path of that
        headings = [heading for heading in section.path[shared:] if not heading.startswith("Page ")]
        pages.setdefault(page, []).append("\n\n".join(headings))
        for mark, anchor in [*section.marks, (len(section.text), None)]:
            pages.setdefault(page, []).append(section.text[place:mark])
            place, page = mark, _page(anchor) if anchor else page
    return {page: "\n\n".join(parts) for page, parts in pages.items()}


def _page(anchor: str | None) -> int:
    return int((anchor or "page=0").partition("=")[2])


def pdfium(body: bytes) -> dict[int, str]:
    """Text in the order of the file."""
    document = pypdfium2.PdfDocument(body)
    return {number: page.get_textpage().get_text_bounded() for number, page in enumerate(document, start=1)}


def words(text: str) -> list[str]:
    """Runs of letters and digits, in lower case, without hyphens: where a line ends is no matter here."""
    return _WORD.findall(_HYPHEN.sub("", text.lower()))


def judge(page: Mapping[str, Any], own: str, text: str) -> Counts:
    """Counts of one page, of which PDFium says that it has the text `own`."""
    read, gold = words(text), Counter(words(own))
    gold -= Counter(word for head in page["heads"] for word in words(head))
    lines = {" ".join(words(line)) for line in text.splitlines()}
    let_in = sum(_is_let_in(words(head), read, lines) for head in page["heads"])
    right = _right([_ends(block) for block in page["blocks"]], read)
    return Counts(
        pages=1,
        blocks=len(page["blocks"]),
        right=right,
        words=gold.total(),
        kept=(gold & Counter(read)).total(),
        heads=len(page["heads"]),
        let_in=let_in,
    )


def _is_let_in(head: Sequence[str], read: Sequence[str], lines: set[str]) -> bool:
    """Whether a running head was read: somewhere, or, if it is one word, as a line."""
    return bool(_places(head, read)) if len(head) > 1 else " ".join(head) in lines


def _ends(block: str) -> tuple[list[str], list[str]]:
    first, _, last = block.partition(_GAP)
    return words(first), words(last or first)


def _places(phrase: Sequence[str], read: Sequence[str]) -> list[int]:
    size = len(phrase)
    return [place for place in range(len(read) - size + 1) if list(read[place : place + size]) == list(phrase)]


def _right(blocks: Sequence[tuple[list[str], list[str]]], read: Sequence[str]) -> int:
    """How many blocks begin after the one before has ended, and hold the beginning of no other."""
    starts = [_places(first, read) for first, _ in blocks]
    only = {places[0]: number for number, places in enumerate(starts) if len(places) == 1}
    right = cursor = 0
    for number, (_, last) in enumerate(blocks):
        begin = next((place for place in starts[number] if place >= cursor), None)
        if begin is None:
            continue
        end = next((place + len(last) for place in _places(last, read) if place >= begin), None)
        if end is not None and not any(begin < place < end and only[place] != number for place in only):
            right += 1
            cursor = max(cursor, end)
    return right


def measure(layout: Mapping[str, Any], body: bytes) -> Counts:
    """Read a document, and count."""
    own, texts = pdfium(body), pilotlight(body)
    pages = (judge(page, own[page["number"]], texts.get(page["number"], "")) for page in layout["pages"])
    return sum(pages, Counts())


def main() -> None:
    """Fetch, measure, and print a table in Markdown."""
    print("| document | pages | blocks in order | words kept | running heads let in |\n|---|---|---|---|---|")
    rows: dict[str, Counts] = {}
    for layout in read_layouts():
        try:
            rows[layout["name"]] = counts = measure(layout, load(layout, CACHE))
        except NotFetched as error:
            print(f"skipped: {layout['name']}: {error}", file=sys.stderr)
            continue
        total = f"**{layout['half']}, all**"
        rows[total] = rows.get(total, Counts()) + counts
    for name, counts in rows.items():
        right, kept = 100 * counts.right / counts.blocks, 100 * counts.kept / counts.words
        heads = f"{counts.let_in} of {counts.heads}"
        print(f"| {name} | {counts.pages} | {right:.1f} of {counts.blocks} | {kept:.1f} | {heads} |")


if __name__ == "__main__":
    main()
