"""E-mail to content: subject, sender, recipients and text; see `indexer.read.attachments` for what comes with it."""

from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import parsedate_to_datetime

from indexer.read.extraction import Extraction, tidy
from indexer.read.html.main_content import extract
from indexer.read.metadata import Declared
from indexer.records import Section

_SHOWN = ("From", "To", "Cc", "Date")
_LONGEST_HEADER = 500  # characters


def read(body: bytes, charset: str | None) -> Extraction:
    """Read a message as RFC 5322 has it."""
    message = BytesParser(policy=policy.default).parsebytes(body)
    if not isinstance(message, EmailMessage):
        return Extraction(None, ())
    subject = _header(message, "Subject")
    head = "\n".join(f"{name}: {value}" for name in _SHOWN if (value := _header(message, name)))
    sections = [Section((), None, text) for text in (head, *_texts(message)) if text.strip()]
    return Extraction(subject or None, tuple(sections), Declared(date=_day(_header(message, "Date"))))


def _texts(message: EmailMessage) -> list[str]:
    part = message.get_body(("plain", "html"))
    if not isinstance(part, EmailMessage):
        return []
    try:
        text = part.get_content()
    except (LookupError, ValueError):  # an unknown charset, or bytes that are not in it
        payload = part.get_payload(decode=True)
        text = payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""
    if part.get_content_subtype() != "html":
        return [tidy(str(text))]
    return [section.text for section in extract(str(text)).sections]


def _header(message: EmailMessage, name: str) -> str:
    try:
        value = str(message.get(name, ""))
    except (ValueError, TypeError, IndexError, AttributeError, LookupError):  # the parser of headers trips over some
        return ""
    return " ".join(value.split())[:_LONGEST_HEADER]


def _day(date: str) -> str | None:
    try:
        return parsedate_to_datetime(date).date().isoformat()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
