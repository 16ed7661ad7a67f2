"""Sections before they are cut: one that is too short to stand alone joins its neighbours."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from indexer.records import SEPARATOR, Section, Whole

_SHORT = 24  # tokens of a text that says too little to be found by itself

Length = Callable[[str], int]  # tokens of a text


@dataclass(slots=True)
class _Group:
    members: list[Section]
    joined: Section  # all of them as one, under what their paths begin with, or the last one's if the others lead to it
    tokens: int


def join_short(sections: Iterable[Section], size: int, length: Length) -> list[Section]:
    """Join short sections with what stands beside them: alone, a line under a telling heading outranks all.

    A lead-in becomes a part of the subsection it introduces. Short sections of one parent become one of at most `size`
    tokens, under the parent's path and the first one's anchor; their headings go into the text. One that finds no room
    ends the section before it, whose last passage it then shares.
    """
    groups: list[_Group] = []
    for own in _with_lead_ins(sections, length):
        section = _chained(own[-1].path, own) if len(own) > 1 else own[0]
        tokens = length(section.text)
        last = groups[-1] if groups else None
        if last and _is_near(last.joined.path, section.path) and min(last.tokens, tokens) < _SHORT:
            path = _shared(last.joined.path, section.path)
            members = [*last.members, *own]
            joined = _chained(path, _with_headings(members, len(path)))
            if (total := length(joined.text)) <= size:
                groups[-1] = _Group(members, joined, total)
                continue
        groups.append(_Group(own, section, tokens))
    found: list[Section] = []
    for before, group in zip([None, *groups], groups, strict=False):
        if before and group.tokens < _SHORT <= before.tokens and _is_after(found[-1].path, group.joined.path):
            depth = len(_shared(found[-1].path, group.joined.path))
            found[-1] = _chained(found[-1].path, [found[-1], *_with_headings(group.members, depth)])
        else:
            found.append(group.joined)
    return found


def _with_lead_ins(sections: Iterable[Section], length: Length) -> list[list[Section]]:
    """Every section with those before it that lead to it."""
    found: list[list[Section]] = []
    for section in sections:
        lead = found[-1][-1] if found else None
        is_within = lead and len(section.path) > len(lead.path) and _shared(section.path, lead.path) == lead.path
        if lead and is_within and 0 < sum(length(one.text) for one in found[-1]) < _SHORT:
            found[-1].append(section)
        else:
            found.append([section])
    return found


def _is_near(path: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two sections have the same parent, or one is within the other."""
    return len(_shared(path, other)) >= min(len(path), len(other)) - (len(path) == len(other))


def _is_after(path: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether the second is the next section under its parent, the first being or ending what is before it."""
    return len(_shared(path, other)) >= len(other) - 1


def _shared(path: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    same = 0
    while same < min(len(path), len(other)) and path[same] == other[same]:
        same += 1
    return path[:same]


def _with_headings(sections: Sequence[Section], depth: int) -> list[Section]:
    """Put the headings of sections into their texts, from this depth on; a parent of several stands above the first."""
    found: list[Section] = []
    before: tuple[str, ...] = ()
    for section in sections:
        names = section.path[depth:]
        own = section.path[max(depth, len(_shared(before, section.path))) :]
        before = section.path
        if not names or section.text.startswith(names[-1]):  # a definition's term stands in its text already
            found.append(section)
            continue
        heading = f"{SEPARATOR.join(own or names)}\n\n"
        marks, wholes = _moved(section, len(heading))
        found.append(replace(section, text=heading + section.text, marks=marks, wholes=wholes))
    return found


def _moved(section: Section, length: int) -> tuple[tuple[tuple[int, str], ...], tuple[Whole, ...]]:
    """What is known of places in a section's text, with so many characters before it."""
    return (
        tuple((place + length, anchor) for place, anchor in section.marks),
        tuple(Whole(start + length, end + length, head) for start, end, head in section.wholes),
    )


def _chained(path: tuple[str, ...], members: Sequence[Section]) -> Section:
    """Sections one after the other, under one path; the anchors of all of them stay where they are."""
    text = ""
    marks: list[tuple[int, str]] = []
    wholes: list[Whole] = []
    for member in members:
        text += "\n\n" if text else ""
        marks += [(len(text), member.anchor)] if member.anchor is not None else []
        known = _moved(member, len(text))
        marks += known[0]
        wholes += known[1]
        text += member.text
    first = members[0].anchor
    return Section(path, first, text, tuple(marks[1:] if first is not None else marks), tuple(wholes))
