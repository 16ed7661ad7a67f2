"""Files that AsciiDoc documents include."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from indexer.config import CrawlLimits
from indexer.read.markup.asciidoc import read
from indexer.read.markup.includes import Includes
from indexer.records import Page, Readers, Skip
from indexer.source_context import SourceContext
from indexer.sources.folder import read_path
from indexer.sources.git import read_repository
from tests.indexer.sources.repositories import Repository

CODE = "import os\n# tag::a[]\none\n# tag::b[]\ntwo\n# end::b[]\nthree\n# end::a[]\nfour\n"
BOOK = {
    "book.adoc": "= Book\n:dir: chapters\n\ninclude::{dir}/one.adoc[leveloffset=+1]\n\ninclude::{docdir}/two.adoc[]\n",
    "chapters/one.adoc": "= One\n\nfirst\n\ninclude::deep.adoc[]\n",
    "chapters/deep.adoc": "== Deep\n\ndeepest\n",
    "two.adoc": "== Two\n\nsecond\n",
    "notes.md": "include::two.adoc[]",
}


def expand(files: Mapping[str, str], path: str = "a.adoc", readers: Mapping[str, Readers] | None = None) -> str:
    access = dict.fromkeys(files) if readers is None else readers
    bodies = {name: text.encode() for name, text in files.items()}
    return Includes(access, bodies.get, 10_000).expand(path, bodies[path])[0].decode()


@pytest.mark.parametrize(
    ("options", "expected"),
    {
        "": "import os one two three four",
        "lines=1..2": "import os",
        'lines="1,5..6"': "import os two",
        "lines=8..-1": "four",
        "tag=b": "two",
        "tags=a": "one two three",
        "tags=a;!b": "one three",
        "tags=!a": "import os four",
        "tags=*": "one two three",
        "tags=!*": "import os four",
        "tag=none": "",
    }.items(),
)
def test_selected_lines(options: str, expected: str) -> None:
    assert " ".join(expand({"a.adoc": f"include::b.py[{options}]", "b.py": CODE}).split()) == expected


@pytest.mark.parametrize("target", ["c.adoc", "../b.adoc", "https://a.test/b.adoc", "{unknown}/b.adoc", "a.adoc"])
def test_directives_that_are_left(target: str) -> None:
    text = f"x\n\ninclude::{target}[]"
    assert expand({"a.adoc": text, "b.adoc": "NO"}) == text


def test_conditions_and_optional_files() -> None:
    text = "ifdef::x[]\ninclude::b.adoc[]\nendif::[]\n:x:\nifdef::x[]\ninclude::c.adoc[]\nendif::[]"
    text += "\ninclude::d.adoc[opts=optional]"
    files = {"a.adoc": text, "b.adoc": "NO", "c.adoc": "yes"}
    assert expand(files) == ":x:\nyes"
    assert not Includes(dict.fromkeys(files), {k: v.encode() for k, v in files.items()}.get, 1_000).covers("b.adoc")


def test_files_for_other_readers() -> None:
    files = {"a.adoc": "include::b.adoc[]", "b.adoc": "text"}
    ann: Readers = ("user:ann",)
    assert expand(files, readers={"a.adoc": None, "b.adoc": ann}) == files["a.adoc"]
    assert expand(files, readers={"a.adoc": ann, "b.adoc": ann}) == "text"
    public = Includes({"a.adoc": ann, "b.adoc": None}, {k: v.encode() for k, v in files.items()}.get, 1_000)
    assert public.expand("a.adoc", files["a.adoc"].encode())[0] == b"text"
    assert isinstance(public.resolve("b.adoc", Page("file:///b.adoc", "s", b"text", "text/asciidoc")), Page)
    listed = {"a.adoc": "x\n\ninclude::b.adoc[]", "b.adoc": "---\naccess:\n  users: [ann]\n---\nsecret"}
    assert expand(listed) == listed["a.adoc"]


def test_bombs_end() -> None:
    files = {f"{n}.adoc": f"x\ninclude::{n + 1}.adoc[]\n" * 4 for n in range(30)}
    assert len(expand(files, "0.adoc")) < 100_000


def test_loads_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are too long to insert count too, and all documents of a source have one limit."""
    files = {f"{n}.adoc": b"include::long.adoc[]\n" * 5_000 for n in range(10)} | {"long.adoc": b"x" * 2_000}
    loads: list[str] = []

    def load(path: str) -> bytes:
        loads.append(path)
        return files[path]

    monkeypatch.setattr("indexer.read.markup.includes._MAX_LOADED_BYTES", 3_000_000)
    includes = Includes(dict.fromkeys(files), load, 1_000)
    assert loads.count("long.adoc") == 2_000, "1,000 by each of two documents"
    body = b"include::long.adoc[]\n"
    assert includes.expand("9.adoc", body)[0] is body
    assert loads.count("long.adoc") == 2_000


def documents(tmp_path: Path, kind: str, files: Mapping[str, str]) -> dict[str, Page | Skip]:
    """Read the files from a folder or a repository."""
    source = tmp_path / "source"
    limits = CrawlLimits(max_bytes=10_000)
    if kind == "repository":
        repository = Repository(source)
        repository.commit_files(files)
        items = read_repository(SourceContext(f"git+{source.as_uri()}", limits))
    else:
        for name, text in files.items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(text)
        items = read_path(SourceContext(str(source), limits))
    return {item.url.rpartition("/")[2]: item for item in items if isinstance(item, Page | Skip)}


@pytest.mark.parametrize("kind", ["folder", "repository"])
def test_chapters_are_part_of_their_book(tmp_path: Path, kind: str) -> None:
    found = documents(tmp_path, kind, BOOK)
    pages = {name for name, item in found.items() if isinstance(item, Page)}
    assert pages == {"book.adoc", "notes.md"}
    book = found["book.adoc"]
    assert isinstance(book, Page)
    assert [(section.path[-1], section.text) for section in read(book.body, book.charset).sections] == [
        ("One", "first"),
        ("Deep", "deepest"),
        ("Two", "second"),
    ]


def test_files_that_include_each_other_stay(tmp_path: Path) -> None:
    files = {
        "a.adoc": "a\n\ninclude::b.adoc[]",
        "b.adoc": "b\n\ninclude::a.adoc[]",
        "c.adoc": "include::a.adoc[lines=1]",
    }
    found = documents(tmp_path, "folder", files)
    assert {name for name, item in found.items() if isinstance(item, Page)} == {"a.adoc", "c.adoc"}
