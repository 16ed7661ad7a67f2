from collections.abc import Iterator

import pytest

from tests.indexer.conftest import sentinel, short_pauses
from tests.indexer.server import Site

__all__ = ["sentinel", "short_pauses", "site"]


@pytest.fixture
def site() -> Iterator[Site]:
    """A site that may be read, by `NEAR`."""
    server = Site("127.0.0.2")
    yield server
    server.close()
