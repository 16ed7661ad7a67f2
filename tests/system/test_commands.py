"""Every verb, and what it says to bad input: exit code 2 and one line, never a traceback."""

import json
import os
import shutil
import sys

import anyio
import pytest

from tests.system.conftest import PAGES, free_port, run

pytestmark = [pytest.mark.model, pytest.mark.longest]


def refused(done, told):
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("pilotlight: ")]
    assert len(lines) == 1
    assert done.stderr.splitlines()[-1] == lines[0]
    assert told in lines[0]
    assert done.stdout == ""


def test_sources_are_added_and_removed(tmp_path):
    for name in ("vacuum.md", "partial.md"):
        (tmp_path / name).write_text(PAGES[name])
    where = ("--index", tmp_path / "i", "--json")
    run("index", tmp_path / "vacuum.md", *where)
    added = json.loads(run("index", "--add", tmp_path / "partial.md", *where).stdout)
    assert (added["documents"], added["unchanged"], added["new"]["count"]) == (2, 1, 1)
    removed = json.loads(run("remove", tmp_path / "vacuum.md", *where).stdout)
    assert (removed["documents"], removed["embedded"], removed["carried"]) == (1, 0, 1)
    refused(run("remove", tmp_path / "vacuum.md", *where), f"its sources are: {tmp_path / 'partial.md'}")
    refused(run("remove", tmp_path / "partial.md", *where), "would be empty")
    refused(run("index", "--add", *where), "--add needs a source")


def test_verify(index, tmp_path):
    done = run("verify", "--index", index, "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["ok"], report["collection"]) == (0, True, "default")
    assert report["checks"][-1]["name"] == "counts"
    assert f"generation {report['generation']} is intact" in run("verify", "--index", index).stdout
    copy = shutil.copytree(index, tmp_path / "copy")
    (victim,) = copy.glob("generations/*/vectors.faiss")
    victim.write_bytes(victim.read_bytes()[:-1])
    done = run("verify", "--generation", report["generation"], "--index", copy, "--json")
    assert done.returncode == 2
    assert done.stderr.startswith(f"pilotlight: {victim}: has ")
    assert [check["name"] for check in json.loads(done.stdout)["checks"] if not check["ok"]] == ["file vectors.faiss"]
    refused(run("verify", "--index", index, "--generation", "yesterday"), "there is no generation 'yesterday'")


def test_generations_are_listed_and_gone_back_to(source, tmp_path):
    where = ("--index", tmp_path / "i", "--json")
    ids = [json.loads(run("index", source, "--full", *where).stdout)["generation"] for _ in range(2)]
    listed = json.loads(run("rollback", "--list", *where).stdout)["generations"]
    assert [(item["id"], item["live"], item["documents"]) for item in listed] == [(ids[1], True, 3), (ids[0], False, 3)]
    report = json.loads(run("rollback", *where).stdout)
    assert (report["collection"], report["generation"], report["before"]) == ("default", *ids)
    assert [item["live"] for item in report["generations"]] == [False, True]
    text = run("rollback", "--list", "--index", tmp_path / "i").stdout.splitlines()
    assert text[0].split() == ["generation", "created", "documents", "chunks", "MB"]
    assert [line.startswith("*") for line in text[1:]] == [False, True]
    refused(run("rollback", *where), "no generation older")
    refused(run("rollback", "nonsense", *where), "there is no generation 'nonsense'")


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
    refused(run("import", tmp_path / "a.tar", *where), "cut short")
    refused(run("export", tmp_path / "none" / "a.tar", "--index", index), "cannot write")


def precision_of(index):
    return json.loads(run("doctor", "--index", index, "--json").stdout)["embedder"]["precision"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["search", "x", "--index", "INDEX", "--collection", "faq"], "no collection 'faq'; there are: default"),
        (["verify", "--index", "TMP/none"], "there is no index"),
        (["rollback", "--index", "TMP/none"], "there is no index"),
        (["search", "x", "--index", "TMP/none"], "there is no index"),
        (["search", "x", "--index", "INDEX", "--model", "TMP/none"], "no model at"),
        (["serve", "--index", "TMP/none"], "there is no index"),
        (["index", "TMP/no-such-folder", "--index", "TMP/i"], "no-such-folder"),
        (["index", "http://127.0.0.1:PORT/", "--index", "TMP/i"], "--allow-private"),
        (["index", "http://127.0.0.1:PORT/", "--allow-private", "--index", "TMP/i"], "127.0.0.1"),
    ],
)
def test_bad_input(arguments, told, index, tmp_path):
    (tmp_path / "empty").mkdir()
    places = {"INDEX": str(index), "TMP": str(tmp_path), "PORT": str(free_port())}

    def fill(argument):
        if isinstance(argument, bytes):
            return os.fsdecode(argument)
        for name, value in places.items():
            argument = argument.replace(name, value)
        return argument

    refused(run(*map(fill, arguments)), told)


