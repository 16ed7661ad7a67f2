"""Messages between the build and the process that reads documents: a JSON object and bytes, each with its length."""

import json
import struct
from typing import Any, Protocol

_LENGTHS = struct.Struct("!II")  # bytes of the object, bytes after it
_LONGEST_OBJECT = 64_000_000  # bytes


class _Sink(Protocol):
    def write(self, data: bytes, /) -> object: ...
    def flush(self) -> None: ...


class _Source(Protocol):
    def read(self, size: int, /) -> bytes: ...


class BrokenFrame(Exception):
    """What came is no message, or too long a one."""


def write_frame(file: _Sink, fields: dict[str, Any], body: bytes = b"") -> None:
    """Send one message."""
    text = json.dumps(fields).encode()
    file.write(_LENGTHS.pack(len(text), len(body)))
    file.write(text)
    file.write(body)
    file.flush()


def read_frame(file: _Source, longest_body: int) -> tuple[dict[str, Any], bytes] | None:
    """Receive one message, or None where the other side has ended.

    Raises:
        BrokenFrame: it is no message, or one too long.
    """
    head = file.read(_LENGTHS.size)
    if len(head) < _LENGTHS.size:
        return None
    length, after = _LENGTHS.unpack(head)
    if length > _LONGEST_OBJECT or after > longest_body:
        raise BrokenFrame("more text than a document may have")
    text, body = file.read(length), file.read(after)
    if len(text) < length or len(body) < after:
        return None
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BrokenFrame("the reader process returned invalid data") from error
    if not isinstance(fields, dict):
        raise BrokenFrame("the reader process returned invalid data")
    return fields, body
