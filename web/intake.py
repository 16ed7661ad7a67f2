"""Where a request ends: bytes of an HTTP/1.1 connection are collected until one is complete.

This only finds the end, so that nobody has to wait for the rest of it; what is in it is gunicorn's to judge.
"""

import re
import time
from dataclasses import dataclass, field
from enum import Enum, auto

MAX_HEAD_BYTES = 64 * 1024
MAX_BODY_BYTES = 2 * 1024 * 1024
MAX_SEARCH_BYTES = 64 * 1024  # of the body of one search
MAX_FRAMING_BYTES = 1024 * 1024  # that chunks may add to a body
_MAX_CHUNK_LINE = 256
_END_OF_HEAD = b"\r\n\r\n"
_SEARCH = tuple(b"POST /api/v1/search" + after for after in (b" ", b"?"))
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*(?=\r\n)")
_CODING = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked[ \t]*(?=\r\n)")
_LAST = re.compile(rb"\A[^\r]* HTTP/1\.0\r\n|\r\nconnection:[ \t]*close[ \t]*\r\n", re.IGNORECASE)
_CHUNK = re.compile(rb"([0-9a-f]{1,8})[ \t]*(?:;.*)?", re.IGNORECASE | re.DOTALL)


class Verdict(Enum):
    """What the bytes so far amount to."""

    PARTIAL = auto()
    COMPLETE = auto()  # or such that gunicorn will refuse it without reading on
    HEAD_TOO_LARGE = auto()
    BODY_TOO_LARGE = auto()
    MALFORMED = auto()


@dataclass(slots=True)
class Intake:
    """The bytes that have come of one request, and of what the client sent behind it."""

    buffer: bytearray = field(default_factory=bytearray)
    began: float = field(default_factory=time.monotonic)
    end: int = 0  # of the request, once it is complete
    head_end: int = 0  # 0 until it has come
    continues: bool = False  # the client waits to be told to send the body
    _chunk: int = 0  # where the next chunk begins; 0 without chunks
    _body: int = 0  # bytes in the chunks so far

    def feed(self, data: bytes) -> Verdict:
        """Add bytes, and say what there is now."""
        searched = len(self.buffer)
        self.buffer += data
        if not self.head_end:
            found = self.buffer.find(_END_OF_HEAD, max(0, searched - len(_END_OF_HEAD)))
            if found < 0:
                return Verdict.PARTIAL if len(self.buffer) <= MAX_HEAD_BYTES else Verdict.HEAD_TOO_LARGE
            self.head_end = found + len(_END_OF_HEAD)
            verdict = self._read_head()
            if verdict is not Verdict.PARTIAL:
                return verdict
        if self._chunk:
            return self._read_chunks()
        return Verdict.COMPLETE if len(self.buffer) >= self.end else Verdict.PARTIAL

    @property
    def is_idle(self) -> bool:
        """Whether nothing of a request has come."""
        return not self.buffer

    @property
    def head(self) -> bytes:
        """The request line and the headers, once they have come."""
        return bytes(self.buffer[: self.head_end])

    def starts_with(self, prefixes: tuple[bytes, ...]) -> bool:
        """Whether the request line starts with one of these."""
        return self.buffer.startswith(prefixes)

    def is_last(self) -> bool:
        """Whether the connection is best closed after the request: the client says so, or has sent more behind it."""
        return len(self.buffer) > self.end or _LAST.search(self.buffer, 0, self.head_end) is not None

    @property
    def _most(self) -> int:
        return MAX_SEARCH_BYTES if self.starts_with(_SEARCH) else MAX_BODY_BYTES

    def _read_head(self) -> Verdict:
        self.end = self.head_end
        head = bytes(self.buffer[: self.head_end - 2]).lower()
        is_chunked = b"\r\ntransfer-encoding:" in head
        lengths = _LENGTH.findall(head)
        if not is_chunked and not lengths:
            return Verdict.COMPLETE
        self.continues = b"\r\nexpect:" in head
        if is_chunked:
            if not _CODING.search(head) or b"\r\ncontent-length:" in head:
                return Verdict.COMPLETE
            self._chunk = self.head_end
        elif len(lengths) > 1:
            return Verdict.COMPLETE
        else:
            length = int(lengths[0])
            if length > self._most:
                return Verdict.BODY_TOO_LARGE
            self.end += length
        return Verdict.PARTIAL

    def _read_chunks(self) -> Verdict:
        while self._chunk < len(self.buffer):
            line_end = self.buffer.find(b"\r\n", self._chunk, self._chunk + _MAX_CHUNK_LINE)
            if line_end < 0:
                is_short = len(self.buffer) - self._chunk < _MAX_CHUNK_LINE
                return Verdict.PARTIAL if is_short else Verdict.MALFORMED
            line = _CHUNK.fullmatch(self.buffer, self._chunk, line_end)
            if line is None:
                return Verdict.MALFORMED
            size = int(line[1], 16)
            if size == 0:
                return self._read_trailers(line_end)
            self._body += size
            if self._body > self._most or len(self.buffer) > MAX_BODY_BYTES + MAX_FRAMING_BYTES:
                return Verdict.BODY_TOO_LARGE
            self._chunk = line_end + 2 + size + 2
        return Verdict.PARTIAL

    def _read_trailers(self, last: int) -> Verdict:
        found = self.buffer.find(_END_OF_HEAD, last)
        if found >= 0:
            self.end = found + len(_END_OF_HEAD)
            return Verdict.COMPLETE
        return Verdict.PARTIAL if len(self.buffer) - last <= MAX_HEAD_BYTES else Verdict.HEAD_TOO_LARGE
