"""Every verb, and what it says to bad input: exit code 2 and one line, never a traceback."""

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from embedder.config import EmbedderConfig
from embedder.engines.plan import Plan
from tests.system.conftest import request, run, serving, wait_for, write_pages

pytestmark = [pytest.mark.model, pytest.mark.longest]


def refused(done, told):
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("pilotlight: ")]
    assert len(lines) == 1
    assert done.stderr.splitlines()[-1] == lines[0]
    assert told in lines[0]
    assert done.stdout == ""


def test_export_and_import(index, tmp_path):
    exported = json.loads(run("export", tmp_path / "a.tar", "--index", index, "--json").stdout)
    assert exported["file_bytes"] == (tmp_path / "a.tar").stat().st_size
    where = ("--index", tmp_path / "i", "--collection", "manuals")
    imported = json.loads(run("import", tmp_path / "a.tar", *where, "--json").stdout)
    assert (imported["generation"], imported["warnings"]) == (exported["generation"], [])
    found = json.loads(run("search", "vacuum", *where, "--json").stdout)
    assert found["generation"] == exported["generation"]
    precision = {"bf16": "fp32"}.get(precision_of(index), "bf16")
    engine = ("--engine", "eager", "--precision", precision)
    assert "warning: serve will refuse it" in run("import", tmp_path / "a.tar", *where, *engine).stdout
    (tmp_path / "a.tar").write_bytes(b"garbage")
    refused(run("import", tmp_path / "a.tar", *where), "truncated")
    refused(run("export", tmp_path / "none" / "a.tar", "--index", index), "cannot write")


def precision_of(index):
    return json.loads(run("doctor", "--index", index, "--json").stdout)["embedder"]["precision"]


def test_tools_on_an_index(index):
    mcp = pytest.importorskip("mcp", reason="needs the extra mcp")
    arguments = ["-m", "rag.commands.cli", "mcp", "--index", str(index)]
    target = mcp.StdioServerParameters(command=sys.executable, args=arguments)

    async def ask() -> None:
        with anyio.fail_after(120):
            async with mcp.Client(target) as client:
                found = await client.call_tool("search", {"query": "dead tuples", "k": 1})
                facts = dict(re.findall(r"^(Section|Url): (.*)$", found.content[0].text, re.MULTILINE))
                assert facts["Section"] == "Vacuum"
                whole = await client.call_tool("read", {"address": facts["Url"]})
                assert whole.content[0].text.startswith("This is all of it.")
                exact = await client.call_tool("grep", {"pattern": "dead t.ples"})
                assert exact.content[0].text.startswith("1 passage found.")
                wrong = await client.call_tool("search", {"query": "a", "collection": "gone"})
                assert wrong.is_error

    anyio.run(ask)


def test_a_copied_package_serves_without_a_compiler_and_a_damaged_one_is_refused(index, tmp_path, monkeypatch):
    made, copy = tmp_path / "made", tmp_path / "copy"
    assert "compiling the native encoder" in run("search", "vacuum", "--index", index, "--cache-dir", made).stderr
    assert run("search", "vacuum", "--index", index, "--cache-dir", made).stderr == ""
    (copy / "packages").mkdir(parents=True)
    for folder in (made / "packages").iterdir():
        shutil.copytree(folder, copy / "packages" / folder.name)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "/nonexistent/g++")
    found = run("search", "partial index", "--index", index, "--json", "--cache-dir", copy)
    assert json.loads(found.stdout)["hits"][0]["title"] == "Partial indexes"
    refused(run("search", "x", "--index", index, "--cache-dir", tmp_path / "none"), "apt-get install g++")
    (folder,) = (copy / "packages").glob("library-*")
    victim = max(folder.iterdir(), key=lambda path: path.stat().st_size)
    victim.write_bytes(victim.read_bytes()[:-1])
    refused(run("search", "x", "--index", index, "--cache-dir", copy), f"{victim} is damaged")


FORBIDDEN = {"transformers", "sentence_transformers", "langchain", "langchain_core", "langchain_community", "bs4"}
FORBIDDEN |= {"pymilvus", "grpc", "pydantic", "mcp", "starlette", "anyio", "re2"}


def test_the_same_answer_everywhere(index):
    with serving(index) as url:
        status, by_get = request(f"{url}/api/v1/search?q=partial+index&k=2")
        assert status == 200
        _, by_post = request(f"{url}/api/v1/search", {"query": "partial index", "k": 2})
        printed = json.loads(run("search", "partial index", "-k", "2", "--index", index, "--json").stdout)
        for answer in (by_get, by_post, printed):
            del answer["took_ms"]
        assert by_get == by_post == printed
        assert request(f"{url}/livez")[0] == 200
        assert request(f"{url}/readyz")[1]["documents"] == 3


def test_the_serving_process_imports_no_heavy_library(index):
    code = (
        "import sys, time\n"
        "from web.app import application\n"
        "client = application().test_client()\n"
        "while client.get('/readyz').status_code != 200: time.sleep(0.05)\n"
        "assert client.get('/api/v1/search?q=vacuum').get_json()['hits']\n"
        "assert client.get('/?q=vacuum').status_code == 200\n"
        "print(*sys.modules)\n"
    )
    environ = os.environ | {"PILOTLIGHT_INDEX": str(index)}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    imported = {name.partition(".")[0] for name in done.stdout.split()}
    assert {"faiss", "flask"} <= imported
    assert not imported & FORBIDDEN
    assert ("torch" in imported) == (Plan(EmbedderConfig()).engine != "native")


def test_serve_indexes_a_folder_and_follows_it(tmp_path):
    notes, index = tmp_path / "notes", tmp_path / "index"
    notes.mkdir()
    write_pages(notes, ["partial.md"])

    def titles(url):
        return {hit["title"] for hit in request(f"{url}/api/v1/search?q=storage+of+rows")[1]["hits"]}

    with serving(index, notes) as url:
        assert titles(url) == {"Partial indexes"}
        write_pages(notes, ["vacuum.md"])
        wait_for(lambda: titles(url) == {"Partial indexes", "Vacuum"}, "what is new", 60)
    with serving(index, notes) as url:  # the index is of it: used as it is
        assert titles(url) == {"Partial indexes", "Vacuum"}
    wait_for(lambda: not any(str(index).encode() in line for line in command_lines()), "those who follow to end", 60)


def test_serve_says_why_a_source_cannot_be_indexed(tmp_path):
    done = run("serve", tmp_path / "gone", "--index", tmp_path / "index")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("pilotlight: "), done.stderr
    assert "gone" in done.stderr


def command_lines():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            yield path.read_bytes()
