"""Addresses that open a page at the text of a passage, which browsers mark: text fragments, as the WICG specifies them.

A passage is not the text of its page: blocks, cells and items of lists are joined by characters of our own. So words
from within a clause are looked for, which a page has as it stands.
"""

import re
from collections.abc import Sequence
from urllib.parse import quote

from indexer.generation.lexical.analysis import is_spaceless

_HTML = ("text/html", "application/xhtml+xml")
_CJK = "\u3040-\u30ff\u3400-\u9fff"  # between which browsers may drop a line end that is a space in the index
_CLAUSE = re.compile(
    rf"(?<!\w)[^\W_](?:(?!(?<=[{_CJK}]) (?=[{_CJK}]))"
    r"[^\n.!?…:;。！？：；，、؟؛،۔।॥|`*\"“”„«»<>()\[\]{}=\\]|(?<=\w)[.:](?=\w))*"
)
_ENDS = " ,-–—'’/&+%#@$^~_"  # after which a clause does not end with a word
_FEWEST, _FEWEST_SPACELESS = 3, 6  # words, and characters in scripts without spaces, that seldom stand on a page twice
_MOST, _START, _END = 10, 5, 3  # words that are named all; of more, the first and the last
_LONGEST = 80  # characters of a word, or of a clause without spaces
_BEFORE = 3  # words in front that tell a text from an earlier one


def link_to_text(url: str, content_type: str, text: str, highlights: Sequence[tuple[int, int]]) -> str | None:
    """Return the address of a passage with a fragment that has a browser mark its best clause.

    That is the clause with most `highlights`, [start, end) of `text`. None for what is no HTML page of the web, and
    where no clause is long enough to be told from others.
    """
    if content_type not in _HTML or url[:4].lower() != "http":
        return None
    folded, best = text.lower(), ""
    most = (-1, False)
    for found in _CLAUSE.finditer(text):
        at, clause = found.start(), found[0].rstrip(_ENDS)
        words = clause.split(" ")
        is_long = len(words) >= _FEWEST or (len(clause) >= _FEWEST_SPACELESS and is_spaceless(clause))
        if not is_long or max(map(len, words)) > _LONGEST:
            continue
        start = " ".join(words[:_START] if len(words) > _MOST else words)
        is_first = folded.find(start.lower()) in (at, -1)
        rank = (sum(at <= first and last <= at + len(clause) for first, last in highlights), is_first)
        if rank <= most:
            continue
        most = rank
        before = [] if is_first else text[:at].rstrip(" \n-*•").rpartition("\n")[2].split()[-_BEFORE:]
        best = f"{_escaped(before)}-," * bool(before) + _escaped([start])
        if len(words) > _MOST:
            best += f",{_escaped(words[-_END:])}"
    return f"{url}{'' if '#' in url else '#'}:~:text={best}" if best else None


def _escaped(words: Sequence[str]) -> str:
    return quote(" ".join(words), safe="").replace("-", "%2D")
