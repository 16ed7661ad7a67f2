from collections.abc import Iterator

import pytest

from tests.indexer.server import Site


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.fetch._BACKOFF", 0.01)


@pytest.fixture
def site() -> Iterator[Site]:
    """A site that may be read, by `NEAR`."""
    server = Site("127.0.0.2")
    yield server
    server.close()


@pytest.fixture
def sentinel() -> Iterator[Site]:
    """A server on loopback; the test fails if anything at all was asked of it."""
    server = Site()
    server.routes["/"] = "<p>secret</p>"
    yield server
    server.close()
    assert server.hits == []
