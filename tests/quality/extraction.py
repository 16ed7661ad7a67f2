"""How much of a page's own words is extracted, and how much navigation, by each generator's own main element.

`python -m tests.quality.extraction [ROOT]` prints the table; ROOT is where Debian's packages lie, / unless told.
"""

import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from bs4 import BeautifulSoup

from indexer.folder import read_path
from indexer.parsing import LinkList, parse
from indexer.records import Page

PAGES = 55  # of each generator, spread over the names in order
_STEP = 7919  # a prime, so that multiples of it visit the names of a folder in no order of theirs
_LEAST = 100  # words of a page that counts


@dataclass(frozen=True, slots=True)
class Generator:
    """Pages of one generator, and where it puts what."""

    name: str
    folder: str  # below the root; of the Debian package
    package: str
    main: str  # selects the main element; the body where it is empty
    within: str  # selects navigation within it: permalinks, contents lists, links to other pages


GENERATORS = (
    Generator(
        "DocBook", "usr/share/doc/postgresql-doc-15/html", "postgresql-doc-15", "body", ".navheader, .navfooter, .toc"
    ),
    Generator(
        "Sphinx", "usr/share/doc/python3.11/html/library", "python3.11-doc", "div.body", ".headerlink, .toctree-wrapper"
    ),
    Generator("Doxygen", "usr/share/doc/libglfw3-dev/html", "libglfw3-doc", "div.contents", ".permalink, .toc"),
    Generator("Texinfo", "usr/share/doc/octave/octave.html", "octave-doc", "body", ".header, .menu, .contents"),
)


@dataclass(frozen=True, slots=True)
class Shares:
    """What became of the words of some pages."""

    pages: int
    kept: float  # share of the body's words that were extracted
    navigation: float  # share of the navigation's words that were


def measure(generator: Generator, root: Path = Path("/")) -> Shares:
    """Read pages that have a main element of 100 words at least, and that are no mere list of links."""
    body = navigation = found = leaked = pages = 0
    names = sorted((root / generator.folder).glob("*.html"))
    spread = sorted(range(len(names)), key=lambda place: place * _STEP % len(names))
    for path in (names[place] for place in spread):
        own, other = truth(generator, path)
        got = extracted(path) if own.total() >= _LEAST else None
        if got is None:
            continue
        body += own.total()
        navigation += other.total()
        text, headings = got
        found += (own & (text + headings)).total()
        leaked += (other & (text - own)).total()
        pages += 1
        if pages == PAGES:
            break
    return Shares(pages, found / body, leaked / max(1, navigation))


def truth(generator: Generator, path: Path) -> tuple[Counter[str], Counter[str]]:
    """Words of the main element, and those of the rest of the page."""
    soup = BeautifulSoup(path.read_bytes(), "lxml")
    for tag in soup.select("script, style, noscript, head, template"):
        tag.decompose()
    everything = words(soup.get_text(" "))
    main = soup.select_one(generator.main)
    if main is None:
        return Counter(), everything
    for tag in main.select(generator.within):
        tag.decompose()
    own = words(main.get_text(" "))
    return own, everything - own


def extracted(path: Path) -> tuple[Counter[str], Counter[str]] | None:
    """Words of the text and of the headings that the build reads; None for a page left out as a list of links."""
    [page] = read_path(str(path), 10_000_000, lambda _: None)
    assert isinstance(page, Page)
    try:
        document = parse(page)
    except LinkList:
        return None
    headings = {section.path[-1] for section in document.sections if section.path}
    return words(" ".join(section.text for section in document.sections)), words(" ".join(headings))


def words(text: str) -> Counter[str]:
    """Runs of letters and digits, in lower case."""
    return Counter(re.findall(r"\w+", text.lower()))


def main() -> None:
    """Print the table in Markdown."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "/")
    print("| generator | pages | words of the body kept | words of the navigation let in |\n|---|---|---|---|")
    for generator in GENERATORS:
        shares = measure(generator, root)
        print(f"| {generator.name} | {shares.pages} | {shares.kept:.2%} | {shares.navigation:.2%} |")


if __name__ == "__main__":
    main()
