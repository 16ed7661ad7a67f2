"""Credentials of a configuration file on the command line, and in what a server starts."""

from pathlib import Path

import pytest

from rag.commands.indexing import IndexRequest, index_sources
from rag.settings import load
from rag.settings_file import read_settings_file
from tests.indexer.server import Reply, Site, page, send
from tests.rag.commands.test_cli import Run, quiet, run, site

__all__ = ["run", "site"]

TOKEN = "tok-3f9a61c2d4e5"


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
    assert (code, "was read with credentials before, and none are given" in err) == (2, True)

    served = load({}, {}, read_settings_file(config).settings)
    environment = served.as_environment()  # what `serve` hands on to its jobs, whose own is added
    assert TOKEN not in str(environment)
    asked = {"sources": [], "add": False, "full": True, "within": {}}
    assert index_sources(IndexRequest(**asked), load({}, environment), quiet)[0]["documents"] == 1  # type: ignore[arg-type]
