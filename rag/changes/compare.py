"""Two snapshots of documents compared: sections added, removed, rewritten, moved and renamed, without noise.

Documents are aligned by their sentences. Passages may hold several short sections, so a short line above others counts
as a heading too; headings say where a change is, and only sentences and headings that differ are changes.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Literal

from indexer.records import SEPARATOR
from rag.messages import DocumentChange, Edit, SectionChange
from rag.query.headings import without_number
from rag.query.results import section_within

MIN_SAME_TEXT = 0.5  # share of the characters of a section that a moved or renamed one has
MIN_SAME_WORDS = 0.4  # share of the words that two forms of a sentence have in common
MIN_NOISE_DOCUMENTS, MIN_NOISE_SHARE = 3, 0.2  # documents in which the same change is furniture
_MAX_STAMP_WORDS = 5
_MAX_HEADING_CHARS, _MAX_HEADING_WORDS = 100, 10
_MAX_PLACES = 20  # more sections share a sentence that says nothing about a move
_MAX_ALIGNMENTS = 1_000_000  # pairs of equal sentences of a document; with more, their order is ignored
_MAX_FORMS = 10_000  # pairs of sentences that are compared by their words
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^\sa-z])|(?<=[。！？])|\n+")
_NO_HEADING = re.compile(r"[|={}();<>\\]|[.!?:;,…。、]$")
_DIGITS = re.compile(r"\d+(?:[.,:]\d+)*")
_DATE = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}"
    r"|\d{1,2}\.? +[^\W\d_]{3,9}\.?,? +\d{4}|[^\W\d_]{3,9}\.? +\d{1,2}(?:st|nd|rd|th)?,? +\d{4}"
)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class TextLine:
    """A sentence or a line of a document, and the section that it is in."""

    plain: str
    text: str
    section: str
    url: str
    headings: tuple[str, ...]


@dataclass
class DocumentText:
    """A document of a snapshot by its sentences."""

    key: str
    url: str
    title: str
    version: str = ""
    lines: list[TextLine] = field(default_factory=list)
    headings: dict[str, tuple[str, str]] = field(default_factory=dict)  # heading to section and address

    def add_passage(self, headings: str, url: str, text: str) -> None:
        """Add a passage with its heading path."""
        path = section_within(self.title, headings)
        section, blocks = path, text.split("\n\n")
        self._add_heading(section, url)
        for number, block in enumerate(blocks):
            if number + 1 < len(blocks) and is_heading(block):
                section = block.strip()
                self._add_heading(section, url)
                continue
            bare = self._bare_headings(section)
            for sentence in _SENTENCE_END.split(block):
                if plain := self._plain(sentence):
                    self.lines.append(TextLine(plain, sentence.strip(), section, url, bare))

    @property
    def name(self) -> str:
        """The title in the form that is compared."""
        return self._bare_headings(self.title)[-1]

    def _add_heading(self, section: str, url: str) -> None:
        names = section.split(SEPARATOR)
        for depth, heading in enumerate(self._bare_headings(section), 1):
            if heading:
                self.headings.setdefault(heading, (SEPARATOR.join(names[:depth]), url))

    def _bare_headings(self, section: str) -> tuple[str, ...]:
        """Return the headings of a path without their numbers, dates and the version of the manual."""
        return tuple(without_number(self._plain(name)) for name in section.split(SEPARATOR))

    def _plain(self, sentence: str) -> str:
        """Return a sentence without its white space and the version of the manual, and a stamp without its date."""
        plain = " ".join(sentence.split())
        if self.version:
            plain = re.sub(rf"(?<![\w.]){re.escape(self.version)}(?!\.?\d)", "*", plain)
        bare, dates = _DATE.subn("*", plain)
        is_stamp = bool(dates) and plain[-1] not in ".!?" and len(_WORD.findall(bare)) <= _MAX_STAMP_WORDS
        return bare if is_stamp else plain


def is_heading(block: str) -> bool:
    """Return whether a block above others looks like a heading: one short line, neither a sentence nor code."""
    line = block.strip()
    is_short = len(line) <= _MAX_HEADING_CHARS and len(line.split()) <= _MAX_HEADING_WORDS and "\n" not in line
    return bool(line) and is_short and not line[0].islower() and line[0].isalnum() and not _NO_HEADING.search(line)


@dataclass
class SectionDiff:
    """The sentences of one section that differ."""

    document: int
    line: TextLine
    pairs: list[Edit] = field(default_factory=list)
    removed: list[TextLine] = field(default_factory=list)
    added: list[TextLine] = field(default_factory=list)

    def edits(self) -> tuple[Edit, ...]:
        """Return the sentences that differ."""
        removed, added = (
            [Edit(line.text, None) for line in self.removed],
            [Edit(None, line.text) for line in self.added],
        )
        return (*self.pairs, *removed, *added)


DocumentPair = tuple[DocumentText | None, DocumentText | None]


def compare(
    old: Mapping[str, DocumentText], new: Mapping[str, DocumentText], total: int
) -> tuple[list[DocumentChange], int]:
    """Compare documents; return the changes, and the number of sections in which only noise differs.

    Args:
        old: the documents that may differ, by a key that is the same in both snapshots.
        new: the same of the later snapshot.
        total: the number of all documents; changes that many of them share are furniture.
    """
    gone, arrived = ([each[key] for key in sorted(each.keys() - other)] for each, other in ((old, new), (new, old)))
    origins = _find_origins([each.lines for each in gone], [each.lines for each in arrived])
    moved = {arrived[place].key: gone[origin].key for place, origin in origins.items()}
    old_keys = set(moved.values())
    keys = [key for key in {**new, **old} if key not in old_keys]
    documents = [(old.get(moved.get(key, key)), new.get(key)) for key in keys]
    diffs = [diff for number, pair in enumerate(documents) for diff in _align(number, *pair)]
    noise = _drop_noise(diffs, max(MIN_NOISE_DOCUMENTS, round(MIN_NOISE_SHARE * total)))
    origins = _find_origins(
        [[] if diff.pairs or diff.added else diff.removed for diff in diffs],
        [[] if diff.pairs or diff.removed else diff.added for diff in diffs],
    )
    moved_away = set(origins.values())
    sections = [list[SectionChange]() for _ in documents]
    for place, diff in enumerate(diffs):
        if place in origins:
            sections[diff.document].append(_moved_section(diffs[origins[place]], diff))
        elif place not in moved_away and diff.edits():
            sections[diff.document].append(_section_change(diff, documents[diff.document]))
    for pair, changes in zip(documents, sections, strict=True):
        changes += _renamed_sections(*pair, changes)
    changed = [_document_change(*pair, changes) for pair, changes in zip(documents, sections, strict=True)]
    return [change for change in changed if change], noise


def _align(number: int, before: DocumentText | None, after: DocumentText | None) -> Iterable[SectionDiff]:
    """Return the sections of a document in which sentences differ."""
    old, new = before.lines if before else [], after.lines if after else []
    counts = [Counter(line.plain for line in lines) for lines in (old, new)]
    if sum(count * counts[1][plain] for plain, count in counts[0].items()) > _MAX_ALIGNMENTS:
        runs = [
            (
                [line for line in old if line.plain not in counts[1]],
                [line for line in new if line.plain not in counts[0]],
            )
        ]
    else:
        matcher = SequenceMatcher(None, [line.plain for line in old], [line.plain for line in new], autojunk=False)
        runs = [(old[a:b], new[c:d]) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]
    diffs: dict[str, SectionDiff] = {}

    def diff_of(line: TextLine) -> SectionDiff:
        return diffs.setdefault(line.headings[-1], SectionDiff(number, line))

    # a short line counts as a heading only where others follow it
    old_headings, new_headings = (
        {_frame(each) for each in side.headings} if side else set() for side in (before, after)
    )
    for removed, added in runs:
        added = [line for line in added if _frame(line.plain) not in old_headings]
        are_few = len(removed) * len(added) <= _MAX_FORMS
        for line in removed:
            form = next((each for each in added if _are_forms(line.text, each.text)), None) if are_few else None
            if form is not None:
                diff_of(form).pairs.append(Edit(line.text, form.text))
                added.remove(form)
            elif _frame(line.plain) not in new_headings:
                diff_of(line).removed.append(line)
        for line in added:
            diff_of(line).added.append(line)
    return diffs.values()


def _frame(text: str) -> str:
    return _DIGITS.sub("#", text)


def _are_forms(old: str, new: str) -> bool:
    """Return whether two sentences are forms of one, by their words."""
    first, second = Counter(_WORD.findall(old)), Counter(_WORD.findall(new))
    return (first & second).total() >= MIN_SAME_WORDS * max(first.total(), second.total(), 1)


def _drop_noise(diffs: Sequence[SectionDiff], limit: int) -> int:
    """Drop the edits that so many documents share; return the number of sections in which nothing else differs."""
    keys = {(diff.document, key) for diff in diffs for edit in diff.edits() for key in _noise_keys(edit)}
    counts = Counter(key for _, key in keys)

    def is_change(edit: Edit) -> bool:
        return all(counts[key] < limit for key in _noise_keys(edit))

    for diff in diffs:
        diff.pairs = list(filter(is_change, diff.pairs))
        diff.removed = [line for line in diff.removed if is_change(Edit(line.text, None))]
        diff.added = [line for line in diff.added if is_change(Edit(None, line.text))]
    return sum(not diff.edits() for diff in diffs)


def _noise_keys(edit: Edit) -> Iterator[tuple[str, str]]:
    """Yield an edit in the forms that other documents may share: as it is, and without numbers if only they differ."""
    old, new = edit.old or "", edit.new or ""
    yield old, new
    if (frame := _frame(old)) == _frame(new):
        yield frame, frame


def _find_origins(removed: Sequence[list[TextLine]], added: Sequence[list[TextLine]]) -> dict[int, int]:
    """Return the place of the removed text by the place of the added text that has most of its sentences."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, lines in enumerate(removed):
        for line in lines:
            places[line.plain].append(place)
    origins: dict[int, int] = {}
    used = set[int]()
    for place, lines in enumerate(added):
        shared = Counter[int]()
        for line in lines:
            if len(sections := places.get(line.plain, ())) <= _MAX_PLACES:
                shared.update(dict.fromkeys(sections, len(line.plain)))
        for origin, length in shared.most_common():
            size = max(sum(len(line.plain) for line in each) for each in (lines, removed[origin]))
            if origin not in used and length >= MIN_SAME_TEXT * size:
                origins[place] = origin
                used.add(origin)
                break
    return origins


