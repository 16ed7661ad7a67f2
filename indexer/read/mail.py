"""Read the subject, sender, recipients and text of an e-mail, and unpack its attachments."""

import mimetypes
import re
from collections import Counter
from collections.abc import Iterator
from email.header import decode_header
from email.message import EmailMessage, Message
from email.parser import BytesParser
from email.policy import EmailPolicy
from pathlib import PurePosixPath
from typing import Any, cast

from indexer.errors import ParseError
from indexer.read.access_list import UNSUPPORTED_LIST, closed_paths
from indexer.read.container import Member, UnpackBudget, skip_reason
from indexer.read.extraction import day_of, tidy
from indexer.read.formats import content_type_of
from indexer.read.html.main_content import extract
from indexer.records import Declared, Extraction, Section
from indexer.text import reader_notes
from indexer.text.charsets import decode

_SHOWN_HEADERS = ("From", "To", "Cc", "Date")
_MAX_SHOWN_CHARS, _MAX_RAW_CHARS = 500, 4_000
_MAX_PART_DEPTH = 50
_FORWARDED, _MAX_FORWARDED = "message/rfc822", 10
_UNREAD_TEXT_SUBTYPES = frozenset({"css", "calendar", "x-amp-html", "watch-html", "vcard", "x-vcard", "directory"})
_MARKED_UP = frozenset({"html", "xhtml", "enriched", "richtext"})
_SIGNATURES = frozenset({"pgp-signature", "pkcs7-signature", "x-pkcs7-signature"})
_ENCRYPTED = frozenset({"pgp-encrypted", "pkcs7-mime", "x-pkcs7-mime"})
_MIN_LENGTH_RATIO = 1.3  # a later part of multipart/alternative is used only if it is longer by this factor
_ARMOUR = re.compile(r"^-----BEGIN PGP (?:SIGNATURE|(MESSAGE))-----", re.MULTILINE)
_SIGN_OFF = re.compile(r"^-- \n(?:[^\n]+(?:\n|\Z)){0,8}(?=\n|\Z)", re.MULTILINE)  # signatures of RFC 3676
_MAX_PARSED_CHARS = 1_000
_HEADER_ERRORS = (ValueError, TypeError, IndexError, AttributeError, LookupError)


class _Policy(EmailPolicy):
    """A policy that shortens headers before parsing, because long parameters take quadratic time."""

    def header_fetch_parse(self, name: str, value: Any) -> Any:
        return super().header_fetch_parse(name, value[:_MAX_PARSED_CHARS])


_PARSER = BytesParser(policy=_Policy(refold_source="none"))  # refolding a long parameter may never end


def read(body: bytes, charset: str | None) -> Extraction:
    """Extract the subject, date, sender, recipients and text of an e-mail in the format of RFC 5322."""
    message = cast(EmailMessage, _PARSER.parsebytes(body))
    subject = _header(message, "Subject")
    head = "\n".join(f"{name}: {value}" for name in _SHOWN_HEADERS if (value := _header(message, name)))
    sections = [Section((), None, head), *_sections(message, message.get_body(("plain", "html")))]
    filled = tuple(section for section in sections if section.text.strip())
    return Extraction(subject or None, filled, Declared(date=day_of(_header(message, "Date"))))


def _is_shown(entity: Message) -> bool:
    try:
        name, is_file = entity.get_filename(), entity.get_content_disposition() == "attachment"
    except _HEADER_ERRORS:
        return False
    is_text = entity.get_content_maintype() == "text" and entity.get_content_subtype() not in _UNREAD_TEXT_SUBTYPES
    return is_text and not is_file and (not name or content_type_of(name) is None)


def _parts_of(entity: Message) -> list[Message]:
    entities = entity.get_payload()
    return cast(list[Message], entities) if isinstance(entities, list) else []


def _content_of(entity: Message) -> bytes:
    """Return the decoded bytes of a MIME entity. Raises one of `_HEADER_ERRORS` if the entity is damaged."""
    content = entity.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""


def _sections(entity: Message, main: Message | None, depth: int = 0) -> list[Section]:
    """Return the text of a MIME entity and its nested entities. Include `main`, even if it is marked as a file."""
    if depth > _MAX_PART_DEPTH:
        raise ParseError(f"more than {_MAX_PART_DEPTH} nested parts of a message")
    main_type, kind = entity.get_content_maintype(), entity.get_content_subtype()
    if main_type == "multipart":
        if kind == "encrypted":
            reader_notes.add("a part of a mail was not read: it is encrypted")
            return []
        versions = [_sections(inner, main, depth + 1) for inner in _parts_of(entity)]
        if kind != "alternative":
            return [one for inner in versions for one in inner]
        best: list[Section] = []  # the first alternative, or a later one with much more text
        min_length = 0.0  # letters and digits
        for version in versions:
            length = sum(sum(map(str.isalnum, section.text)) for section in version)
            if length > min_length:
                best, min_length = version, _MIN_LENGTH_RATIO * length
        return best
    if entity is main or _is_shown(entity):
        return _text(entity)
    if kind in _ENCRYPTED:
        reader_notes.add("a part of a mail was not read: it is encrypted or signed")
    elif kind not in _SIGNATURES and not entity.get_filename() and entity.get_content_type() != _FORWARDED:
        reader_notes.add(f"a part of a mail was not read: {kind if main_type == 'text' else main_type}")
    return []


