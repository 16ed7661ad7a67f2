"""Collections with questions whose right answers are known: what is searched, what is asked, what counts as found.

Questions of manuals were written from the manuals, before any search was run over them, and name the pages and anchors
that answer them. Others are made by rule, from texts that say themselves what belongs together: a FAQ's question and
its answer, the beginning of an abstract and the rest of it. No text of another project is kept here: manuals come from
Debian's packages, abstracts from a folder in BEIR's layout. Half of each collection's questions are held out: they are
only measured, and nothing is chosen by them.
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
LEAD = 3  # sentences of an abstract that are the query; the rest, at least as many, answers it
ASKED, SEARCHED = 300, 2_000  # abstracts
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
_FAQ = {
    "": "427426e0cfa6888622fc1d72631071cb4b5a1f86ccde722e7820bcef284de5d0",
    "-de": "e9a8d8234f4b182660d521f80f50cea87f797b4541005a3d64fab7777766f6de",
    "-fr": "e83cbcc28106fc35f6665a6b0c54c2bd66db481de409764ce35b715baca510df",
}
_SECTION = re.compile(r"^(section|chapter|article|book|part|preface|appendix|sect\d|refsect\d)$")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_NUMBER = re.compile(r"^(Chapter|Kapitel|Chapitre)?\s*[\d.]+\s+")


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


def collections(work: Path, scifact: Path | None, names: Iterable[str]) -> Iterator[Collection]:
    """Prepare the collections named, or all; says which are not to be had here and why.

    Args:
        work: folder for packages and for the files of collections that are made by rule.
        scifact: folder of the dataset in BEIR's layout, for `abstracts`.
        names: of NAMES; none for all.
    """
    for name in names or NAMES:
        try:
            yield _MADE[name](name, work, scifact)
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


def _postgresql(name: str, work: Path, scifact: Path | None) -> Collection:
    files = sorted(_installed(POSTGRESQL).glob("*.html"))
    return _written(name, {"": POSTGRESQL}, files, seen=True)


def _python(name: str, work: Path, scifact: Path | None) -> Collection:
    """Tutorial, HOWTOs, FAQ, usage, and a third of the library's pages, chosen by their names before any question."""
    folders = [_installed(PYTHON) / folder for folder in ("tutorial", "howto", "faq", "using")]
    pages = [page for folder in folders for page in sorted(folder.glob("*.html"))]
    library = sorted((PYTHON / "library").glob("*.html"))
    pages += [page for page in library if hashlib.sha256(page.name.encode()).digest()[0] % 3 == 0]
    return replace(_written(name, {"": PYTHON}, pages), index="python")


def _translated(name: str, work: Path, scifact: Path | None) -> Collection:
    """Debian's handbook and reference in a language."""
    language, place = {"german": ("de", "de-DE"), "french": ("fr", "fr-FR"), "spanish": ("es", "es-ES")}[name]
    reference = {"debian": f"debian-reference-{language}", "version": "2.100", "sha256": _REFERENCE[language]}
    folders = {
        "handbook": fetch(_HANDBOOK, work) / "usr/share/doc/debian-handbook/html" / place,
        "reference": fetch(reference, work) / "usr/share/debian-reference",
    }
    return _written(name, folders, [page for folder in folders.values() for page in sorted(folder.glob("*.html"))])


def _faq(name: str, work: Path, scifact: Path | None) -> Collection:
    """Questions of Debian's FAQ, in English with those of Python's; the answers alone are searched, a file each."""
    suffix = {"faq": "", "faq-german": "-de", "faq-french": "-fr"}[name]
    package = {"debian": f"debian-faq{suffix}", "version": "11.1", "sha256": _FAQ[suffix]}
    folder = fetch(package, work) / "usr/share/doc/debian/FAQ" / suffix.strip("-")
    pages = sorted(folder.glob(f"*.{suffix.strip('-') or 'en'}.html"))
    if not suffix:
        pages += sorted((_installed(PYTHON) / "faq").glob("*.html"))
    return _made(name, work, [pair for page in pages for pair in _questions_of(page)])


def _questions_of(page: Path) -> Iterator[tuple[str, str]]:
    """Questions and answers of a page: sections whose headings end in a question mark, without sections in them."""
    for section in parsed(page.read_bytes()).find_all(_is_section):
        heading = _heading(section)
        if heading is None or section.find(_is_section):
            continue
        question = _NUMBER.sub("", " ".join(heading.get_text(" ").split()).removesuffix("¶").strip())
        if question.endswith("?"):
            yield question, _without_heading(section)


def _abstracts(name: str, work: Path, scifact: Path | None) -> Collection:
    """The first sentences of an abstract, and the rest of it, which answers; titles and judgements are not used."""
    if scifact is None:
        raise NotFetched("--scifact names no folder")
    rows = map(json.loads, (scifact / "corpus.jsonl").read_text(encoding="utf-8").splitlines())
    drawn = sorted(rows, key=lambda row: hashlib.sha256(row["_id"].encode()).digest())
    abstracts = [_SENTENCE.split(row["text"].strip()) for row in drawn]
    long = [sentences for sentences in abstracts if len(sentences) >= 2 * LEAD][:SEARCHED]
    pairs = [(" ".join(sentences[:LEAD]), " ".join(sentences[LEAD:])) for sentences in long]
    return _made(name, work, pairs[:ASKED] + [("", text) for _, text in pairs[ASKED:]])


def _made(name: str, work: Path, pairs: Sequence[tuple[str, str]]) -> Collection:
    """A collection of question and text, a file each; without a question, a text is only searched."""
    folder = work / "texts" / name
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{number:05}.txt" for number in range(len(pairs))]
    asked: dict[str, list[Answer]] = {}  # a question may stand in two FAQs
    for file, (question, text) in zip(files, pairs, strict=True):
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
        if question:
            asked.setdefault(question, []).append(Answer(file.as_uri()))
    halves = halved(list(asked))
    questions = [Question(question, tuple(answers), halves[question]) for question, answers in asked.items()]
    return Collection(name, tuple(files), tuple(questions), 1)


_MADE: Mapping[str, Callable[[str, Path, Path | None], Collection]] = {
    "postgresql": _postgresql,
    "python": _python,
    "python-long": _python,
    "german": _translated,
    "french": _translated,
    "spanish": _translated,
    "faq": _faq,
    "faq-german": _faq,
    "faq-french": _faq,
    "abstracts": _abstracts,
}
NAMES = tuple(_MADE)