def test_an_index_of_another_precision_is_refused_by_field(index):
    other = {"bf16": "fp32", "fp32": "bf16"}
    settings = ("--precision", other[precision_of(index)], "--engine", "eager")
    for verb in (["search", "x"], ["serve"]):
        refused(run(*verb, "--index", index, *settings), "precision: index")
    refused(run("verify", "--index", index, *settings), "No such option '--precision'")


@pytest.mark.parametrize("name", ["vectors.faiss", "documents.sqlite", "manifest.json"])
def test_a_truncated_file_is_named(index, tmp_path, name):
    copy = shutil.copytree(index, tmp_path / "copy")
    (victim,) = copy.glob(f"generations/*/{name}")
    victim.write_bytes(victim.read_bytes()[:-50])
    for verb in (["search", "x"], ["serve"]):
        refused(run(*verb, "--index", copy), name)


def test_tools_on_an_index(index):
    mcp = pytest.importorskip("mcp", reason="needs the extra mcp")
    arguments = ["-m", "rag.commands.cli", "mcp", "--index", str(index)]
    target = mcp.StdioServerParameters(command=sys.executable, args=arguments)

    async def ask() -> None:
        with anyio.fail_after(120):
            async with mcp.Client(target) as client:
                found = await client.call_tool("search", {"query": "dead tuples", "k": 1})
                [hit] = found.structured_content["hits"]
                assert hit["title"] == "Vacuum"
                whole = await client.call_tool("read_document", {"document": hit["url"]})
                assert whole.structured_content["document"] == hit["document"]
                wrong = await client.call_tool("search", {"query": "a", "collection": "gone"})
                assert wrong.is_error

    anyio.run(ask)


def test_a_copied_package_serves_without_a_compiler_and_a_damaged_one_is_refused(index, tmp_path, monkeypatch):
    made, copy = tmp_path / "made", tmp_path / "copy"
    assert "the native encoder, " in run("search", "vacuum", "--index", index, "--cache-dir", made).stderr
    assert run("search", "vacuum", "--index", index, "--cache-dir", made).stderr == ""
    (copy / "packages").mkdir(parents=True)
    for folder in (made / "packages").iterdir():
        shutil.copytree(folder, copy / "packages" / folder.name)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "/nonexistent/g++")
    found = run("search", "partial index", "--index", index, "--json", "--cache-dir", copy)
    assert json.loads(found.stdout)["hits"][0]["title"] == "Partial indexes"
    refused(run("search", "x", "--index", index, "--cache-dir", tmp_path / "none"), "apt-get install g++")
    (folder,) = (copy / "packages").iterdir()
    victim = max(folder.iterdir(), key=lambda path: path.stat().st_size)
    victim.write_bytes(victim.read_bytes()[:-1])
    refused(run("search", "x", "--index", index, "--cache-dir", copy), f"{victim} is damaged")
