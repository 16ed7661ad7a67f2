"""Links to the text of a passage, as text fragments (WICG), which browsers highlight.

A passage joins blocks, table cells and list items with characters that the page does not have. So a fragment quotes
words of one clause.
"""

import re
from collections.abc import Sequence
from urllib.parse import quote

from indexer.generation.lexical.analysis import is_spaceless

_HTML = ("text/html", "application/xhtml+xml")
# Between these characters, browsers may drop a line end that is a space in the index.
_CJK = "\u3040-\u30ff\u3400-\u9fff"
_CLAUSE = re.compile(
    rf"(?<!\w)[^\W_](?:(?!(?<=[{_CJK}]) (?=[{_CJK}]))"
    r"[^\n.!?…:;。！？：；，、؟؛،۔।॥|`*\"“”„«»<>()\[\]{}=\\]|(?<=\w)[.:](?=\w))*"
)
_CLAUSE_ENDS = " ,-–—'’/&+%#@$^~_"
# Texts with fewer words, or fewer characters in scripts without spaces, often occur twice on a page.
_MIN_WORDS, _MIN_SPACELESS_CHARS = 3, 6
_MAX_WHOLE_WORDS, _START_WORDS, _END_WORDS = 10, 5, 3
_MAX_WORD_CHARS = 80
_PREFIX_WORDS = 3  # distinguishes a text from an equal one above it


def link_to_text(url: str, content_type: str, text: str, highlights: Sequence[tuple[int, int]]) -> str | None:
    """Return the address of a passage with a text fragment, so that browsers highlight its best clause.

    The best clause has the most `highlights`, which are ranges of `text`. Returns None if the passage is not from an
    HTML page on the web, or all its clauses are too short to be unique.
    """
    if content_type not in _HTML or url[:4].lower() != "http":
        return None
    folded, best = text.lower(), ""
    best_rank = (-1, False)
    for match in _CLAUSE.finditer(text):
        at, clause = match.start(), match[0].rstrip(_CLAUSE_ENDS)
        words = clause.split(" ")
        is_long = len(words) >= _MIN_WORDS or (len(clause) >= _MIN_SPACELESS_CHARS and is_spaceless(clause))
        if not is_long or max(map(len, words)) > _MAX_WORD_CHARS:
            continue
        start = " ".join(words[:_START_WORDS] if len(words) > _MAX_WHOLE_WORDS else words)
        is_first = folded.find(start.lower()) in (at, -1)
        rank = (sum(at <= first and last <= at + len(clause) for first, last in highlights), is_first)
        if rank <= best_rank:
            continue
        best_rank = rank
        before = [] if is_first else text[:at].rstrip(" \n-*•").rpartition("\n")[2].split()[-_PREFIX_WORDS:]
        best = f"{_escaped(before)}-," * bool(before) + _escaped([start])
        if len(words) > _MAX_WHOLE_WORDS:
            best += f",{_escaped(words[-_END_WORDS:])}"
    return f"{url}{'' if '#' in url else '#'}:~:text={best}" if best else None


def _escaped(words: Sequence[str]) -> str:
    return quote(" ".join(words), safe="").replace("-", "%2D")
