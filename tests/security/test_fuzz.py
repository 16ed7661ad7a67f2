"""Documents put together from the parts that formats are made of, read by a confined process as in a build.

`FUZZ_EXAMPLES` says how many of each; tests/indexer/read/test_hostile.py damages whole documents.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexer.crawl.links import read_links
from indexer.errors import FetchError, ParseError
from indexer.read.reader_process import ReaderProcess
from tests.indexer.conftest import make_page

pytestmark = pytest.mark.thorough
_EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "25"))
_WORDS = ("a", "cat", "é", "\u202e", "\x00", "\ud7ff", "﷽", "👩\u200d👧", " ", "\t", "\n", "\r\n", "\\", "%00", "&lt;")
_MARKDOWN = (
    *"# * _ ` ~ > - + | [ ] ( ) < > ! : \" ' = 1. ``` ~~~ --- *** ![ ]( <!-- --> <a href= {#".split(" "),
    "<script>", "\n", "\n\n", "    ", "---\ntitle: ", "\n---\n", "[x]: ", "|---|\n", "&amp;", "http://t.test/", "a@b.c",
    "{{< a >}}", "{% raw %}", "<A b={", "{/*", "import a from 'b'\n", ":::", "!!! a\n    ", "=== \"a\"\n", "```{a}\n",
    "[^1]", "[^1]: ", "[[", "]]", "$$", "$", "==", "^", ": a\n", "+++\n", ":tada:", "<div markdown>\n", "{.a}",
    "> [!A]\n",
    "- {a: &x [*x]}\n", "? ", "!!python/object:os.system ",
)  # fmt: skip
_CSV = (",", ";", "\t", "|", '"', '""', "\n", "\r", "\r\n", "1", "name", "=1+1", "'", " ")
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


_FAULTS = "crashed|garbled|forbidden system call|not what it says"  # what no refusal may say


@pytest.fixture(scope="module")
def box() -> Iterator[ReaderProcess]:
    box = ReaderProcess()
    yield box
    box.close()


KINDS: dict[str, tuple[str, st.SearchStrategy[bytes]]] = {
    "markdown": ("markdown", texts(*_MARKDOWN)),
    "csv": ("csv_text", texts(*_CSV)),
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
        reason = ""
        try:
            with closing(box.ask(reader, None, body)) as answers:
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
