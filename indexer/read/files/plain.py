"""Plain text to content: one section, with its first line as title if that looks like one."""

import re

from indexer.decoding import decode
from indexer.read.extraction import Extraction, clean, tidy
from indexer.records import Section

_BULLETS = frozenset("- * + • ◦ ▪ ‣".split())  # alone on a line: an empty list item
_TITLE_LENGTH = 100  # characters of the first line that may be the title


def read(body: bytes, charset: str | None) -> Extraction:
    """Read a plain text file."""
    lines = tidy(decode(body, charset, markup=False)).split("\n")
    text = clean("\n".join(line for line in lines if line.lstrip() not in _BULLETS))
    first = text.partition("\n")[0].strip(" \t#=-*")
    title = first if len(first) <= _TITLE_LENGTH and re.match(r"\w", first) else None
    return Extraction(title, (Section((), None, text),) if text else ())
