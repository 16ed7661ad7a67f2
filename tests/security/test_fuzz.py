"""Documents put together from the parts that formats are made of, read by a confined process as in a build.

`FUZZ_EXAMPLES` says how many of each; tests/indexer/read/test_hostile.py damages whole documents.
"""

import gzip
import io
import os
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexer.crawl.links import read_links, read_listing
from indexer.errors import FetchError, ParseError
from indexer.read.reader_process import ReaderProcess
from tests.indexer.conftest import make_page

pytestmark = pytest.mark.thorough
_EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "25"))
_WORDS = (
    "a",
    "cat",
    "é",
    "\u202e",
    "\x00",
    "\ud7ff",
    "﷽",
    "👩‍👧",
    " ",
    "\t",
    "\n",
    "\r\n",
    "\\",
    "%00",
    "&#0;",
    "&lt;",
)
_MARKDOWN = (
    *"# * _ ` ~ > - + | [ ] ( ) < > ! : \" ' = 1. ``` ~~~ --- *** ![ ]( <!-- --> <a href= {#".split(" "),
    "<script>", "\n", "\n\n", "    ", "---\ntitle: ", "\n---\n", "[x]: ", "|---|\n", "&amp;", "http://t.test/", "a@b.c",
    "{{< a >}}", "{% raw %}", "<A b={", "{/*", "import a from 'b'\n", ":::", "!!! a\n    ", "=== \"a\"\n", "```{a}\n",
    "[^1]", "[^1]: ", "[[", "]]", "$$", "$", "==", "^", ": a\n", "+++\n", ":tada:", "<div markdown>\n", "{.a}",
    "> [!A]\n",
    "- {a: &x [*x]}\n", "? ", "!!python/object:os.system ",
)  # fmt: skip
_CSV = (",", ";", "\t", "|", '"', '""', "\n", "\r", "\r\n", "1", "name", "=1+1", "'", " ")
_XML = (
    "<urlset>", "</urlset>", "<sitemapindex>", "<url>", "</url>", "<loc>", "</loc>", "<sitemap>", "</sitemap>",
    "<feed>", "<entry>", "<link href='/a'/>", "<rss>", "<item>", "<link>", "<!DOCTYPE x [<!ENTITY e 'x'>]>", "&e;",
    "<![CDATA[", "]]>", "<!--", "-->", "<?x ", "?>", " xmlns='y'", "http://t.test/a", "/a", "&#x10FFFF;",
)  # fmt: skip
_HTML = (
    "<a href=", "<a href='/x'>", "<base href=", "<link rel=canonical href=", "<meta name=robots content=", "noindex",
    ">", "'", '"', "<table>", "<td>", "</table>", "<p>", "<pre>", "<h1 id=a>", "<svg>", "<template>", "<!--",
    "<dl><dt id=x>", "<script>", "</script>", "<plaintext>", "<frameset>", "<math>", "<select>", "//t.test/", "../",
)  # fmt: skip


def texts(*parts: str) -> st.SearchStrategy[bytes]:
    """A text of such parts and words, some of them repeated often."""
    piece = st.sampled_from(parts + _WORDS)
    many = st.tuples(st.lists(piece, min_size=1, max_size=4), st.integers(2, 3_000)).map(lambda x: "".join(x[0]) * x[1])
    return st.lists(st.one_of(piece, piece, st.text(max_size=8), many), max_size=40).map(
        lambda found: "".join(found).encode("utf-8", "surrogatepass")
    )


@st.composite
def archives(draw: st.DrawFn) -> bytes:
    """An archive of members with all kinds of names and types, perhaps compressed, perhaps with a bit that differs."""
    names = draw(st.lists(st.one_of(st.sampled_from(["a.md", "../a.md", "/a.md", "a/b.csv", "a.zip", "..", "C:\\a.md"]),
                                    st.text(max_size=12)), max_size=6))  # fmt: skip
    out = io.BytesIO()
    if draw(st.booleans()):
        with zipfile.ZipFile(out, "w", draw(st.sampled_from([0, 8, 12, 14]))) as zipped:
            for name in dict.fromkeys(names):
                with suppress(UnicodeError, ValueError, IndexError):  # names that cannot be written
                    zipped.writestr(name or "x", draw(st.binary(max_size=50)) * draw(st.sampled_from([1, 1, 100_000])))
    else:
        with tarfile.open(fileobj=out, mode=draw(st.sampled_from(["w", "w:gz", "w:bz2", "w:xz"]))) as tarred:
            for name in names:
                info = tarfile.TarInfo(name.replace("\ud7ff", "x"))
                body = draw(st.binary(max_size=50))
                info.size = draw(st.sampled_from([len(body), 0, 1 << 33]))
                info.type = draw(st.sampled_from([b"0", b"1", b"2", b"3", b"5", b"6", b"7", b"L", b"x", b"g", b"S"]))
                info.linkname = draw(st.sampled_from(["", "/etc/passwd", "a.md"]))
                tarred.addfile(
                    info,
                    io.BytesIO(body + bytes(info.size if info.size < 100 else 0)) if len(body) >= info.size else None,
                )
    body = bytearray(out.getvalue())
    for _ in range(draw(st.integers(0, 4)) if body else 0):
        body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
    return bytes(body)


_FAULTS = "crashed|garbled|forbidden system call|not what it says"  # what no refusal may say


@pytest.fixture(scope="module")
def box() -> Iterator[ReaderProcess]:
    box = ReaderProcess()
    yield box
    box.close()


KINDS: dict[str, tuple[str, st.SearchStrategy[bytes]]] = {
    "markdown": ("markdown", texts(*_MARKDOWN)),
    "csv": ("csv_text", texts(*_CSV)),
    "archives": ("container", archives()),
    "html": ("html", texts(*_HTML)),
    "restructured": ("restructured", texts(*_MARKDOWN, ".. ", "::", "`_", ".. |x| ", ":a:`", "+--+", "====", "|x|_")),
}


def check(body: st.SearchStrategy[bytes], test: Callable[[bytes], None]) -> None:
    suite = settings(max_examples=_EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    suite(given(body)(test))()


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_is_read_or_refused(kind: str, box: ReaderProcess) -> None:
    reader, bodies = KINDS[kind]

    def test(body: bytes) -> None:
        argument, reason = "1000000" if reader == "container" else None, ""
        try:
            with closing(box.ask(reader, argument, body)) as answers:
                list(answers)
        except ParseError as error:
            reason = str(error)
        assert not re.search(_FAULTS, reason)

    check(bodies, test)


@pytest.mark.parametrize("kind", ["text/html", "text/markdown"])
def test_links_are_found_or_refused(kind: str) -> None:
    def test(body: bytes) -> None:
        page = make_page(body, kind, "http://t.test/a/b")
        with suppress(FetchError):
            links = read_links(page)
            assert all(url.startswith("http://t.test/") and url.isprintable() for url in links.urls)
            assert links.canonical is None or links.canonical.startswith("http://t.test/")

    check(texts(*_HTML, *_MARKDOWN), test)


@pytest.mark.parametrize("packed", [False, True])
def test_lists_are_read_or_refused(packed: bool) -> None:
    def test(body: bytes) -> None:
        page = make_page(gzip.compress(body, mtime=0) if packed else body, "application/xml", "http://t.test/s.xml")
        with suppress(FetchError):
            assert all(url.isprintable() for url in read_listing(page)[0])

    check(texts(*_XML), test)