def _moved_section(old: SectionDiff, new: SectionDiff) -> SectionChange:
    before, after = {line.plain for line in old.removed}, {line.plain for line in new.added}
    removed = [line.text for line in old.removed if line.plain not in after]
    added = [line.text for line in new.added if line.plain not in before]
    edits = tuple(Edit(*texts) for texts in zip_longest(removed, added))
    is_renamed = old.document == new.document and old.line.headings[-1] != new.line.headings[-1]
    kind: Literal["moved", "renamed"] = "renamed" if is_renamed else "moved"
    return SectionChange(kind, new.line.section, new.line.url, edits, old.line.section, old.line.url)


def _section_change(diff: SectionDiff, documents: DocumentPair) -> SectionChange:
    kind: Literal["added", "removed", "rewritten"] = "rewritten"
    heading = diff.line.headings[-1]
    is_missing = [side is None or (heading != "" and heading not in side.headings) for side in documents]
    if is_missing[0] and not (diff.pairs or diff.removed):
        kind = "added"
    elif is_missing[1] and not (diff.pairs or diff.added):
        kind = "removed"
    return SectionChange(kind, diff.line.section, diff.line.url, diff.edits())


def _renamed_sections(
    before: DocumentText | None, after: DocumentText | None, changes: Sequence[SectionChange]
) -> list[SectionChange]:
    """Return the sections of which only the heading differs."""
    if before is None or after is None:
        return []
    reported = {each.section for each in changes if each.kind != "rewritten"}
    removed = {
        line.plain: [each for each in line.headings if each and each not in after.headings] for line in before.lines
    }
    names: dict[str, Counter[str]] = defaultdict(Counter)
    for line in after.lines:
        for heading in line.headings:
            if heading not in before.headings:
                names[heading].update(dict.fromkeys(removed.get(line.plain, ()), len(line.plain)))
    renamed = []
    for heading, (section, url) in after.headings.items():
        if names[heading] and section not in reported:
            old_section, old_url = before.headings[names[heading].most_common(1)[0][0]]
            renamed.append(SectionChange("renamed", section, url, (), old_section, old_url))
    return renamed


def _document_change(
    old: DocumentText | None, new: DocumentText | None, sections: list[SectionChange]
) -> DocumentChange | None:
    """Return the change of a document, None if only noise differs."""
    if old is None or new is None:
        document = new or old
        assert document is not None  # noqa: S101 - a pair has one
        return DocumentChange("added" if new else "removed", document.url, document.title, sections)
    is_moved, is_renamed = old.key != new.key, old.name != new.name
    if not (sections or is_moved or is_renamed):
        return None
    kind: Literal["moved", "renamed", "changed"] = "moved" if is_moved else "renamed" if is_renamed else "changed"
    return DocumentChange(kind, new.url, new.title, sections, old.url, old.title)
