"""A model of an index: plain dictionaries that say which documents are there, and who may find them."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from indexer.read.access_list import FILE
from indexer.sources.pushed_store import SOURCE

Readers = tuple[str, ...] | None
SHARED = "harbour lantern anchor ladder barrel copper violet marble".split()
TYPES = {".md": "text/markdown", ".html": "text/html"}


@dataclass(frozen=True)
class Text:
    """The content of a document: words that no other text has, and some that many have."""

    number: int
    language: str = "en"
    date: str = "2026-01-31"
    team: str | None = None
    readers: Readers = None  # in its front matter

    @property
    def marker(self) -> str:
        """A word of this text alone."""
        return self.words[0]

    @property
    def title(self) -> str:
        return f"About {self.marker}"

    @property
    def words(self) -> list[str]:
        letters = hashlib.blake2b(str(self.number).encode(), digest_size=60).hexdigest()
        unique = [letters[place : place + 12].translate(_LETTERS) for place in range(0, 120, 12)]
        return [*unique, *(SHARED[(self.number >> shift) % len(SHARED)] for shift in (0, 2, 4))]

    def file(self, suffix: str) -> str:
        """Return the content of a file of this text."""
        sentence = f"{' '.join(self.words)}."
        if suffix == ".html":
            head = f'<title>{self.title}</title><meta name="date" content="{self.date}">'
            return (
                f'<html lang="{self.language}"><head>{head}</head>'
                f"<body><h1>{self.title}</h1><p>{sentence}</p></body></html>"
            )
        lines = ["---", f"language: {self.language}", f"date: {self.date}"]
        lines += [f"team: {self.team}"] if self.team else []
        lines += [f"access: {{groups: [{', '.join(self.readers)}]}}"] if self.readers is not None else []
        return "\n".join([*lines, "---", f"# {self.title}", "", sentence, ""])


_LETTERS = str.maketrans("0123456789abcdef", "bdfgklmnprstvzae")


@dataclass(frozen=True)
class Entry:
    """A page of an index; one without text is no document."""

    url: str
    source: str
    text: Text | None
    content_type: str = "text/markdown"
    stated: Readers = None  # by access lists beside it, or by its sender

    def has_content_of(self, other: "Entry | None") -> bool:
        """Return whether a page is, but for its source, as another one."""
        return other is not None and replace(other, source=self.source) == self


@dataclass(frozen=True)
class Caller:
    """Somebody who asks, as the key that they have."""

    groups: frozenset[str] | None = frozenset()  # None: whatever access lists say
    language: str | None = None
    collections: frozenset[str] | None = None

    def sees(self, entry: Entry) -> bool:
        """Return whether a document may be found."""
        assert entry.text
        if self.language is not None and entry.text.language != self.language:
            return False
        lists = (entry.stated, entry.text.readers)
        return self.groups is None or all(names is None or self.groups & {*names} for names in lists)


CALLERS = {
    "admin": Caller(groups=None),
    "staff": Caller(groups=frozenset({"staff"})),
    "plain": Caller(),
    "german": Caller(language="de"),
    "notes": Caller(groups=None, collections=frozenset({"notes"})),
}


@dataclass(frozen=True)
class Contents:
    """The content of one generation: sources, and pages by address."""

    sources: tuple[str, ...]
    pages: Mapping[str, Entry]

    @property
    def documents(self) -> dict[str, Entry]:
        return {url: entry for url, entry in self.pages.items() if entry.text}

    def without(self, sources: Iterable[str]) -> "Contents":
        """Return it without the documents of some sources."""
        gone = {*sources}
        left = {url: entry for url, entry in self.pages.items() if entry.source not in gone}
        return Contents(tuple(source for source in self.sources if source not in gone), left)


NOTHING = Contents((), {})


@dataclass
class Files:
    """The files below a folder: texts, None for one without text, and access lists."""

    root: Path
    texts: dict[str, Text | None] = field(default_factory=dict)
    lists: dict[str, Readers] = field(default_factory=dict)

    def write(self, path: str, text: Text | None) -> None:
        """Write a file."""
        self.texts[path] = text
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text.file(target.suffix) if text else " \n", encoding="utf-8")

    def remove(self, path: str) -> Text | None:
        """Remove a file; return its text."""
        (self.root / path).unlink()
        return self.texts.pop(path)

    def close(self, path: str, groups: Readers) -> None:
        """Write an access list, or remove it for None."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        self.lists.pop(path, None)
        target.unlink(missing_ok=True)
        if groups is not None:
            self.lists[path] = groups
            target.write_text(f"groups = [{', '.join(map(repr, groups))}]\n".replace("'", '"'), encoding="utf-8")

    def readers(self, path: str) -> Readers:
        """Return who may read a file: the nearest list counts, and one for no file closes its folder."""
        *folders, name = path.split("/")
        readers: Readers = None
        here = ""
        for folder in folders:
            here += f"{folder}/"
            own = {each.removeprefix(here): groups for each, groups in self.lists.items() if each.startswith(here)}
            own = {each.removesuffix(FILE): groups for each, groups in own.items() if "/" not in each}
            readers = own.get("", readers)
            if any(each and f"{here}{each}" not in self.texts for each in own):
                readers = ()
        return own.get(name, readers)

    def entries(self, source: str) -> list[Entry]:
        """Return the pages of a source in the order in which they are read, each content once."""
        folder = str(Path(source).relative_to(self.root))
        entries: list[Entry] = []
        contents = set()
        for path in sorted((each for each in self.texts if each.startswith(f"{folder}/")), key=_order):
            text, suffix, readers = self.texts[path], Path(path).suffix, self.readers(path)
            if (text, suffix, readers) not in contents:
                contents.add((text, suffix, readers))
                if text and suffix == ".html":
                    text = replace(text, team=None, readers=None)
                entries.append(Entry((self.root / path).as_uri(), source, text, TYPES[suffix], readers))
        return entries


