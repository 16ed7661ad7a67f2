"""Every verb, and what it says to bad input: exit code 2 and one line, never a traceback."""

import json
import os
import shutil

import pytest

from tests.system.conftest import PAGES, free_port, run, write_pages

pytestmark = pytest.mark.model


def refused(done, told):
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("pilotlight: ")]
    assert len(lines) == 1
    assert done.stderr.splitlines()[-1] == lines[0]
    assert told in lines[0]
    assert done.stdout == ""


def test_index_json(source, tmp_path):
    done = run("index", source, "--index", tmp_path / "i", "--json")
    report = json.loads(done.stdout)
    assert report["documents"] == len(PAGES)
    assert {"generation", "chunks", "fetched", "unchanged", "skipped", "failed", "seconds"} <= report.keys()


def test_index_without_a_source_reads_the_same_again(tmp_path):
    (tmp_path / "s").mkdir()
    write_pages(tmp_path / "s", ["vacuum.md"])
    first = json.loads(run("index", tmp_path / "s", "--index", tmp_path / "i", "--json").stdout)
    write_pages(tmp_path / "s")
    again = json.loads(run("index", "--index", tmp_path / "i", "--json").stdout)
    assert (first["documents"], again["documents"]) == (1, len(PAGES))


def test_search(index):
    answer = json.loads(run("search", "which rows does a partial index hold", "--index", index, "--json").stdout)
    assert answer["hits"][0]["title"] == "Partial indexes"
    text = run("search", "what happens without fsync", "--index", index, "-k", "1").stdout
    assert "Durability" in text
    assert "1 hits in" in text


def test_doctor(index, tmp_path):
    report = json.loads(run("doctor", "--index", index, "--json").stdout)
    assert report["index"]["documents"] == len(PAGES)
    assert report["embedder"]["package"]
    assert not [w for w in report["warnings"] if "index" in w]
    warned = run("doctor", "--index", tmp_path / "none", "--engine", "eager").stdout
    assert "there is no index" in warned
    assert "eager is slower" in warned


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["search", "", "--index", "INDEX"], "query is empty"),
        (["search", "x", "--index", "INDEX", "-k", "0"], "k must be"),
        (["search", "x", "--index", "INDEX", "-k", "1000000000"], "k must be"),
        (["search", "x", "--index", "INDEX", "--mode", "psychic"], "mode must be"),
        (["search", b"x\xff", "--index", "INDEX"], "not valid Unicode"),
        (["search", "x" * 100_000, "--index", "INDEX"], "at most 10000"),
        (["search", "x", "--index", "TMP/none"], "there is no index"),
        (["search", "x", "--index", "INDEX", "--precision", "fp8"], "--precision must be one of"),
        (["search", "x", "--index", "INDEX", "--threads", "two"], "--threads must be a whole number"),
        (["search", "x", "--index", "INDEX", "--model", "TMP/none"], "no model at"),
        (["serve", "--index", "TMP/none"], "there is no index"),
        (["serve", "--index", "INDEX", "--port", "0"], "--port must be from 1"),
        (["index", "--index", "TMP/none"], "there is no index"),
        (["index", "TMP/no-such-folder", "--index", "TMP/i"], "no-such-folder"),
        (["index", "TMP/empty", "--index", "TMP/i"], "no"),
        (["index", "ftp://example.org/", "--index", "TMP/i"], "only http and https"),
        (["index", "http://127.0.0.1:PORT/", "--index", "TMP/i"], "--allow-private"),
        (["index", "http://127.0.0.1:PORT/", "--allow-private", "--index", "TMP/i"], "127.0.0.1"),
        (["eval", "TMP/empty"], "corpus.jsonl cannot be read"),
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
    built = json.loads(run("doctor", "--index", index, "--json").stdout)["embedder"]["precision"]
    for verb in (["search", "x"], ["serve"]):
        refused(run(*verb, "--index", index, "--precision", other[built], "--engine", "eager"), "precision: index")


@pytest.mark.parametrize("name", ["vectors.faiss", "documents.sqlite", "manifest.json"])
def test_a_truncated_file_is_named(index, tmp_path, name):
    copy = shutil.copytree(index, tmp_path / "copy")
    (victim,) = copy.glob(f"generations/*/{name}")
    victim.write_bytes(victim.read_bytes()[:-50])
    for verb in (["search", "x"], ["serve"]):
        refused(run(*verb, "--index", copy), name)


def test_no_traceback_when_the_reader_leaves(index):
    done = run("search", "vacuum", "--index", index, PYTHONUNBUFFERED="1")
    assert done.returncode == 0
