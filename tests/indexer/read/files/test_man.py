"""Manual pages, and single documents packed with gzip, as folders of documentation have them."""

import gzip
from pathlib import Path

import pytest

from indexer.errors import ParseError
from indexer.read.formats import content_type_of
from indexer.read.parsing import parse
from indexer.records import Document, Page
from indexer.sources.folders.folder import read_path

MAN = r""".\" a comment
.de Sp
.if t .sp
..
.ie n \{\
.  ds -- \-\-
'br\}
.TH FEED 1 "2026-01-01" "zoo" "Cats"
.SH NAME
feed \- give a cat its \fIfood\fR
.SH SYNOPSIS
.B feed
[\fB\-q\fP]
.IR cat ...
.SH OPTIONS
.TP
.BR \-q ", " \-\-quiet
Says nothing, but \(lqpurr\(rq.
.TP
.B \-\-much
Gives more.
.SH EXAMPLES
.PP
Try this:
.nf

if hungry:

    feed \-q tom \\
.fi
.SS "See also"
.BR stroke (1)
"""
MDOC = r""".Dd January 1, 2026
.Dt FEED 8
.Os
.Sh NAME
.Nm feed
.Nd give a cat its food
.Sh SYNOPSIS
.Nm
.Op Fl q
.Ar cat ...
.Sh DESCRIPTION
The
.Nm
utility feeds, see
.Xr stroke 1 .
.Bl -tag -width indent
.It Fl q , Fl -quiet
Says
.Dq nothing .
.El
"""


def read(path: Path) -> Document:
    [page] = read_path(str(path), 1_000_000, lambda _: None)
    assert isinstance(page, Page)
    return parse(page)


def test_a_manual_page_in_man(tmp_path: Path) -> None:
    (tmp_path / "feed.1.gz").write_bytes(gzip.compress(MAN.encode()))
    document = read(tmp_path / "feed.1.gz")
    assert document.title == "feed(1)"
    assert [(section.path, section.text) for section in document.sections] == [
        (("NAME",), "feed - give a cat its food"),
        (("SYNOPSIS",), "feed [-q] cat..."),
        (("OPTIONS",), "-q, --quiet\nSays nothing, but “purr”.\n\n--much\nGives more."),
        (("EXAMPLES",), "Try this:\n\nif hungry:\n\n    feed -q tom \\"),
        (("EXAMPLES", "See also"), "stroke(1)"),
    ]


def test_a_manual_page_in_mdoc(tmp_path: Path) -> None:
    (tmp_path / "feed.8").write_text(MDOC)
    document = read(tmp_path / "feed.8")
    assert document.title == "feed(8)"
    assert [(section.path, section.text) for section in document.sections] == [
        (("NAME",), "feed — give a cat its food"),
        (("SYNOPSIS",), "feed [-q] cat ..."),
        (("DESCRIPTION",), "The feed utility feeds, see stroke(1).\n\n-q, --quiet\nSays “nothing”."),
    ]


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("ls.1", "text/troff"), ("SSL_read.3ssl.gz", "text/troff"), ("systemd.unit.5", "text/troff"),
        ("sha256sum.1", "text/troff"), ("libz.so.1", None), ("zoo-1.2.1", None), ("boot.log.1.gz", None),
        ("a.rst.gz", "text/x-rst"), ("A.TXT.GZ", "text/plain"), ("a.html.gz", "text/html"),
        ("a.tar.gz", "application/gzip"), ("a.pdf.gz", None), ("a.zip.gz", None), ("a.gz", None),
    ],
)  # fmt: skip
def test_types_of_packed_files_and_manual_pages(name: str, content_type: str | None) -> None:
    assert content_type_of(name) == content_type


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("a.rst.gz", "T\n=\n\nwords of it"),
        ("a.txt.gz", "words of it"),
        ("a.html.gz", "<p>words of it"),
        ("a.md.gz", "words of it"),
    ],
)
def test_a_packed_document_is_read(tmp_path: Path, name: str, body: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(body.encode()))
    assert "words of it" in read(tmp_path / name).sections[0].text


def test_what_only_looks_like_a_manual_page_has_no_text(tmp_path: Path) -> None:
    (tmp_path / "syslog.1").write_text("Jan 1 a line of a log\n")
    (tmp_path / "data.2").write_bytes(b"\x00\x01.TH")
    assert read(tmp_path / "syslog.1").sections == read(tmp_path / "data.2").sections == ()


def test_a_bomb_and_a_damaged_file_fail(tmp_path: Path) -> None:
    bomb = gzip.compress(bytes(1 << 20) * 100)
    for name, body, said in (
        ("bomb.txt.gz", bomb, "bomb"),
        ("cut.txt.gz", gzip.compress(b"words " * 99)[:-20], "damaged"),
        ("wrong.txt.gz", b"\x1f\x8b" + b"x" * 99, "damaged"),
    ):
        (tmp_path / name).write_bytes(body)
        with pytest.raises(ParseError, match=said):
            read(tmp_path / name)
