"""Documents made to do harm: each may cost itself, quickly, and nothing else."""

import gzip
import io
import os
import re
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexer.errors import ParseError
from indexer.read.container import expand
from indexer.read.formats import CONTAINER, MAIL, content_type_of, reader_of
from indexer.records import Document, Failure
from tests.indexer import files
from tests.indexer.conftest import make_page, parsed
from tests.indexer.read.test_linear import MARKDOWN, PIECES, UNITS

_EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "40"))  # of each format
_OURS = (".docx", ".pptx", ".ods", ".epub", ".ipynb", ".csv", ".py", ".zip", ".tar.gz", ".tar")
_BOMB = b"<x>" + b"A" * 100_000_000 + b"</x>"
_LAUGHS = (
    "<!DOCTYPE x [<!ENTITY a 'ha'>"
    + "".join(f"<!ENTITY {chr(98 + i)} '{f'&{chr(97 + i)};' * 10}'>" for i in range(9))
    + "]><x>&j;</x>"
)
_OUTSIDE = "<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><x>&e;</x>"
_tar = tarfile.TarInfo("a.md").tobuf() + bytes(512) + tarfile.TarInfo("b/c.txt").tobuf() + bytes(1024)
_SOURCE = (
    "# feeds\nclass Cat(Base):\n    def eat(self) -> None:\n        pass\n\nint main(void) {\n}\n"
    "CREATE TABLE t (a int);\n"
)
SEEDS = {
    "a.docx": files.docx(
        files.paragraph("Cats", "H1") + files.paragraph("sleep") + "<w:tbl><w:tr><w:tc/></w:tr></w:tbl>"
    ),
    "b.docx": files.docx(
        "<w:p><w:pPr><w:outlineLvl w:val='0'/><w:numPr><w:numId w:val='1'/></w:numPr></w:pPr><w:r><w:t>Cats</w:t></w:r>"
        "<w:r><w:sym w:font='Symbol' w:char='F061'/></w:r><w:r><w:footnoteReference w:id='2'/></w:r></w:p><w:sdt>"
        "<w:sdtContent><w:p><m:oMath><m:f><m:num><m:r><m:t>a</m:t></m:r></m:num></m:f></m:oMath></w:p></w:sdtContent>"
        "</w:sdt><w:tbl><w:tr><w:trPr><w:gridBefore w:val='1'/></w:trPr><w:tc><w:tcPr><w:gridSpan w:val='2'/><w:vMerge "
        "w:val='restart'/></w:tcPr><w:p/></w:tc></w:tr></w:tbl>",
        footnotes="<w:footnote w:id='2'><w:p><w:r><w:t>note</w:t></w:r></w:p></w:footnote>",
        numbering="<w:abstractNum w:abstractNumId='1'><w:lvl w:ilvl='0'><w:start w:val='1'/><w:lvlText w:val='%1'/>"
        "</w:lvl></w:abstractNum><w:num w:numId='1'><w:abstractNumId w:val='1'/></w:num>",
    ),
    "a.ods": files.ods(
        '<table:table table:name="S"><table:table-row table:number-rows-repeated="2"><table:table-cell '
        'table:number-columns-spanned="2" table:number-rows-spanned="2" office:value="0.5"><text:p>a<text:s/>b</text:p>'
        "</table:table-cell><table:covered-table-cell/></table:table-row></table:table>"
    ),
    "a.pptx": files.pptx(files.shape("Cats", "title") + files.shape("sleep"), notes="n"),
    "a.xlsx": files.xlsx(Cats=[["name", "age"], ["Tom", "3"]]),
    "a.epub": files.epub(one="<html><body><h1>Cats</h1><p>sleep</p></body></html>"),
    "a.pdf": files.pdf("Cats sleep", "Dogs", title="Zoo"),
    "a.ipynb": files.NOTEBOOK.encode(),
    "a.eml": files.MAIL.encode(),
    "a.csv": b'name,age\nTom,"3"\n',
    "a.rst": b"Zoo\n===\n\n:ref:`x <y>` |s|_ [1]_\n\n.. note:: x\n\n.. code-block:: c\n\n   y\n\n"
    b"+---+\n| a |\n+---+\n\n.. [1] f\n",
    "a.py": _SOURCE.encode(),
    "a.html": b"<title>T</title><main><h1 id=a>Cats</h1><ul><li>x<table><tr><td>y</table></main>",
    "a.md": b"---\ntitle: x\n---\n# A\n\n- x\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
    "a.txt": b"Title\n\ntext\n",
    "a.zip": files.zipped({"a.md": "# A", "b/c.txt": "x" * 200}),
    "a.tar.gz": gzip.compress(bytes(_tar)),
    "a.tar": bytes(_tar),
}


