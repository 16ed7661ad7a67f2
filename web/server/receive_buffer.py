"""The buffer of an HTTP/1.1 connection: it collects bytes until a request is complete.

What is collected here is all that anything behind it sees of a request, so nobody can ever wait for the rest of one.
A head whose end or whose framing could be read in two ways is refused; everything else in it is gunicorn's to judge.
"""

import re
import time
from dataclasses import dataclass, field
from enum import Enum, auto

from web.sizes import MAX_BODY_BYTES, MAX_DOCUMENT_BYTES, MAX_FRAMING_BYTES, MAX_HEAD_BYTES, MAX_SEARCH_BYTES

_MAX_CHUNK_LINE = 256
_MAX_LENGTH_DIGITS = 18
_END_OF_HEAD = b"\r\n\r\n"
_SEARCH = tuple(b"POST /api/v1/search" + after for after in (b" ", b"?"))
_DOCUMENT = (b"POST /api/v1/documents ",)
_HEAD = re.compile(  # a line, and fields: no folding, no space before a colon, no line that ends in half of CRLF
    rb"[^\0\r\n]+ HTTP/1\.([01])\r\n(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\0\r\n]*\r\n)*\r\n"
)
_FIELDS = re.compile(  # of which there may be one; spaces around a value are taken off later, in linear time
    rb"\n(host|content-length|transfer-encoding|expect|authorization):([^\r]*)", re.IGNORECASE
)
_LAST = re.compile(rb"\A[^\r]* HTTP/1\.0\r\n|\r\nconnection:[ \t]*close[ \t]*\r\n", re.IGNORECASE)
_CHUNK = re.compile(rb"([0-9a-f]{1,8})[ \t]*(?:;[^\0\r\n]*)?", re.IGNORECASE)


class Verdict(Enum):
    """The meaning of the bytes received so far."""

    PARTIAL = auto()
    COMPLETE = auto()
    HEAD_TOO_LARGE = auto()
    BODY_TOO_LARGE = auto()
    MALFORMED = auto()
    UNKNOWN_CODING = auto()


@dataclass(slots=True)
class ReceiveBuffer:
    """The bytes that have come of one request, and of what the client sent behind it."""

    buffer: bytearray = field(default_factory=bytearray)
    began: float = field(default_factory=time.monotonic)
    end: int = 0  # of the request, once it is complete
    head_end: int = 0  # 0 until it has come
    continues: bool = False  # the client waits to be told to send the body
    authorization: bytes | None = None
    _chunk: int = 0  # where the next chunk begins; 0 without chunks
    _body: int = 0  # bytes in the chunks so far

    def feed(self, data: bytes) -> Verdict:
        """Add bytes; return what there is now."""
        searched = len(self.buffer)
        self.buffer += data
        if not self.head_end:
            if self.buffer.startswith(b"\r\n"):  # one empty line before a request is to be overlooked: RFC 9112, 2.2
                del self.buffer[:2]
                searched = 0
            found = self.buffer.find(_END_OF_HEAD, max(0, searched - len(_END_OF_HEAD)))
            if found < 0:
                return Verdict.PARTIAL if len(self.buffer) <= MAX_HEAD_BYTES else Verdict.HEAD_TOO_LARGE
            self.head_end = found + len(_END_OF_HEAD)
            if self.head_end > MAX_HEAD_BYTES:
                return Verdict.HEAD_TOO_LARGE
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
        """Return whether the request line starts with one of these."""
        return self.buffer.startswith(prefixes)

    def is_last(self) -> bool:
        """Return whether to close the connection after the request: the client says so, or has sent more behind it."""
        return len(self.buffer) > self.end or _LAST.search(self.buffer, 0, self.head_end) is not None

    @property
    def _most(self) -> int:
        if self.starts_with(_DOCUMENT):
            return MAX_DOCUMENT_BYTES
        return MAX_SEARCH_BYTES if self.starts_with(_SEARCH) else MAX_BODY_BYTES

    def _read_head(self) -> Verdict:
        self.end = self.head_end
        head = self.head
        shape = _HEAD.fullmatch(head)
        found = _FIELDS.findall(head)
        fields = {name.lower(): value.strip(b" \t") for name, value in found}
        if shape is None or len(fields) < len(found) or (shape[1] == b"1" and b"host" not in fields):
            return Verdict.MALFORMED
        self.authorization = fields.get(b"authorization")
        length, coding = fields.get(b"content-length"), fields.get(b"transfer-encoding")
        if length is None and coding is None:
            return Verdict.COMPLETE
        self.continues = b"expect" in fields
        if coding is not None:
            if length is not None or shape[1] == b"0":
                return Verdict.MALFORMED
            if coding.lower() != b"chunked":
                return Verdict.UNKNOWN_CODING
            self._chunk = self.head_end
        else:
            assert length is not None  # noqa: S101 - for the type checker
            if not length.isdigit():
                return Verdict.MALFORMED
            if len(length) > _MAX_LENGTH_DIGITS or int(length) > self._most:
                return Verdict.BODY_TOO_LARGE
            self.end += int(length)
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
            if self._body + size > self._most or len(self.buffer) > self._most + MAX_FRAMING_BYTES:
                return Verdict.BODY_TOO_LARGE
            after = line_end + 2 + size
            if not b"\r\n".startswith(self.buffer[after : after + 2]):
                return Verdict.MALFORMED
            if len(self.buffer) < after + 2:
                return Verdict.PARTIAL
            self._body += size
            self._chunk = after + 2
        return Verdict.PARTIAL

    def _read_trailers(self, last: int) -> Verdict:
        found = self.buffer.find(_END_OF_HEAD, last)
        if found >= 0:
            self.end = found + len(_END_OF_HEAD)
            return Verdict.COMPLETE
        return Verdict.PARTIAL if len(self.buffer) - last <= MAX_HEAD_BYTES else Verdict.HEAD_TOO_LARGE
