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
from rag.query.results import section_within
from rag.query.retriever import without_number

MIN_SAME_TEXT = 0.5  # share of the characters of a section that a moved or renamed one has
MIN_SAME_WORDS = 0.4  # share of the words that two forms of a sentence have in common
MIN_NOISE_DOCUMENTS, MIN_NOISE_SHARE = 3, 0.2  # documents in which the same change is furniture
_MAX_STAMP_WORDS = 5  # besides the date
_MAX_HEADING_CHARS, _MAX_HEADING_WORDS = 100, 10
_MAX_PLACES = 20  # sections with one sentence by which a moved one is recognised
_MAX_ALIGNED = 5_000  # sentences of a document that are compared in order
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^\sa-z])|(?<=[。！？])|\n+")
_NO_HEADING = re.compile(r"[|={}();<>\\]|[.!?:;,…。、]$")
_SPACE = re.compile(r"\s+")
_DIGITS = re.compile(r"\d+(?:[.,:]\d+)*")
_DATE = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}"
    r"|\d{1,2}\.? +[^\W\d_]{3,9}\.?,? +\d{4}|[^\W\d_]{3,9}\.? +\d{1,2}(?:st|nd|rd|th)?,? +\d{4}"
)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class TextLine:
    """A sentence or a line of a document, and the section that it is in."""

    plain: str  # as it is compared
    text: str
    section: str  # headings below the title, as they are shown
    url: str
    headings: tuple[str, ...]  # the same as they are compared

    @property
    def heading(self) -> str:
        """The last heading."""
        return self.headings[-1]


@dataclass
class DocumentText:
    """A document of a snapshot by its sentences."""

    key: str  # the same in both snapshots
    url: str
    title: str
    version: str = ""
    lines: list[TextLine] = field(default_factory=list)
    headings: dict[str, tuple[str, str]] = field(default_factory=dict)  # section and address by heading

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
            for part in _SENTENCE_END.split(block):
                if plain := self._plain(part):
                    self.lines.append(TextLine(plain, part.strip(), section, url, bare))

    @property
    def name(self) -> str:
        """The title as it is compared."""
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
        plain = _SPACE.sub(" ", sentence).strip()
        if self.version:
            plain = re.sub(rf"(?<![\w.]){re.escape(self.version)}(?!\.?\d)", "*", plain)
        bare, dates = _DATE.subn("*", plain)
        is_stamp = bool(dates) and plain[-1] not in ".!?" and len(_WORD.findall(bare)) <= _MAX_STAMP_WORDS
        return bare if is_stamp else plain


def is_heading(block: str) -> bool:
    """Return whether a block that others follow looks like a heading: one short line that is no sentence or code."""
    line = block.strip()
    is_short = len(line) <= _MAX_HEADING_CHARS and len(line.split()) <= _MAX_HEADING_WORDS and "\n" not in line
    return bool(line) and is_short and not line[0].islower() and line[0].isalnum() and not _NO_HEADING.search(line)


@dataclass
class SectionDiff:
    """The sentences of one section that differ."""

    document: int
    section: str
    url: str
    heading: str
    pairs: list[Edit] = field(default_factory=list)
    gone: list[TextLine] = field(default_factory=list)
    come: list[TextLine] = field(default_factory=list)

    def edits(self) -> Iterator[Edit]:
        """Yield the sentences that differ."""
        yield from self.pairs
        yield from (Edit(line.text, None) for line in self.gone)
        yield from (Edit(None, line.text) for line in self.come)


