"""What is typed, and what comes of it: the command line in this process, with the dummy embedder."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rag.cli import main
from rag.settings import load
from tests.dummy import DummyEmbedder
from tests.indexer.incremental import zoo
from tests.indexer.server import Site

Run = Callable[..., Any]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr("indexer.fetch._BACKOFF", 0.01)
    server = Site()
    zoo(server, "etag")
    yield server
    server.close()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line in an empty folder: exit code, standard output and error; with --json, the object."""
    monkeypatch.setattr("rag.commands.lazy_embedder", lambda settings, quiet=False: DummyEmbedder())
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def run(*arguments: object) -> Any:
        line = [str(argument) for argument in arguments]
        try:
            code = main(line)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        out, err = capsys.readouterr()
        if "--json" in line and code == 0:
            return json.loads(out)
        return code, out, err

    return run


def documents(run: Run) -> int:
    [listed] = run("generations", "--json")["generations"][:1]
    return int(listed["documents"])


def test_flags_stay_with_the_source_they_were_given_with(run: Run, site: Site) -> None:
    """The second line is what the quickstart says to read the sources again."""
    run("index", site.url, "--allow-private", "--include", "/cats", "--json")
    assert documents(run) == 1
    again = run("index", "--json")
    assert (again["documents"], again["published"], again["settings"]) == (1, False, [])
    [source] = run("sources", "--json")["sources"]
    assert source["own"] == {"include": "/cats", "allow_private": "yes"}
    assert "--allow-private yes --include /cats" in run("sources")[1]


def test_a_flag_is_for_the_sources_named_with_it(run: Run, site: Site, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n\nBirds sing.\n")
    run("index", site.url, "--allow-private", "--include", "/cats", "--json")
    added = run("index", "--add", tmp_path / "notes.md", "--max-bytes", "1000", "--json")
    assert (added["documents"], added["settings"]) == (2, [])
    owns = {source["source"]: source["own"] for source in run("sources", "--json")["sources"]}
    assert owns == {
        site.url: {"include": "/cats", "allow_private": "yes"},
        str(tmp_path / "notes.md"): {"max_bytes": "1000"},
    }
    changed = run("index", "--max-bytes", "2000", "--json")
    assert [(change["name"], change["before"], change["now"]) for change in changed["settings"]] == [
        ("max_bytes", "10000000", "2000"),
        ("max_bytes", "1000", "2000"),
    ], "without a source, all of them are meant"


def test_a_change_is_told(run: Run, site: Site) -> None:
    run("index", site.url, "--allow-private", "--include", "/cats", "--json")
    code, out, err = run("index", site.url, "--include", "/dogs")
    told = f"{site.url}: include /cats -> /dogs"
    assert code == 0
    assert told in out
    assert told in err


def test_a_file_says_all_of_its_sources(run: Run, site: Site) -> None:
    file = Path("pilotlight.toml")
    file.write_text(f"[[source]]\nurl = '{site.url}'\nallow_private = true\ninclude = ['/cats', '/dogs']\n")
    assert run("index", "--config", file, "--json")["documents"] == 2
    file.write_text(f"[[source]]\nurl = '{site.url}'\nallow_private = true\nmax_depth = 9\n")
    changed = run("index", "--config", file, "--json")
    assert {change["name"] for change in changed["settings"]} == {"include", "max_depth"}
    assert changed["documents"] > 2
    assert run("index", "--json")["documents"] == changed["documents"], "and without the file, it is as with it"


def test_a_job_reads_no_more_than_was_allowed(run: Run, site: Site) -> None:
    """Its process is given every setting of the server, and these are not for sources that have their own."""
    run("index", site.url, "--allow-private", "127.0.0.0/8", "--include", "/cats", "--exclude", "/dogs", "--json")
    settings = load({"index": "pilotlight-index", "allow_private": "yes", "include": "/"}, {})
    from rag.commands import index

    asked = {"sources": [site.url], "add": False, "full": True, "within": {}}  # as `job_runner` hands it on
    report, _ = index(settings=settings, quiet=True, **asked)  # type: ignore[arg-type]
    assert report["documents"] == 1
    assert report["settings"] == []
    [source] = run("sources", "--json")["sources"]
    assert source["own"] == {"include": "/cats", "exclude": "/dogs", "allow_private": "127.0.0.0/8"}