def _text(entity: Message) -> list[Section]:
    try:
        content, charset = _content_of(entity), entity.get_content_charset()
    except _HEADER_ERRORS:
        reader_notes.add("a part of a mail was not read: it is damaged")
        return []
    if entity.get_content_subtype() in _MARKED_UP:
        sections = extract(decode(content, charset, markup=True)).sections
        return [Section(section.path, None, section.text, (), section.blocks) for section in sections]
    text = decode(content, charset).replace("\r\n", "\n")
    if (armour := _ARMOUR.search(text)) and armour[1]:
        reader_notes.add("a part of a mail was not read: it is encrypted")
    return [Section((), None, tidy(_SIGN_OFF.sub("", text[: armour.start()] if armour else text)))]


def _header(message: Message, name: str) -> str:
    """Return the decoded text of a header on one line, as mail programs show it, or "" if it is missing."""
    raw = next((str(value) for header, value in message.raw_items() if header.lower() == name.lower()), "")
    unfolded = raw[:_MAX_RAW_CHARS].replace("\r", "").replace("\n", "")
    pieces: list[str] = []
    try:
        for word, charset in decode_header(unfolded):
            if isinstance(word, bytes) and charset is not None:
                pieces.append(decode(word, charset))
            else:  # text between encoded words has no declared charset
                text = word.decode("raw_unicode_escape", "replace") if isinstance(word, bytes) else word
                pieces.append(decode(text.encode("utf-8", "surrogateescape"), None))
    except _HEADER_ERRORS:
        pieces = [unfolded.encode("utf-8", "replace").decode()]
    return " ".join("".join(pieces).split())[:_MAX_SHOWN_CHARS]


def attachments(body: bytes, max_bytes: int, no_images: str) -> Iterator[Member]:
    """Yield the attachments of a mail, in a reader process. Raises ParseError if they are too many or too large."""
    budget, names = UnpackBudget(len(body)), Counter[str]()
    message = _PARSER.parsebytes(body)
    has_list = any(closed_paths([_file_name(entity)]) for entity in message.walk())
    todo: list[tuple[Message, str]] = [(message, "")]
    while todo:
        outer, folder = todo.pop()
        for entity in _attached(outer):
            budget.count_file()
            name = f"{folder}{_file_name(entity)}"
            names[name] += 1
            if names[name] > 1:
                path = PurePosixPath(name)
                name = str(path.with_name(f"{path.stem}-{names[name]}{path.suffix}"))
            inner = _forwarded(entity)
            try:
                data = inner.as_bytes() if inner is not None else _content_of(entity)
            except _HEADER_ERRORS:
                yield Member(name, failed="damaged in the message")
                continue
            budget.spend(len(data))
            if reason := UNSUPPORTED_LIST if has_list else skip_reason(name, no_images):
                yield Member(name, skipped=reason)
            elif len(data) > max_bytes:
                yield Member(name, failed=f"larger than {max_bytes:,} bytes")
            else:
                yield Member(name, data)
            if inner is not None:
                if folder.count("/") >= _MAX_FORWARDED:
                    raise ParseError(f"more than {_MAX_FORWARDED} nested messages")
                todo.append((inner, f"{name}/"))


def _attached(message: Message) -> Iterator[Message]:
    """Yield the attached files of a message, without signatures and without the attachments of forwarded messages."""
    shown = message.get_body(("plain", "html")) if isinstance(message, EmailMessage) else None
    todo: list[Message] = [message]
    while todo:
        entity = todo.pop()
        if entity.get_content_maintype() == "multipart":
            todo.extend(reversed(_parts_of(entity)))
        elif entity is shown or _is_shown(entity) or entity.get_content_subtype() in _SIGNATURES:
            continue
        elif _file_name(entity):
            yield entity


def _forwarded(entity: Message) -> Message | None:
    """Return the forwarded message in a MIME entity, or None. Decode base64, which some mails use against the rules."""
    entities = _parts_of(entity) if entity.get_content_type() == _FORWARDED else []
    if not entities:
        return None
    packing = str(entity.get("Content-Transfer-Encoding", "")).strip().lower()
    if packing in ("base64", "quoted-printable") and not entities[0].keys():
        entities[0]["Content-Transfer-Encoding"] = packing
        return _PARSER.parsebytes(_content_of(entities[0]))
    return entities[0]


def _file_name(entity: Message) -> str:
    """Return the name of an attached file, or a default name if it has none. Return "" if the entity is not a file."""
    kind = entity.get_content_type()
    try:
        name = PurePosixPath((entity.get_filename() or "").replace("\\", "/")).name
        is_file = kind == _FORWARDED or entity.get_content_disposition() == "attachment"
    except _HEADER_ERRORS:
        name, is_file = "", True
    if kind == _FORWARDED:
        return f"{name.removesuffix('.eml') or 'message'}.eml"
    return name or (f"attachment{mimetypes.guess_extension(kind) or ''}" if is_file else "")
