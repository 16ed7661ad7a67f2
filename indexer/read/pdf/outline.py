"""The outline of a document: its bookmarks, each with the page it leads to and those above it."""

import ctypes
from collections.abc import Iterator
from typing import Any, NamedTuple

import pypdfium2.raw as pdfium

_MOST = 20_000
_DEEPEST = 8
_LONGEST = 2_000  # bytes of a title


class Entry(NamedTuple):
    """A bookmark."""

    title: str
    level: int  # 0 is the outermost
    page: int  # from 0; -1 where it leads nowhere


def entries(document: Any) -> list[Entry]:
    """Return the bookmarks in order; those that lead in a circle are followed once."""
    return list(_below(document, None, 0, set()))


def _below(document: Any, parent: Any, level: int, seen: set[int]) -> Iterator[Entry]:
    mark = pdfium.FPDFBookmark_GetFirstChild(document, parent)
    while mark:
        key = ctypes.cast(mark, ctypes.c_void_p).value or 0
        if key in seen or len(seen) >= _MOST:
            return
        seen.add(key)
        destination = pdfium.FPDFBookmark_GetDest(document, mark)
        page = pdfium.FPDFDest_GetDestPageIndex(document, destination) if destination else -1
        yield Entry(_title(mark), level, page)
        if level + 1 < _DEEPEST:
            yield from _below(document, mark, level + 1, seen)
        mark = pdfium.FPDFBookmark_GetNextSibling(document, mark)


def _title(mark: Any) -> str:
    size = min(_LONGEST, pdfium.FPDFBookmark_GetTitle(mark, None, 0))
    buffer = ctypes.create_string_buffer(size)
    pdfium.FPDFBookmark_GetTitle(mark, buffer, size)
    text = buffer.raw[: size // 2 * 2].decode("utf-16-le", "replace")
    return " ".join(text.partition("\x00")[0].split())
