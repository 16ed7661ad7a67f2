"""Code is read as it is written: whoever copies it out of a passage, or gives it to a model, gets what the page has."""

import pytest

from indexer.cut.chunking import Chunker
from indexer.read.document_reader import read_document
from tests.dummy import DummyEmbedder
from tests.indexer.conftest import make_page

CODE = 'x = 1\n\n    if x:\n\ty = "a  b"  \n \n\n        z()\n\n\n    return y'


@pytest.mark.parametrize(
    ("content_type", "page"),
    [
        ("text/html", "<p>Before.</p><pre>\n{}\n</pre><p>After.</p>"),
        ("text/html", "<ul><li><p>Before.</p><pre><code>{}</code></pre></li><li><pre>{}</pre></li></ul>"),
        ("text/html", "<p>Before.</p><pre><span>x = 1<br></span><br>    if x:" + CODE[16:] + "</pre>"),
        (
            "text/html",
            "<table><tr><td><pre>1\n2\n3\n4\n5\n6\n7\n8\n9\n10</pre></td><td><pre>{}</pre></td></tr></table>",
        ),
        ("text/markdown", "Before.\n\n```python\n{}\n```\n\nAfter.\n"),
        ("text/x-python", "{}\n"),
    ],
)
def test_code_is_byte_equal(content_type: str, page: str) -> None:
    document = read_document(make_page(page.replace("{}", CODE), content_type))
    text = "\n\n".join(section.text for section in document.sections)
    assert CODE in text
    assert "1\n2\n3" not in text
    [*_, chunk] = Chunker(DummyEmbedder(), 200).split(document)
    assert CODE in chunk.text
