"""Turns a passage and the spans that match into safe HTML: a piece around the matches, or its whole section."""

import re
from collections.abc import Iterable

from markupsafe import Markup, escape

Span = tuple[int, int]  # characters [start, end)

SNIPPET_CHARS = 320
LEAD_CHARS = 90  # shown at most before the first match of a snippet
SNAP_CHARS = 24  # how far the end may move to fall between words
SENTENCE_BREAK = re.compile(r"[.!?:]\s+|\n\s*")
WORD_BREAK = re.compile(r"\s+")
MARK = Markup("<mark>")
NEAR = Markup('<mark class="near">')  # a sentence that is near in meaning, but has no word of the query


def make_snippet(
    text: str, highlights: Iterable[Span], sentence: Span | None = None, *, size: int = SNIPPET_CHARS
) -> Markup:
    """Cut about `size` characters around the richest run of matches and mark the matches in it.

    Where there are none, `sentence` is marked instead.
    """
    text = text.rstrip()
    spans, opening = merge_spans(highlights, len(text)), MARK
    if not spans and sentence:
        spans, opening = merge_spans([sentence], len(text)), NEAR
    if len(text) <= size + SNAP_CHARS:
        return mark(text, spans, 0, len(text), opening)
    start, end = _window(text, spans, size)
    before, after = "… " if start > 0 else "", " …" if end < len(text) else ""
    return escape(before) + mark(text, spans, start, end, opening) + after


def make_section(section: str, text: str, highlights: Iterable[Span]) -> Markup:
    """Show a section whole, its passage `text` set off and marked; without that where it is not in there verbatim."""
    section, text = section.rstrip(), text.rstrip()
    start = section.find(text)
    if start < 0:
        return escape(section)
    passage = mark(text, merge_spans(highlights, len(text)), 0, len(text))
    if len(text) == len(section):
        return passage
    parts = (escape(section[:start]), Markup('<span class="passage">'), passage, Markup("</span>"))
    return Markup("").join([*parts, escape(section[start + len(text) :])])


def merge_spans(spans: Iterable[Span], length: int) -> list[Span]:
    """Sort spans, cut them to the text, drop empty ones and join those that touch."""
    merged: list[Span] = []
    for start, end in sorted((max(0, start), min(end, length)) for start, end in spans):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def mark(text: str, spans: Iterable[Span], start: int, end: int, opening: Markup = MARK) -> Markup:
    """Escape text[start:end] with the parts that lie in sorted, disjoint `spans` inside <mark>."""
    pieces: list[Markup] = []
    position = start
    for span_start, span_end in spans:
        left, right = max(span_start, start), min(span_end, end)
        if left >= right:
            continue
        pieces += [escape(text[position:left]), opening, escape(text[left:right]), Markup("</mark>")]
        position = right
    pieces.append(escape(text[position:end]))
    return Markup("").join(pieces)


def _window(text: str, spans: list[Span], size: int) -> Span:
    def words_from(first: Span) -> int:
        limit = first[0] + size - LEAD_CHARS
        inside = (text[start:end] for start, end in spans if first[0] <= start and end <= limit)
        # by their first letters, so that the forms of one word count once
        return len({word[:4].casefold() for word in inside})

    # max() keeps the earliest of equals, so the snippet stays near the first match
    first_match = max(spans, key=words_from)[0] if spans else 0
    start = _start_before(text, min(first_match, len(text) - size))
    return start, _snap_back(text, min(len(text), start + size))


def _start_before(text: str, position: int) -> int:
    earliest = max(0, position - LEAD_CHARS)
    if earliest == 0:
        return 0
    for pattern in (SENTENCE_BREAK, WORD_BREAK):
        breaks = [found.end() for found in pattern.finditer(text, earliest, position)]
        if breaks:
            return breaks[-1] if pattern is SENTENCE_BREAK else breaks[0]
    return earliest


def _snap_back(text: str, position: int) -> int:
    if position == len(text):
        return position
    for index in range(position, position - SNAP_CHARS, -1):
        if text[index].isspace():
            return index
    return position
