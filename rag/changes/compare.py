"""Compare two snapshots of documents: find sections that were added, removed, rewritten, moved or renamed.

Documents are aligned by their headings and sentences. A short line above other lines counts as a heading too, because
a passage may contain several short sections.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Literal

from indexer.records import SEPARATOR
from rag import deadline
from rag.messages import DocumentChange, Edit, SectionChange
from rag.query.results import section_within, without_number

MIN_SAME_TEXT = 0.5  # share of the characters of a moved or renamed section that are unchanged
MIN_SAME_WORDS = 0.4  # share of the words of an edited sentence that are unchanged
# An edit that occurs in at least 3 documents and in 20 % of all documents is noise, such as a changed page footer.
MIN_NOISE_DOCUMENTS, MIN_NOISE_SHARE = 3, 0.2
_MAX_STAMP_WORDS = 5  # words next to a date in a line such as "Last updated 2026-01-01"
_MAX_HEADING_CHARS, _MAX_HEADING_WORDS = 100, 10
_MAX_SECTIONS_WITH_LINE = 20  # lines that occur in more sections are not used to find moved sections
_MAX_EQUAL_PAIRS = 100_000  # pairs of equal lines in a document; above it, lines in both snapshots are ignored
_MAX_PAIRED_CHARS = 1_500_000  # work limit for comparing each removed line with each added line
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^\sa-z])|(?<=[。！？])|\n+")
_NOT_IN_HEADINGS = re.compile(r"[|={}();<>\\]|[.!?:;,…。、]$")
_DIGITS = re.compile(r"\d+(?:[.,:]\d+)*")
_DATE = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}"
    r"|\d{1,2}\.? +[^\W\d_]{3,9}\.?,? +\d{4}|[^\W\d_]{3,9}\.? +\d{1,2}(?:st|nd|rd|th)?,? +\d{4}"
)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class TextLine:
    """A heading, sentence or line of a section."""

    plain: str  # normalised text, which is compared with other lines
    text: str
    section: str
    url: str
    path: tuple[str, ...]  # normalised heading path
    is_heading: bool = False


class DocumentText:
    """The lines of a document in a snapshot."""

    def __init__(self, key: str, url: str, title: str, version: str, passages: Sequence[tuple[str, str, str]]) -> None:
        """Split passages into lines. Each passage has three texts: its heading path, its address and its content."""
        self.key, self.url, self.title, self._version = key, url, title, version
        self.name = self._plain_heading(title)
        self.lines: list[TextLine] = []
        self.headings = set[str]()
        self._paths = set[tuple[str, ...]]()
        counts = Counter(block for *_, text in passages for block in text.split("\n\n"))
        for headings, passage_url, text in passages:
            section = section_within(title, headings)
            path, blocks = self._enter(section, passage_url, ()), text.split("\n\n")
            above = path if section else ()
            for number, block in enumerate(blocks, 1):
                if number < len(blocks) and counts[block] == 1 and is_heading(block, blocks[number]):
                    if self._plain_heading(block) != path[-1]:
                        section = block.strip()
                        path = self._enter(section, passage_url, above)
                    continue
                for sentence in _SENTENCE_END.split(block):
                    if plain := self._plain(sentence):
                        self.lines.append(TextLine(plain, sentence.strip(), section, passage_url, path))

    def _enter(self, section: str, url: str, above: tuple[str, ...]) -> tuple[str, ...]:
        """Add a line for each new heading of a section, and return the normalised heading path of the section."""
        names = section.split(SEPARATOR)
        path = (*above, *map(self._plain_heading, names))
        for depth in range(len(above) + 1, len(path) + 1):
            if path[0] and path[:depth] not in self._paths:
                self._paths.add(path[:depth])
                self.headings.add(path[depth - 1])
                section = SEPARATOR.join(names[: depth - len(above)])
                self.lines.append(TextLine(path[depth - 1], section, section, url, path[:depth], is_heading=True))
        return path

    def _plain_heading(self, heading: str) -> str:
        return self._plain(without_number(" ".join(heading.split())))

    def _plain(self, sentence: str) -> str:
        """Normalise a line: remove spaces, and mask the version and the date of a line such as "Updated 2026-01-01"."""
        plain = " ".join(sentence.split())
        if self._version:
            plain = re.sub(rf"(?<![\w.]){re.escape(self._version)}(?!\.?\d)", "*", plain)
        bare, dates = _DATE.subn("*", plain)
        is_stamp = bool(dates) and plain[-1] not in ".!?" and len(_WORD.findall(bare)) <= _MAX_STAMP_WORDS
        return (bare if is_stamp else plain).replace(" ", "")


def is_heading(block: str, below: str) -> bool:
    """Return whether a block looks like a heading: a short line that is neither a sentence nor code.

    A single lower-case word, such as the name of an option, is a heading if several words follow.
    """
    line = block.strip()
    is_short = len(line) <= _MAX_HEADING_CHARS and len(line.split()) <= _MAX_HEADING_WORDS and "\n" not in line
    is_capital = not line[:1].islower() or (len(line.split()) == 1 < len(below.split()))
    return bool(line) and is_short and is_capital and line[0].isalnum() and not _NOT_IN_HEADINGS.search(line)


DocumentPair = tuple[DocumentText | None, DocumentText | None]


@dataclass
class SectionDiff:
    """The differences of one section between two snapshots."""

    document: int  # index in the list of document pairs
    line: TextLine  # the first line that differs, or the renamed heading
    old: TextLine | None = None  # a line of the earlier section, if the section was moved or renamed
    pairs: list[Edit] = field(default_factory=list)  # edited sentences
    removed: list[TextLine] = field(default_factory=list)
    added: list[TextLine] = field(default_factory=list)

    def edits(self) -> list[Edit]:
        """Return the edited, removed and added sentences."""
        removed = [Edit(line.text, None) for line in self.removed if not line.is_heading]
        return [*self.pairs, *removed, *(Edit(None, line.text) for line in self.added if not line.is_heading)]

    def move_from(self, origin: "SectionDiff") -> None:
        """Mark this added section as moved from the removed section `origin`."""
        plains = [{line.plain for line in lines} for lines in (self.added, origin.removed)]
        self.old = origin.line
        self.removed = [line for line in origin.removed if line.plain not in plains[0]]
        self.added = [line for line in self.added if line.plain not in plains[1]]
        origin.removed = []

    def change(self, documents: DocumentPair) -> SectionChange:
        """Return the change of the section, with its kind, such as `moved`."""
        kind: Literal["added", "removed", "rewritten", "moved", "renamed"] = "rewritten"
        is_new, is_gone = (
            side is None or any(line.is_heading for line in lines)
            for side, lines in zip(documents, (self.added, self.removed), strict=True)
        )
        if self.old:
            was_here = documents[0] is not None and self.old.url.partition("#")[0] == documents[0].url
            kind = "renamed" if was_here and self.old.path[-1] != self.line.path[-1] else "moved"
        elif is_new and not (self.pairs or self.removed):
            kind = "added"
        elif is_gone and not (self.pairs or self.added):
            kind = "removed"
        origin = (self.old.section, self.old.url) if self.old else (None, None)
        return SectionChange(kind, self.line.section, self.line.url, tuple(self.edits()), *origin)


def compare(
    old: Mapping[str, DocumentText], new: Mapping[str, DocumentText], total: int
) -> tuple[list[DocumentChange], int]:
    """Compare documents, and return the changes and the number of sections that differ only by noise.

    Noise is an edit that many documents share.

    Args:
        old: the documents of the earlier snapshot that may differ, by key.
        new: the documents of the later snapshot that may differ, by the same keys.
        total: the number of all documents.
    """
    gone, arrived = ([each[key] for key in sorted(each.keys() - other)] for each, other in ((old, new), (new, old)))
    origins = _find_origins([each.lines for each in gone], [each.lines for each in arrived])
    moved = {arrived[index].key: gone[origin].key for index, origin in origins.items()}
    old_keys = set(moved.values())
    keys = [key for key in {**new, **old} if key not in old_keys]
    documents = [(old.get(moved.get(key, key)), new.get(key)) for key in keys]
    diffs = [diff for number, pair in enumerate(documents) for diff in _align(number, *pair)]
    noise = _drop_noise(diffs, max(MIN_NOISE_DOCUMENTS, round(MIN_NOISE_SHARE * total)))
    origins = _find_origins(
        [[] if diff.pairs or diff.added else diff.removed for diff in diffs],
        [[] if diff.pairs or diff.removed else diff.added for diff in diffs],
    )
    for index, origin in origins.items():
        diffs[index].move_from(diffs[origin])
    sections = [list[SectionChange]() for _ in documents]
    for diff in diffs:
        if diff.old or diff.edits():
            sections[diff.document].append(diff.change(documents[diff.document]))
    changed = [_document_change(*pair, changes) for pair, changes in zip(documents, sections, strict=True)]
    return [change for change in changed if change], noise


def _align(number: int, before: DocumentText | None, after: DocumentText | None) -> list[SectionDiff]:
    """Return the differences of a document by section. `number` becomes `SectionDiff.document`."""
    old, new = (side.lines if side else [] for side in (before, after))
    counts = [Counter(line.plain for line in lines) for lines in (old, new)]
    if sum(count * counts[1][plain] for plain, count in counts[0].items()) > _MAX_EQUAL_PAIRS:
        old, new = (
            [each for each in old if each.plain not in counts[1]],
            [each for each in new if each.plain not in counts[0]],
        )
    matcher = SequenceMatcher(None, [line.plain for line in old], [line.plain for line in new], autojunk=False)
    names: dict[str, Counter[str]] = defaultdict(Counter)
    for a, b, size in matcher.get_matching_blocks():
        for line, same in zip(old[a : a + size], new[b : b + size], strict=True):
            for was, now in zip(line.path, same.path, strict=False):
                if before and after and was not in after.headings and now not in before.headings:
                    names[now][was] += len(line.plain)
    renamed = {name.most_common(1)[0][0]: heading for heading, name in names.items()}
    diffs: dict[tuple[str, ...], SectionDiff] = {}

    def diff_of(line: TextLine) -> SectionDiff:
        path = tuple(renamed.get(heading, heading) for heading in line.path)
        return diffs.setdefault(path, SectionDiff(number, line))

    for tag, a, b, c, d in matcher.get_opcodes():
        deadline.check()
        removed, added = (old[a:b], new[c:d]) if tag != "equal" else ([], [])
        lengths = [sum(len(line.text) for line in lines) for lines in (removed, added)]
        are_few = len(removed) * lengths[1] + len(added) * lengths[0] <= _MAX_PAIRED_CHARS
        forms = [(Counter(_WORD.findall(each.text)), each) for each in added if are_few and not each.is_heading]
        for line in removed:
            if line.is_heading and line.plain in renamed:
                diff_of(line).old = line
                continue
            words = Counter(_WORD.findall(line.text)) if forms and not line.is_heading else Counter[str]()
            share, index = max(((_share(words, each), -at) for at, (each, _) in enumerate(forms)), default=(0.0, 0))
            if share >= MIN_SAME_WORDS:
                form = forms.pop(-index)[1]
                diff_of(form).pairs.append(Edit(line.text, form.text))
                added.remove(form)
            else:
                diff_of(line).removed.append(line)
        for line in added:
            if line.is_heading and line.plain in names:
                diff_of(line).line = line
            else:
                diff_of(line).added.append(line)
    return list(diffs.values())


def _share(first: Counter[str], second: Counter[str]) -> float:
    """Return the share of words, from 0 to 1, that two sentences have in common."""
    return (first & second).total() / max(first.total(), second.total(), 1)


def _drop_noise(diffs: Sequence[SectionDiff], limit: int) -> int:
    """Remove edits that are noise, and return the number of sections that had no other edits.

    An edit is noise if at least `limit` documents have the same edit, where dates and other numbers may differ.
    """
    edits = [(diff.document, edit) for diff in diffs for edit in diff.edits()]
    counts = Counter(key for _, key in {(number, key) for number, edit in edits for key in _noise_keys(edit)})
    before = sum(bool(diff.edits()) for diff in diffs)

    def is_change(edit: Edit) -> bool:
        return all(counts[key] < limit for key in _noise_keys(edit))

    for diff in diffs:
        diff.pairs = list(filter(is_change, diff.pairs))
        diff.removed = [line for line in diff.removed if is_change(Edit(line.text, None))]
        diff.added = [line for line in diff.added if is_change(Edit(None, line.text))]
    return before - sum(bool(diff.edits()) for diff in diffs)


def _noise_keys(edit: Edit) -> set[tuple[str, str]]:
    """Return keys to count equal edits by: both texts, and the masked text if only dates or other numbers changed."""
    old, new = edit.old or "", edit.new or ""
    masked = _DIGITS.sub("#", _DATE.sub("#", old)), _DIGITS.sub("#", _DATE.sub("#", new))
    return {(old, new), masked} if masked[0] == masked[1] else {(old, new)}


def _find_origins(removed: Sequence[list[TextLine]], added: Sequence[list[TextLine]]) -> dict[int, int]:
    """Map the index of each moved text in `added` to the index in `removed` of the text with mostly the same lines."""
    indexes: dict[str, list[int]] = defaultdict(list)
    for index, lines in enumerate(removed):
        for line in lines:
            indexes[line.plain].append(index)
    origins: dict[int, int] = {}
    used = set[int]()
    for index, lines in enumerate(added):
        shared = Counter[int]()
        for line in lines:
            if len(sections := indexes.get(line.plain, ())) <= _MAX_SECTIONS_WITH_LINE:
                shared.update(dict.fromkeys(sections, len(line.plain)))
        for origin, length in shared.most_common():
            size = max(sum(len(line.plain) for line in each) for each in (lines, removed[origin]))
            if origin not in used and length >= MIN_SAME_TEXT * size:
                origins[index] = origin
                used.add(origin)
                break
    return origins


def _document_change(
    old: DocumentText | None, new: DocumentText | None, sections: list[SectionChange]
) -> DocumentChange | None:
    """Return the change of a document, or None if only noise differs."""
    if old is None or new is None:
        document = new or old
        assert document is not None  # noqa: S101 - for the type checker; one of the two is always set
        return DocumentChange("added" if new else "removed", document.url, document.title, sections)
    is_moved, is_renamed = old.key != new.key, old.name != new.name
    if not (sections or is_moved or is_renamed):
        return None
    kind: Literal["moved", "renamed", "changed"] = "moved" if is_moved else "renamed" if is_renamed else "changed"
    return DocumentChange(kind, new.url, new.title, sections, old.url, old.title)
