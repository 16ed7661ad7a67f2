"""Parts of messages as programs write them: all text is read, in order, and what is left out is noted."""

import base64

import pytest

from indexer.read.mail import read
from indexer.text import reader_notes

PNG = "Content-Type: image/png; name=x.png\nContent-Transfer-Encoding: base64\n\niVBORw0KGgo=\n"


def plain(text: str, head: str = "", kind: str = "plain") -> str:
    return f"Content-Type: text/{kind}; charset=utf-8\n{head}\n{text}\n"


def html(text: str) -> str:
    return plain(text, kind="html")


def multipart(kind: str, *parts: str) -> str:
    """Parts as one; their boundary is no other's, as each is longer than what it holds."""
    boundary = f"b{sum(map(len, parts))}"
    body = "".join(f"--{boundary}\n{part}\n" for part in parts)
    return f'Content-Type: multipart/{kind}; boundary="{boundary}"\n\n{body}--{boundary}--\n'


def texts(message: str | bytes) -> list[str]:
    reader_notes.take()
    body = message if isinstance(message, bytes) else f"MIME-Version: 1.0\n{message}".encode()
    return [" > ".join((*section.path, section.text.strip("\n"))) for section in read(body, None).sections]


SAME = "The cats are fed at seven, each morning."
MORE = "<h1>Plan</h1><p>The cats are fed at seven, each morning, and the dogs at eight, and then all birds.</p>"
FORWARDED = f"Content-Type: message/rfc822\n\nSubject: inner\n\n{SAME}\n"


@pytest.mark.parametrize(
    ("message", "found", "noted"),
    [
        (multipart("mixed", plain("One."), html("<p>Two.</p>"), plain("Three.")), ["One.", "Two.", "Three."], ()),
        (multipart("related", html("<p>Text <img src='cid:a'></p>"), PNG), ["Text"], ()),
        (multipart("alternative", plain(SAME), html(f"<p>{SAME}</p>")), [SAME], ()),
        (multipart("alternative", plain("See the HTML."), html(MORE)),
         ["Plan > The cats are fed at seven, each morning, and the dogs at eight, and then all birds."], ()),
        (multipart("signed", plain("Signed."), "Content-Type: application/pgp-signature; name=s.asc\n\nx\n"),
         ["Signed."], ()),
        (multipart("mixed", plain("See below."), FORWARDED), ["See below."], ()),
        (multipart("encrypted", "Content-Type: application/pgp-encrypted\n\nVersion: 1\n", PNG), [],
         ("a part of a mail was not read: it is encrypted",)),
        (multipart("alternative", plain("Invited."), "Content-Type: text/calendar; method=ADD\n\nBEGIN:VCALENDAR\n"),
         ["Invited."], ("a part of a mail was not read: calendar",)),
        (multipart("mixed", plain("T."), "Content-Type: text/x-diff; name=a.diff\nContent-Disposition: inline; "
                   "filename=a.diff\n\n+line\n"), ["T.", "+line"], ()),
        (multipart("mixed", plain("T."), plain("file", "Content-Disposition: attachment; filename=a.txt\n")),
         ["T."], ()),
        ("Content-Type: text/plain; name=body.txt\n\nThe only text.\n", ["The only text."], ()),
        (multipart("mixed", "\nNo type.\n", "Content-Type: text/enriched\n\n<bold>Rich</bold>.\n"),
         ["No type.", "Rich."], ()),
        ("Content-Type: application/pkcs7-mime; smime-type=enveloped-data; name=smime.p7m\n\nx\n", [],
         ("a part of a mail was not read: it is encrypted or signed",)),
    ],
)  # fmt: skip
def test_parts(message: str, found: list[str], noted: tuple[str, ...]) -> None:
    assert texts(message) == found
    assert reader_notes.take() == noted


@pytest.mark.parametrize(
    ("head", "body", "found"),
    [
        ("Content-Type: text/plain; charset=gb2312\nContent-Transfer-Encoding: base64",
         base64.b64encode("镕基".encode("gbk")), "镕基"),
        ("Content-Type: text/plain; charset=iso-8859-1", "“dear”".encode("cp1252"), "“dear”"),
        ("Content-Type: text/plain", "Größe und Maß für alle Räume".encode("latin-1"), "Größe und Maß für alle Räume"),
        ("Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable",
         b"a soft=20br=\neak and =3D and =\r\nmore=", "a soft break and = and more"),
        ("Content-Type: text/plain", b"Text.\n-----BEGIN PGP SIGNATURE-----\n\niQ==\n", "Text."),
        ("Content-Type: text/plain", b"Text.\n-- \nAnna\nQuay 1\n\n> Quoted.\n", "Text.\n\n> Quoted."),
        ("Content-Type: text/html; charset=windows-1251", "<p>привет всем".encode("cp1251"), "привет всем"),
    ],
)  # fmt: skip
def test_text(head: str, body: bytes, found: str) -> None:
    assert texts(head.encode() + b"\n\n" + body) == [found]


@pytest.mark.parametrize(
    ("raw", "subject"),
    [
        (b"=?utf-8?q?F=C3=BCttern?= =?utf-8?b?w6k=?= now", "Fütterné now"),
        (b"=?gb2312?B?6UY=?=", "镕"),
        (b"=?iso-8859-1?Q?=93a=94?=\n continued", "“a” continued"),
        ("für =?utf-8?q?x?=".encode(), "für x"),
        (b"=?x-no?q?abc?=", "abc"),
        (b"=?utf-8?q?broken", "=?utf-8?q?broken"),
    ],
)
def test_subjects(raw: bytes, subject: str) -> None:
    assert read(b"Subject: " + raw + b"\n\nText.", None).title == subject
