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


class BrokenMessage(Exception):
    """The bytes are no message, or too long a one."""


def write_message(file: _Sink, fields: dict[str, Any], body: bytes = b"") -> None:
    """Send one message."""
    text = json.dumps(fields).encode()
    file.write(_LENGTHS.pack(len(text), len(body)))
    file.write(text)
    file.write(body)
    file.flush()


def read_message(file: _Source, longest_body: int) -> tuple[dict[str, Any], bytes] | None:
    """Receive one message, or None where the other side has ended.

    Raises:
        BrokenMessage: it is no message, or one too long.
    """
    head = file.read(_LENGTHS.size)
    if len(head) < _LENGTHS.size:
        return None
    length, after = _LENGTHS.unpack(head)
    if length > _LONGEST_OBJECT or after > longest_body:
        raise BrokenMessage("more text than a document may have")
    text, body = file.read(length), file.read(after)
    if len(text) < length or len(body) < after:
        return None
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BrokenMessage("the reader process returned invalid data") from error
    if not isinstance(fields, dict):
        raise BrokenMessage("the reader process returned invalid data")
    return fields, body