_WORDS = ("a", "cat", "é", "\u202e", "\x00", "\ud7ff", "﷽", "👩\u200d👧", " ", "\t", "\n", "\r\n", "\\", "%00", "&lt;")
PARTS = {  # by the end of a name, what documents are put together from
    ".md": MARKDOWN, ".csv": PIECES["csv_text"], ".html": UNITS, ".rst": [*MARKDOWN, *PIECES["restructured"]],
}  # fmt: skip


if os.environ.get("FUZZ_FILES"):  # a folder of real documents
    SEEDS |= {path.name: path.read_bytes() for path in sorted(Path(os.environ["FUZZ_FILES"]).iterdir())}


def read(name: str, body: bytes) -> Document:
    content_type = content_type_of(name)
    assert content_type is not None
    return parsed(make_page(body, content_type, f"http://t.test/{name}"))


def refusal(name: str, body: bytes) -> str:
    """Why a document, or what is in it, was refused; empty if it was read."""
    content_type = content_type_of(name)
    assert content_type is not None
    reader = reader_of(content_type)
    reasons: list[str] = []
    if reader in (CONTAINER, MAIL):
        found = expand(make_page(body, content_type, f"http://t.test/{name}"), 1_000_000)
        reasons += [item.reason for item in found if isinstance(item, Failure)]
    try:
        if reader != CONTAINER:
            read(name, body)
    except ParseError as error:
        reasons.append(str(error))
    return "; ".join(reasons)


def with_part(name: str, pattern: str, content: str | bytes) -> bytes:
    """A document of which every part with such a name is replaced."""
    with zipfile.ZipFile(io.BytesIO(SEEDS[name])) as archive:
        parts = {part: archive.read(part) for part in archive.namelist()}
    body = content.encode() if isinstance(content, str) else content
    return files.zipped({part: body if re.search(pattern, part) else held for part, held in parts.items()})


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("a.docx", "document.xml$"), ("a.docx", "styles"), ("a.docx", "rels$"), ("a.pptx", "slides/0.xml$"),
        ("a.pptx", "presentation.xml$"), ("a.epub", "opf"), ("a.epub", "container"), ("a.xlsx", "workbook.xml$"),
        ("a.xlsx", "sheets"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("content", [_LAUGHS, _OUTSIDE, _BOMB], ids=["laughs", "entity", "bomb"])
def test_xml_that_does_harm(name: str, part: str, content: str | bytes) -> None:
    body = with_part(name, part, content)
    reason = refusal(name, body)
    assert not re.search("crashed|longer than", reason)
    if not reason:  # the reader of sheets knows no entities at all: it reads them as nothing
        assert name == "a.xlsx"
        assert not re.search("root:|haha", repr(read(name, body).sections))


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx", "a.epub"])
def test_truncated_documents(name: str) -> None:
    body = SEEDS[name]
    for length in (10, len(body) // 2, len(body) - 10):
        with pytest.raises(ParseError, match="truncated or damaged"):
            read(name, body[:length])


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("a.ipynb", b'{"cells":' + b"[" * 50_000), ("a.csv", b'"' * 1_000_001),
        ("a.docx", files.docx("<w:sdt>" * 200 + "</w:sdt>" * 200)),
        ("a.pptx", files.pptx("<p:grpSp>" * 250 + files.shape("x") + "</p:grpSp>" * 250)),
        ("a.pdf", b"%PDF-1.4\n" + b"[" * 100_000),
    ],
)  # fmt: skip
def test_endless_documents_end(name: str, body: bytes) -> None:
    assert not re.search("crashed|longer than", refusal(name, body))


