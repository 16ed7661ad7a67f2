"""Attachments of an e-mail, given as the members of an archive are: each becomes a document of its own.

A message that was forwarded as an attachment is one, and what came with it follows under its name.
"""

import mimetypes
from collections.abc import Iterator
from email import policy
from email.message import EmailMessage, Message
from email.parser import BytesParser
from pathlib import PurePosixPath

from indexer.errors import ParseError
from indexer.read.container import Budget, Member, unwanted
from indexer.read.files.mail import content_of, is_shown, is_signature, parts_of

_FORWARDED = "message/rfc822"
_DEEPEST = 10  # messages in messages
_AS_IT_CAME = policy.default.clone(refold_source="none")  # folding a long parameter anew may never end
_TROUBLE = (ValueError, TypeError, IndexError, AttributeError, LookupError)  # what headers make the parser trip over


def members(body: bytes, max_bytes: int, no_images: str) -> Iterator[Member]:
    """Yield the attachments of a message, in its order; runs in the reader process. For `no_images` see `expand`.

    Raises:
        ParseError: there is more than an archive may hold.
    """
    message = BytesParser(policy=_AS_IT_CAME).parsebytes(body)
    budget = Budget(len(body))
    names: set[str] = set()
    todo: list[tuple[Message, str]] = [(message, "")]
    while todo:
        outer, folder = todo.pop()
        for part in _attached(outer):
            budget.member()
            name = _unique(f"{folder}{_name(part)}", names)
            inner = _forwarded(part)
            try:
                data = inner.as_bytes() if inner is not None else content_of(part)
            except _TROUBLE:
                yield Member(name, failed="damaged in the message")
                continue
            budget.spend(len(data))
            if reason := unwanted(name, no_images):
                yield Member(name, skipped=reason)
            elif len(data) > max_bytes:
                yield Member(name, failed=f"larger than {max_bytes:,} bytes")
            else:
                yield Member(name, data)
            if inner is not None:
                if folder.count("/") >= _DEEPEST:
                    raise ParseError(f"more than {_DEEPEST} messages in one another")
                todo.append((inner, f"{name}/"))


def _attached(message: Message) -> Iterator[Message]:
    """Parts that are neither text of the message, nor parts of another one in it, nor signatures."""
    shown = message.get_body(("plain", "html")) if isinstance(message, EmailMessage) else None
    todo: list[Message] = [message]
    while todo:
        part = todo.pop()
        if part.get_content_maintype() == "multipart":
            todo.extend(reversed(parts_of(part)))
        elif part is not shown and not is_shown(part) and not is_signature(part) and _name(part):
            yield part


def _forwarded(part: Message) -> Message | None:
    """Return the message that a part is, also where it was packed like a file, against the rules."""
    parts = parts_of(part) if part.get_content_type() == _FORWARDED else []
    if not parts:
        return None
    packing = str(part.get("Content-Transfer-Encoding", "")).strip().lower()
    if packing in ("base64", "quoted-printable") and not parts[0].keys():
        parts[0]["Content-Transfer-Encoding"] = packing
        return BytesParser(policy=_AS_IT_CAME).parsebytes(content_of(parts[0]))
    return parts[0]


def _name(part: Message) -> str:
    """Name of the file that a part is; one without a name gets that of its kind, and what is no file has none."""
    kind = part.get_content_type()
    try:
        name = PurePosixPath((part.get_filename() or "").replace("\\", "/")).name
        is_file = kind == _FORWARDED or part.get_content_disposition() == "attachment"
    except _TROUBLE:
        name, is_file = "", True
    if kind == _FORWARDED:
        return f"{name.removesuffix('.eml') or 'message'}.eml"
    return name or (f"attachment{mimetypes.guess_extension(kind) or ''}" if is_file else "")


def _unique(name: str, names: set[str]) -> str:
    """The name, with a number if another file has it."""
    path, number = PurePosixPath(name), 1
    while name in names:
        number += 1
        name = str(path.with_name(f"{path.stem}-{number}{path.suffix}"))
    names.add(name)
    return name