def _order(path: str) -> list[tuple[bool, str]]:
    """Return what sorts files before the folders next to them."""
    *folders, name = path.split("/")
    return [*((True, folder) for folder in folders), (False, name)]


class Refused(Exception):
    """A build that has to leave the index as it was."""


def predict(
    live: Contents,
    sources: list[str],
    refresh: set[str],
    files: Files,
    pushed: Mapping[str, Text | None],
    *,
    full: bool = False,
    allow_shrink: bool = False,
) -> Contents:
    """Return what a build makes of an index. Raises Refused."""
    if SOURCE in live.sources or any(pushed.values()) or not sources:
        sources = [*(source for source in sources if source != SOURCE), SOURCE]
    taken_over: set[str] = set()  # as they have shrunk
    while True:
        resting = {source for source in live.sources if source in sources and source not in refresh and not full}
        resting = (resting | taken_over) - {SOURCE}
        pages = {url: entry for url, entry in live.pages.items() if entry.source in resting}
        rested = {*pages}
        if SOURCE in sources:
            pages |= {url: _sent(url, text) for url, text in pushed.items() if text}
            pages |= {url: entry for url, entry in live.pages.items() if entry.source == SOURCE and url not in pushed}
        for source in sources:
            if source not in resting and source != SOURCE:
                for entry in files.entries(source):
                    if entry.url not in rested:
                        pages.setdefault(entry.url, entry)
                if not allow_shrink and _has_shrunk(source, live, pages, full=full):
                    taken_over.add(source)
                    break
        else:
            break
        if not {*sources}.intersection(refresh) - {SOURCE, *taken_over}:
            raise Refused
    made = Contents(tuple(sources), pages)
    if not made.documents and sources != [SOURCE]:
        raise Refused
    return made


def _sent(url: str, text: Text) -> Entry:
    return Entry(url, SOURCE, replace(text, readers=None), "text/plain", text.readers)


def _has_shrunk(source: str, live: Contents, pages: Mapping[str, Entry], *, full: bool) -> bool:
    """Return whether a source has lost most of its documents, or of its different texts."""
    before = {url: entry.text.number for url, entry in live.documents.items() if entry.text and entry.source == source}
    now = {
        url: entry.text.number
        for url, entry in pages.items()
        if entry.text
        and (url in before or (entry.source == source and (full or not entry.has_content_of(live.pages.get(url)))))
    }
    for old, new in ((len(before), len(now)), (len({*before.values()}), len({*now.values()}))):
        if (old and not new) or (new < old / 2 and old - new >= 5):
            return True
    return False
