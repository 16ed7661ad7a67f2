"""What comes with an e-mail becomes documents beside it."""

from email.message import EmailMessage
from pathlib import Path

import pytest

from indexer.config import CrawlLimits
from indexer.errors import ParseError
from indexer.read.container import expand
from indexer.read.mail import attachments
from indexer.records import Page
from indexer.source_context import SourceContext
from indexer.sources.folder import read_path
from tests.indexer.conftest import make_page, parsed
from tests.indexer.files import docx, paragraph, pdf, zipped


def mail(subject: str = "Feeding", **kw: str) -> EmailMessage:
    message = EmailMessage()
    message["Subject"], message["From"] = subject, "ann@zoo.test"
    message.set_content(kw.get("text", "See the plan."))
    return message


def found(message: EmailMessage | bytes, max_bytes: int = 100_000) -> dict[str, str]:
    """Name of each member, and its text or why there is none."""
    body = message if isinstance(message, bytes) else bytes(message)
    return {
        member.name: member.skipped or member.failed or member.body.decode("latin-1")
        for member in attachments(body, max_bytes, "")
    }


def test_attachments_are_documents_of_their_own(tmp_path: Path) -> None:
    message = mail()
    message.add_attachment(pdf("Cats at nine."), maintype="application", subtype="pdf", filename="plan.pdf")
    message.add_attachment(docx(paragraph("Dogs at ten.")), maintype="a", subtype="b", filename="plan für morgen.docx")
    message.add_attachment("Birds at dawn.", filename="note.txt")
    message.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="pic.png")
    (tmp_path / "a.eml").write_bytes(bytes(message))
    for source in (tmp_path, tmp_path / "a.eml"):
        items = list(read_path(SourceContext(str(source), CrawlLimits(max_bytes=100_000))))
        texts = {
            item.url.rpartition("/")[2]: parsed(item).sections[-1].text for item in items if isinstance(item, Page)
        }
        assert texts == {
            "a.eml": "See the plan.",
            "plan.pdf": "Cats at nine.",
            "plan%20f%C3%BCr%20morgen.docx": "Dogs at ten.",
            "note.txt": "Birds at dawn.",
        }
        assert items[-1].url == f"{(tmp_path / 'a.eml').as_uri()}!/pic.png"


def test_forwarded_messages_and_what_came_with_them() -> None:
    inner = mail("Inner", text="the inner text")
    inner.add_attachment("one", filename="a.txt")
    outer = mail("Outer")
    outer.add_attachment(inner)
    outer.add_attachment("two", filename="a.txt")
    outer.add_attachment("three", filename="a.txt")
    texts = found(outer)
    assert list(texts) == ["message.eml", "a.txt", "a-2.txt", "message.eml/a.txt"]
    assert "the inner text" in texts["message.eml"]
    assert [text.strip() for text in list(texts.values())[1:]] == ["two", "three", "one"]


@pytest.mark.parametrize(
    ("name", "where"), [("../../etc/passwd.txt", "passwd.txt"), ("C:\\temp\\x.txt", "x.txt"), ("/abs.txt", "abs.txt")]
)
def test_names_lead_nowhere(name: str, where: str) -> None:
    message = mail()
    message.add_attachment("x", filename=name)
    assert list(found(message)) == [where]


def test_what_is_not_read() -> None:
    message = mail()
    message.add_attachment(zipped({"a.txt": "x"}), maintype="application", subtype="zip", filename="a.zip")
    message.add_attachment("x", filename=".hidden.txt")
    message.add_attachment("x" * 2_000, filename="big.txt")
    message.add_attachment(b"%PDF", maintype="application", subtype="pdf")
    assert found(message, 1_000) == {
        "a.zip": "a nested archive",
        ".hidden.txt": "hidden",
        "big.txt": "larger than 1,000 bytes",
        "attachment.pdf": "%PDF",
    }


def test_attachments_beside_an_access_list_are_left_out() -> None:
    message = mail()
    message.add_attachment("x", filename="plan.txt")
    message.add_attachment('users = ["ann"]', filename="plan.txt.access.toml")
    assert {*found(message).values()} == {"has an access list, which is supported only in folders"}


def test_messages_in_messages_end() -> None:
    body = b"Content-Type: message/rfc822\n\n" * 60 + b"x"
    with pytest.raises(ParseError, match="more than 10 nested messages"):
        list(attachments(body, 100_000, ""))
    [failure] = [item for item in expand(make_page(body, "message/rfc822"), 100_000) if not isinstance(item, Page)]
    assert "nested messages" in getattr(failure, "reason", "")