def compare(
    old: Mapping[str, DocumentText], new: Mapping[str, DocumentText], total: int
) -> tuple[list[DocumentChange], int]:
    """Compare the documents that differ; return the changes, and the number of sections with noise only.

    Args:
        old: documents by what is the same in both snapshots, such as their address; only those that may differ.
        new: the same of the later snapshot.
        total: the number of all documents, by which changes of furniture are known.
    """
    moved = _find_moved_documents(old, new)
    keys = [key for key in {**new, **old} if key not in moved.values()]
    documents = [(old.get(moved.get(key, key)), new.get(key)) for key in keys]
    groups = [group for number, pair in enumerate(documents) for group in _align(number, *pair)]
    limit = max(MIN_NOISE_DOCUMENTS, round(MIN_NOISE_SHARE * total))
    counts = Counter(key for _, key in {(each.document, key) for each in groups for key in _noise_keys(each.edits())})

    def is_noise(*edit: str | None) -> bool:
        return any(counts[key] >= limit for key in _noise_keys([Edit(*edit)]))

    noise, sections = 0, [list[SectionChange]() for _ in documents]
    for group in groups:
        group.pairs = [edit for edit in group.pairs if not is_noise(edit.old, edit.new)]
        group.gone = [line for line in group.gone if not is_noise(line.text, None)]
        group.come = [line for line in group.come if not is_noise(None, line.text)]
        noise += not any(group.edits())
    origins = _find_moved(groups)
    for place, group in enumerate(groups):
        if place not in origins.values():
            origin = groups[origins[place]] if place in origins else None
            sections[group.document] += _section_changes(group, origin, *documents[group.document])
    for number, (before, after) in enumerate(documents):
        sections[number] += _renamed(before, after, sections[number])
    changes = [_document_change(*pair, found) for pair, found in zip(documents, sections, strict=True)]
    return [change for change in changes if change], noise


def _align(number: int, before: DocumentText | None, after: DocumentText | None) -> Iterable[SectionDiff]:
    """Return the sections of a document in which sentences differ."""
    old, new = before.lines if before else [], after.lines if after else []
    groups: dict[str, SectionDiff] = {}

    def group_of(line: TextLine) -> SectionDiff:
        return groups.setdefault(line.heading, SectionDiff(number, line.section, line.url, line.heading))

    if max(len(old), len(new)) > _MAX_ALIGNED:
        known_old, known_new = {line.plain for line in old}, {line.plain for line in new}
        runs = [
            (
                [line for line in old if line.plain not in known_new],
                [each for each in new if each.plain not in known_old],
            )
        ]
    else:
        matcher = SequenceMatcher(None, [line.plain for line in old], [line.plain for line in new], autojunk=False)
        runs = [(old[a:b], new[c:d]) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]
    old_frames, new_frames = (_frames(each.headings) if each else frozenset() for each in (before, after))
    for gone, come in runs:
        rest = [line for line in come if _frame(line.plain) not in old_frames]
        for line in gone:
            if _frame(line.plain) in new_frames:  # a line that counts as a heading where others follow it
                continue
            same = next((each for each in rest if _are_forms(line.text, each.text)), None)
            if same is None:
                group_of(line).gone.append(line)
            else:
                group_of(same).pairs.append(Edit(line.text, same.text))
                rest.remove(same)
        for line in rest:
            group_of(line).come.append(line)
    return groups.values()


def _frame(text: str) -> str:
    return _DIGITS.sub("#", text)


def _frames(headings: Iterable[str]) -> frozenset[str]:
    return frozenset(map(_frame, headings))


def _are_forms(old: str, new: str) -> bool:
    """Return whether two sentences are forms of one, by their words."""
    first, second = Counter(_WORD.findall(old)), Counter(_WORD.findall(new))
    return (first & second).total() >= MIN_SAME_WORDS * max(first.total(), second.total(), 1)


