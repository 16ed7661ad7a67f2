from collections.abc import Iterator

import pytest

from tests.indexer.conftest import docs, sentinel, short_pauses, work
from tests.indexer.server import Site

__all__ = ["docs", "sentinel", "short_pauses", "site", "work"]


@pytest.fixture
def site() -> Iterator[Site]:
    """A site that may be read, by `NEAR`."""
    server = Site("127.0.0.2")
    yield server
    server.close()