def test_hidden_text_is_never_read() -> None:
    """Zero-width and tag characters, in every format."""
    hidden = "sl\u200beep\u2060\U000e0041\U000e0042"
    bodies = {
        "a.docx": files.docx(files.paragraph(hidden)),
        "a.pptx": files.pptx(files.shape(hidden)),
        "a.xlsx": files.xlsx(**{"S": [[hidden]]}),
        "a.epub": files.epub(one=f"<html><body><p>{hidden}</p><!-- NO --></body></html>"),
        "a.ipynb": files.NOTEBOOK.replace("They sleep", hidden).encode(),
        "a.eml": files.MAIL.replace("The cats are fed", hidden).encode(),
        "a.csv": f"a,b\n1,{hidden}\n".encode(),
        "a.rst": f"{hidden}\n\n.. NO\n".encode(),
        "a.py": f"# {hidden}\n".encode(),
        "a.html": f"<p>{hidden}<!-- NO -->".encode(),
        "a.md": f"{hidden}\n<!-- NO -->".encode(),
        "a.txt": hidden.encode(),
    }
    for name, body in bodies.items():
        text = "\n".join(section.text for section in read(name, body).sections)
        assert "sleep" in text, name
        assert not re.search("[\u200b\u2060\U000e0000-\U000e0fff]|NO", text), name


@st.composite
def damaged(draw: st.DrawFn, name: str) -> bytes:
    """A seed with pieces cut out, repeated or replaced; of a zip, now and then inside one of its parts."""
    seed = SEEDS[name]
    if seed.startswith(b"PK") and draw(st.booleans()):
        with zipfile.ZipFile(io.BytesIO(seed)) as archive:
            parts = {part: archive.read(part) for part in archive.namelist()}
        chosen = draw(st.sampled_from(sorted(parts)))
        return files.zipped(parts | {chosen: _damage(draw, parts[chosen])})
    return _damage(draw, seed)


def _damage(draw: st.DrawFn, body: bytes) -> bytes:
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(body)))
        end = min(len(body), start + draw(st.integers(0, 40)))
        piece = draw(st.one_of(st.binary(max_size=20), st.just(body[start:end] * 30), st.text(max_size=10).map(utf8)))
        body = body[:start] + piece + body[end:]
    return body


def utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def assembled(*parts: str) -> st.SearchStrategy[bytes]:
    """A text of such parts, some of them repeated often."""
    piece = st.sampled_from(parts)
    many = st.tuples(st.lists(piece, min_size=1, max_size=4), st.integers(2, 3_000)).map(lambda x: "".join(x[0]) * x[1])
    return st.lists(st.one_of(piece, st.text(max_size=8), many), max_size=40).map(lambda found: utf8("".join(found)))


@pytest.mark.parametrize("name", SEEDS)
def test_whatever_comes_a_reader_reads_or_refuses_it(name: str) -> None:
    bodies = st.one_of(
        damaged(name), st.binary(max_size=200), *(assembled(*PARTS[end], *_WORDS) for end in PARTS if end in name)
    )

    @settings(max_examples=_EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(body=bodies)
    def check(body: bytes) -> None:
        reason = refusal(name, body)
        assert not re.search("crashed|longer than|invalid data|forbidden", reason)
        if name.endswith(_OURS):  # no library stands between the bytes and our code, so every mishap is foreseen
            assert "not of its declared type" not in reason

    check()
