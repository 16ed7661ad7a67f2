"""Collections with questions whose right answers are known: what is searched, what is asked, what counts as found.

Questions of manuals were written from the manuals, before any search was run over them, and name the pages and anchors
that answer them. No text of another project is kept here: manuals come from Debian's packages. Half of each
collection's questions are held out: they are only measured, and nothing is chosen by them.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from bs4 import BeautifulSoup, Tag

from tests.quality.gold import HEADINGS, parsed
from tests.quality.packages import NotFetched, fetch

HALVES = ("development", "held-out")
POSTGRESQL = Path("/usr/share/doc/postgresql-doc-15/html")
PYTHON = Path("/usr/share/doc/python3.11/html")
_HERE = Path(__file__).parent
_HANDBOOK = {
    "debian": "debian-handbook",
    "version": "11.20220922",
    "sha256": "3d5dbeac1f1afc9c094eab9d0f701f6ecff99c4927d5a4794cf6c85678134faa",
}
_REFERENCE = {
    "de": "3b0ce65fd63e75ddf8eb07ca36293425135080e690a07e06a6ac8bc8040ef0aa",
    "fr": "01424cba9bfa2e13166da22d3d692d33a22ec7d8ef935ec81fd8802746087f65",
    "es": "a59b68c96f83d3cf29a476c847aee38364764603ea62eee592791e0a843a269e",
}
_SECTION = re.compile(r"^(section|chapter|article|book|part|preface|appendix|sect\d|refsect\d)$")


@dataclass(frozen=True, slots=True)
class Answer:
    """A place in a collection that answers a question."""

    page: str  # address without anchor
    anchors: frozenset[str] | None = None  # those of the section and in it, "" for the top; None: the whole page
    text: str = ""  # of the section, letters and digits alone

    def given_by(self, url: str, text: str) -> bool:
        """Whether a hit is of this place, or holds it whole."""
        page, _, anchor = url.partition("#")
        return page == self.page and (
            self.anchors is None or anchor in self.anchors or (bool(self.text) and self.text in squeezed(text))
        )


@dataclass(frozen=True, slots=True)
class Question:
    """A query, and the places that answer it."""

    text: str
    answers: tuple[Answer, ...]
    half: str  # one of HALVES


@dataclass(frozen=True, slots=True)
class Collection:
    """What is searched, and what is asked of it."""

    name: str
    files: tuple[Path, ...]
    questions: tuple[Question, ...]
    per_document: int  # hits of one document at most; 0 for any number
    index: str = ""  # the collection whose index is asked, if it is another one's, of the same files


def collections(work: Path, names: Iterable[str]) -> Iterator[Collection]:
    """Prepare the collections named, or all; says which cannot be had here and why. `work` is for packages."""
    for name in names or NAMES:
        try:
            yield _MADE[name](name, work)
        except NotFetched as missing:
            print(f"{name}: left out, {missing}")


def halved(texts: Sequence[str]) -> dict[str, str]:
    """Return the half of each question: in the order of the SHA-256 of their texts, every second one is held out."""
    order = sorted(texts, key=lambda text: hashlib.sha256(text.encode()).digest())
    return {text: HALVES[place % 2] for place, text in enumerate(order)}


def squeezed(text: str) -> str:
    """Return letters and digits alone, in lower case."""
    return re.sub(r"\W+", "", text).lower()


def place(page: Path, anchor: str) -> Answer:
    """Find the section, or the entry of a list of terms, that an id names; raises ValueError if the page has none."""
    soup = _soup(page)
    named = soup.find(id=anchor)
    if not isinstance(named, Tag):
        raise ValueError(f"{page} has no id {anchor}")
    parts = list(_extent(named))
    anchors = {str(tag["id"]) for part in parts for tag in [part, *part.find_all(id=True)] if tag.get("id")}
    first = soup.find("h1") or soup.find("h2")
    if first is not None and {*map(id, parts)} & {*map(id, first.parents)}:
        anchors.add("")
    text = "".join(squeezed(_without_heading(part)) for part in parts)
    return Answer(page.as_uri(), frozenset(anchors), text)


@cache
def _soup(page: Path) -> BeautifulSoup:
    return parsed(page.read_bytes())


def _extent(named: Tag) -> Iterator[Tag]:
    """Elements that an id stands for."""
    term = named if named.name == "dt" else named.find_parent("dt")
    if term is not None:
        yield term
        for sibling in term.find_next_siblings(("dt", "dd")):
            if sibling.name == "dt":
                return
            yield sibling
    elif _is_section(named):
        yield named
    else:
        yield named.find_parent(_is_section) or named


def _is_section(tag: Tag) -> bool:
    return tag.name == "section" or (tag.name == "div" and any(map(_SECTION.match, tag.get_attribute_list("class"))))


def _heading(section: Tag) -> Tag | None:
    """A section's own heading, not one of a section in it."""
    found = section.find(HEADINGS)
    return found if found is not None and found.find_parent(_is_section) is section else None