def _find_moved(groups: Sequence[SectionDiff]) -> dict[int, int]:
    """Return the group that a group came from, for those whose new sentences are gone elsewhere."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, group in enumerate(groups):
        for line in group.gone:
            places[line.plain].append(place)
    origins: dict[int, int] = {}
    for place, group in enumerate(groups):
        shared = Counter[int]()
        for line in group.come:
            if len(others := places.get(line.plain, ())) <= _MAX_PLACES:
                shared.update(dict.fromkeys(others, len(line.plain)))
        size = sum(len(line.plain) for line in group.come)
        for origin, length in shared.most_common():
            lost = sum(len(line.plain) for line in groups[origin].gone)
            is_whole = not (groups[origin].pairs or groups[origin].come or group.pairs or group.gone)
            if is_whole and origin not in origins.values() and length >= MIN_SAME_TEXT * max(size, lost):
                origins[place] = origin
                break
    return origins


def _section_changes(
    group: SectionDiff, origin: SectionDiff | None, before: DocumentText | None, after: DocumentText | None
) -> Iterator[SectionChange]:
    """Yield the change of a section."""
    section, url, edits = group.section, group.url, tuple(group.edits())
    if origin is not None:
        known, shown = {line.plain for line in origin.gone}, {line.plain for line in group.come}
        rest = [line.text for line in origin.gone if line.plain not in shown]
        more = [line.text for line in group.come if line.plain not in known]
        edits = tuple(Edit(*pair) for pair in zip_longest(rest, more))
        is_here = origin.document == group.document
        kind: Literal["moved", "renamed"] = "renamed" if is_here and origin.heading != group.heading else "moved"
        yield SectionChange(kind, section, url, edits, origin.section, origin.url)
    elif edits:
        is_new = before is None or (group.heading != "" and group.heading not in before.headings)
        is_gone = after is None or (group.heading != "" and group.heading not in after.headings)
        if is_new and not group.gone and not group.pairs:
            yield SectionChange("added", section, url, edits)
        elif is_gone and not group.come and not group.pairs:
            yield SectionChange("removed", section, url, edits)
        else:
            yield SectionChange("rewritten", section, url, edits)


def _renamed(
    before: DocumentText | None, after: DocumentText | None, known: Sequence[SectionChange]
) -> Iterator[SectionChange]:
    """Yield the sections of which only the heading differs."""
    if before is None or after is None:
        return
    sections = {each.section for each in known if each.kind != "rewritten"} | {each.old_section for each in known}
    lost = {line.plain: [each for each in line.headings if each not in after.headings] for line in before.lines}
    bodies: dict[str, Counter[str]] = defaultdict(Counter)
    for line in after.lines:
        for heading in line.headings:
            if heading not in before.headings:
                bodies[heading].update(dict.fromkeys(filter(None, lost.get(line.plain, ())), len(line.plain)))
    for heading, (section, url) in after.headings.items():
        for other, _ in bodies[heading].most_common(1):
            if section not in sections:
                old_section, old_url = before.headings[other]
                yield SectionChange("renamed", section, url, (), old_section, old_url)


def _find_moved_documents(old: Mapping[str, DocumentText], new: Mapping[str, DocumentText]) -> dict[str, str]:
    """Return the old key by the new key of documents that have most sentences of one that is gone."""
    places, moved = defaultdict[str, list[str]](list), dict[str, str]()
    for key in old.keys() - new.keys():
        for line in old[key].lines:
            places[line.plain].append(key)
    for key in sorted(new.keys() - old.keys()):
        shared = Counter[str]()
        for line in new[key].lines:
            if len(others := places.get(line.plain, ())) <= _MAX_PLACES:
                shared.update(dict.fromkeys(others, len(line.plain)))
        size = sum(len(line.plain) for line in new[key].lines)
        best = max(shared, key=lambda each: shared[each], default="")
        if best and best not in moved.values() and shared[best] >= MIN_SAME_TEXT * size:
            moved[key] = best
    return moved


def _noise_keys(edits: Iterable[Edit]) -> Iterator[tuple[str, str]]:
    """Yield an edit as other documents may have it: as it is, and without its numbers if only these differ."""
    for edit in edits:
        old, new = edit.old or "", edit.new or ""
        yield old, new
        if (frame := _frame(old)) == _frame(new):
            yield frame, frame


def _document_change(
    old: DocumentText | None, new: DocumentText | None, sections: list[SectionChange]
) -> DocumentChange | None:
    """Return the change of a document, None where nothing but noise differs."""
    document = new or old
    assert document is not None  # noqa: S101 - a pair has one
    if old is None or new is None:
        return DocumentChange("added" if new else "removed", document.url, document.title, sections)
    is_moved, is_renamed = old.key != new.key, old.name != new.name
    if not (sections or is_moved or is_renamed):
        return None
    kind: Literal["moved", "renamed", "changed"] = "moved" if is_moved else "renamed" if is_renamed else "changed"
    return DocumentChange(kind, new.url, new.title, sections, old.url, old.title)
