"""What is typed, and what comes of it: the command line in this process, with the dummy embedder."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.pipeline.progress import Progress
from rag.commands.cli import main
from rag.commands.indexing import IndexRequest, index_sources
from rag.commands.serve import share_cores
from rag.settings import load
from rag.settings_file import read_settings_file
from tests.dummy import DummyEmbedder
from tests.indexer.pipeline.incremental import zoo
from tests.indexer.server import Reply, Site, page, send

Run = Callable[..., Any]
TOKEN = "tok-3f9a61c2d4e5"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr("indexer.crawl.fetch._BACKOFF", 0.01)
    server = Site()
    zoo(server, "etag")
    yield server
    server.close()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line in an empty folder: exit code, standard output and error; with --json, the object."""
    monkeypatch.setattr("rag.commands.models.lazy_embedder", lambda settings, quiet=False: DummyEmbedder())
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
    [listed] = run("rollback", "--list", "--json")["generations"][:1]
    return int(listed["documents"])


def quiet() -> Progress:
    return Progress(sys.stderr, quiet=True)


def kept(run: Run) -> dict[str, dict[str, Any]]:
    """Return the settings that are kept with each source."""
    sources: dict[str, dict[str, Any]] = run("doctor", "--json")["index"]["sources"]
    return sources


def test_a_flag_is_for_the_sources_named_with_it(run: Run, site: Site, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n\nBirds sing.\n")
    run("index", site.url, "--allow-private", "--include", "/cats", "--json")
    added = run("index", "--add", tmp_path / "notes.md", "--max-bytes", "1000", "--json")
    assert (added["documents"], added["unchanged"], added["new"]["count"]) == (2, 1, 1)
    assert kept(run) == {
        site.url: {"include": ["/cats"], "allow_private": True},
        str(tmp_path / "notes.md"): {"max_bytes": 1000},
    }
    run("index", "--max-bytes", "2000", "--json")
    assert {own["max_bytes"] for own in kept(run).values()} == {2000}, "without a source, all of them are meant"
    removed = run("remove", tmp_path / "notes.md", "--json")
    assert (removed["documents"], removed["embedded"], removed["carried"]) == (1, 0, 2)
    assert "is not a source of this index; the index has: http" in run("remove", tmp_path / "notes.md")[2]


def test_generations_are_checked_listed_and_gone_back_to(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n\nBirds sing.\n")
    ids = [run("index", tmp_path / "notes.md", "--full", "--json")["generation"] for _ in range(2)]
    listed = run("rollback", "--list", "--json")["generations"]
    assert [(item["id"], item["live"], item["documents"]) for item in listed] == [(ids[1], True, 1), (ids[0], False, 1)]
    report = run("rollback", "--json")
    assert (report["collection"], report["generation"], report["before"]) == ("default", *ids)
    text = run("rollback", "--list")[1].splitlines()
    assert text[0].split() == ["generation", "created", "documents", "chunks", "MB"]
    assert [line.startswith("*") for line in text[1:]] == [False, True]
    assert "no generation older" in run("rollback")[2]
    assert f"generation {ids[0]} is intact" in run("verify")[1]
    [victim] = Path().glob(f"pilotlight-index/generations/{ids[0]}/vectors.faiss")
    victim.write_bytes(victim.read_bytes()[:-1])
    code, out, err = run("verify", "--generation", ids[0], "--json")
    assert (code, json.loads(out)["ok"], err.startswith(f"pilotlight: {victim}: has ")) == (2, False, True)


def test_a_file_says_all_of_its_sources(run: Run, site: Site) -> None:
    file = Path("pilotlight.toml")
    file.write_text(f"[[source]]\nurl = '{site.url}'\nallow_private = true\ninclude = ['/cats', '/dogs']\n")
    assert run("index", "--config", file, "--json")["documents"] == 2
    file.write_text(f"[[source]]\nurl = '{site.url}'\nallow_private = true\nmax_pages = 9\n")
    changed = run("index", "--config", file, "--json")
    with file.open("a") as more:
        more.write('metadata = { team = "zoo", for = ["a", "b"] }\n')
    assert [run("index", "--config", file, "--json")["published"] for _ in range(2)] == [True, False]
    assert changed["documents"] > 2
    assert run("index", "--json")["documents"] == changed["documents"], "and without the file, it is as with it"


def test_a_job_reads_no_more_than_was_allowed(run: Run, site: Site) -> None:
    """Its process is given every setting of the server, and these are not for sources that have their own."""
    run("index", site.url, "--allow-private", "127.0.0.0/8", "--include", "/cats", "--exclude", "/dogs", "--json")
    settings = load({"index": "pilotlight-index", "allow_private": "yes", "include": "/"}, {})
    report, _ = index_sources(IndexRequest([site.url], full=True), settings, quiet)
    assert report["documents"] == 1
    assert kept(run)[site.url] == {"include": ["/cats"], "exclude": ["/dogs"], "allow_private": ["127.0.0.0/8"]}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("serach cats", "there is no command 'serach', did you mean search?"),
        ("frobnicate", "there is no command 'frobnicate'; see pilotlight --help"),
        ("index notes --incldue /x/", "No such option '--incldue'. (Did you mean one of: '--exclude', '--include'"),
        ("search", "Missing argument 'QUERY...'. See pilotlight search --help"),
        ("keys sing", "'sing' is not one of 'add', 'list', 'remove'. See pilotlight keys --help"),
        ("search cats -k abc", "Invalid value for '-k': 'abc' is not a valid integer."),
        ("index notes --max-pages 0", "--max-pages must be from 1 to 100,000,000, not '0'"),
        ("index notes --delay -1", "--delay must be from 0 to 3,600, not '-1'"),
        ("search cats --filter color=red", "--filter has no key 'color'; its keys are source, url_prefix, path, langu"),
        ("search cats --filter lang=en", "--filter has no key 'lang', did you mean language?"),
        ("search cats --filter from=soon", "--filter from must be a day"),
        ("collections --drop foo", "there is no collection 'foo'; the index has none yet"),
        ("export x.zip", "cannot export to x.zip: archives are plain tar"),
        ("index example.org", "/example.org; the address of a site begins with https://"),
        ("eval nowhere", "cannot read nowhere/corpus.jsonl: No such file or directory; is the folder in"),
    ],
)
def test_what_is_wrong_is_one_line(run: Run, line: str, told: str) -> None:
    code, out, err = run(*line.split())
    assert (code, out) == (2, "")
    assert err.startswith("pilotlight: ")
    assert err.count("\n") == 1
    assert told in err