def _without_heading(tag: Tag) -> str:
    """Text but for the heading, which a passage has beside its text."""
    heading = _heading(tag) if _is_section(tag) else None
    return tag.get_text(" ").replace(heading.get_text(" "), "", 1) if heading else tag.get_text(" ")


def _written(name: str, folders: Mapping[str, Path], files: Sequence[Path], *, seen: bool = False) -> Collection:
    """A collection whose questions are in a file here, with addresses below the folders; "" is the only folder.

    Questions by which something was chosen before halves were made are all of the development half (`seen`).
    """
    rows = [json.loads(line) for line in (_HERE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    halves = halved([row["question"] for row in rows])
    questions = []
    for row in rows:
        places = []
        for url in row.get("answers") or [row["url"]]:
            root, _, path = ("", "", url) if "" in folders else url.partition("/")
            page, _, anchor = path.partition("#")
            places.append(place(folders[root] / page, anchor))
        half = HALVES[0] if seen else halves[row["question"]]
        questions.append(Question(row["question"], tuple(places), half))
    return Collection(name, tuple(files), tuple(questions), 0)


def _installed(folder: Path) -> Path:
    if not folder.is_dir():
        raise NotFetched(f"there is no {folder}")
    return folder


def _postgresql(name: str, work: Path) -> Collection:
    files = sorted(_installed(POSTGRESQL).glob("*.html"))
    return _written(name, {"": POSTGRESQL}, files, seen=True)


def _python(name: str, work: Path) -> Collection:
    """Tutorial, HOWTOs, FAQ, usage, and a third of the library's pages, chosen by their names before any question."""
    folders = [_installed(PYTHON) / folder for folder in ("tutorial", "howto", "faq", "using")]
    pages = [page for folder in folders for page in sorted(folder.glob("*.html"))]
    library = sorted((PYTHON / "library").glob("*.html"))
    pages += [page for page in library if hashlib.sha256(page.name.encode()).digest()[0] % 3 == 0]
    return replace(_written(name, {"": PYTHON}, pages), index="python")


def _translated(name: str, work: Path) -> Collection:
    """Debian's handbook and reference in a language."""
    language, place = {"german": ("de", "de-DE"), "french": ("fr", "fr-FR"), "spanish": ("es", "es-ES")}[name]
    reference = {"debian": f"debian-reference-{language}", "version": "2.100", "sha256": _REFERENCE[language]}
    folders = {
        "handbook": fetch(_HANDBOOK, work) / "usr/share/doc/debian-handbook/html" / place,
        "reference": fetch(reference, work) / "usr/share/debian-reference",
    }
    return _written(name, folders, [page for folder in folders.values() for page in sorted(folder.glob("*.html"))])


_MADE: Mapping[str, Callable[[str, Path], Collection]] = {
    "postgresql": _postgresql,
    "python": _python,
    "python-long": _python,
    "german": _translated,
    "french": _translated,
    "spanish": _translated,
}
NAMES = tuple(_MADE)