@pytest.mark.parametrize(("line", "words"), [("se", ["serve", "search"]), ("search --engine n", ["native"])])
def test_the_shell_completes_what_has_been_typed(
    run: Run, monkeypatch: pytest.MonkeyPatch, line: str, words: list[str]
) -> None:
    for name, value in {
        "_PILOTLIGHT_COMPLETE": "bash_complete",
        "COMP_WORDS": f"pilotlight {line}",
        "COMP_CWORD": str(len(line.split(" "))),
    }.items():
        monkeypatch.setenv(name, value)
    code, out, err = run()
    assert (code, err) == (0, "")
    assert [text.partition(",")[2] for text in out.split()] == words


def test_a_verb_loads_only_what_it_needs() -> None:
    code = "import sys; from rag.commands.cli import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    for line in (["--help"], ["--version"]):
        done = subprocess.run([sys.executable, "-c", code, *line], capture_output=True, text=True, check=True)
        assert {"torch", "numpy", "faiss", "tantivy", "httpx", "flask"} & set(done.stderr.split()) == set()


def test_a_misspelled_variable_is_told(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setenv("PILOTLIGHT_MODLE", "x")
    monkeypatch.setenv("PILOTLIGHT_SERVICE_HOST", "10.0.0.1")  # set by Kubernetes
    monkeypatch.setenv("PILOTLIGHT_KEY", "x")
    told = [warning for warning in run("doctor", "--json")["warnings"] if "PILOTLIGHT_" in warning]
    assert told == ["PILOTLIGHT_MODLE is not a setting, did you mean PILOTLIGHT_MODEL?"]


def test_drop_looks_before_it_asks(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n\nBirds sing.\n")
    run("index", tmp_path / "notes.md", "--collection", "birds", "--json")
    assert "there is no collection 'cats'; there are: birds" in run("collections", "--drop", "cats")[2]
    assert "confirm with --yes" in run("collections", "--drop", "birds")[2]
    assert run("collections", "--drop", "birds", "--yes", "--json") == {"dropped": "birds"}


def test_an_index_keeps_its_model(run: Run, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    run("index", site.url, "--allow-private", "--include", "/cats", "--json")
    other = DummyEmbedder(name="other")
    monkeypatch.setattr("rag.commands.models.lazy_embedder", lambda settings, quiet: other)
    for arguments in ((), ("--collection", "second")):
        code, _, err = run("index", site.url, *arguments)
        assert code == 2
        assert "was built by another embedder (model: index 'dummy', here 'other')" in err
        assert "in another folder (--index)" in err
    line = ("index", site.url, "--allow-private", "--include", "/cats", "--index", "second-index", "--json")
    assert run(*line)["published"]


@pytest.mark.parametrize(
    ("engine", "cores", "asked", "shared"),
    [
        ("native", 2, (0, 0), (2, 1)),
        ("native", 64, (0, 0), (16, 4)),
        ("native", 8, (0, 2), (4, 2)),
        ("native", 8, (2, 0), (2, 4)),
        ("native", 2, (8, 0), (8, 1)),
        ("native", 2, (3, 5), (3, 5)),
        ("aot", 8, (0, 0), (1, 0)),  # 0: the package that the index was built with
        ("aot", 8, (0, 2), (4, 2)),
        ("aot", 8, (3, 0), (3, 0)),
    ],
)
def test_workers_and_threads(engine: str, cores: int, asked: tuple[int, int], shared: tuple[int, int]) -> None:
    settings = load({"workers": asked[0], "threads": asked[1]}, {})
    settings = share_cores(settings, engine, cores)
    assert (settings.workers, settings.threads) == shared


@pytest.fixture
def config(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Names a site that only those read who have the token."""
    monkeypatch.setenv("SITE_TOKEN", TOKEN)
    known = page("<p>Only members read this.")
    site.routes = {
        "/": lambda handler: send(
            handler, Reply(known.encode()) if handler.headers["Authorization"] == f"Bearer {TOKEN}" else Reply(b"", 401)
        )
    }
    path = tmp_path / "pilotlight.toml"
    path.write_text(
        f"""
        [settings]
        allow_private = "127.0.0.0/8"
        [[source]]
        url = "{site.url}/"
        [[credentials]]
        origin = "{site.url}"
        bearer = {{ env = "SITE_TOKEN" }}
        """
    )
    return path


def test_index_and_doctor_and_a_job_of_a_server(run: Run, site: Site, config: Path) -> None:
    assert run("index", "--config", config, "--json")["documents"] == 1
    report = run("doctor", "--config", config, "--json")
    assert report["credentials"] == {site.url: "bearer token"}
    assert TOKEN not in str(report)
    code, _, err = run("index", "--json")
    assert (code, "was read with credentials before, and there are none for it now" in err) == (2, True)

    served = load({}, {}, read_settings_file(config).settings)
    environment = served.as_environment()  # what `serve` hands on to its jobs, whose own is added
    assert TOKEN not in str(environment)
    assert index_sources(IndexRequest(full=True), load({}, environment), quiet)[0]["documents"] == 1


def test_an_index_of_another_analysis_is_refused_and_made_again(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Vacuum\n\nVacuum reclaims the storage that dead tuples occupy.\n")
    index = "index", tmp_path / "a.md", "--quiet", "--json"
    run(*index)
    [manifest] = Path("pilotlight-index").glob("generations/*/manifest.json")
    manifest.write_text(re.sub(r'"analysis": ?\d+', '"analysis": 0', manifest.read_text()))
    assert "analysis 0" in run("search", "vacuum")[2]
    assert run(*index)["embedded"] == 1
    assert documents(run) == 1
