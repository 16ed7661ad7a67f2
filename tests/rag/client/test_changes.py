"""Documents pushed with the client, through a real application and queue."""

import sys

import pytest

from indexer.sources.pushed_store import PushedStore
from rag.client.client import Client
from rag.errors import ClientError, Rejected, Unavailable
from rag.serving.api_keys import KeyFile
from rag.serving.pushed_builder import PushedBuilder
from rag.serving.pushed_queue import PushedQueue
from rag.settings import Settings
from tests.dummy import DummyEmbedder
from tests.web.fakes import FakeRetriever
from tests.web.running import running
from web.app import create_app


def test_push_wait_and_withdraw(tmp_path):
    settings = Settings(index=str(tmp_path / "index"), keys=str(tmp_path / "keys.json"))
    key = KeyFile(settings.keys_file).add("sender", "write")
    queue = PushedQueue(settings, (sys.executable, "-c", ""))
    builder = PushedBuilder(settings, lambda settings: DummyEmbedder())
    with running(create_app(FakeRetriever(), settings, None, queue)) as url, Client(url, key=key) as client:
        text = client.push("https://wiki.test/a", "Cats purr.", title="Cats", metadata={"team": ["a"]})
        page = client.push(
            "https://wiki.test/b", "<p>Grün".encode("latin-1"), content_type="text/html; charset=latin-1"
        )
        bad = client.push("https://wiki.test/c", b"no PDF", content_type="application/pdf")
        assert (text.id, text.state, text.url) == (1, "queued", "https://wiki.test/a")
        with pytest.raises(Unavailable, match="change 1 is still queued"):
            text.wait(0)
        builder.build(settings.index_dir)
        assert [change.wait(5) for change in (text, page, bad)] == ["indexed", "indexed", "failed"]
        assert bad.reason
        with PushedStore(settings.index_dir).read() as documents:
            first = documents.page("https://wiki.test/a")
        assert first is not None
        assert first.stated == ("Cats", None, None, (("team", ("a",)),), None)
        gone = client.withdraw("https://wiki.test/b")
        assert [change.id for change in client.changes()] == [gone.id, 3, 2, 1]
        builder.build(settings.index_dir)
        assert gone.wait(5) == "removed"
        with pytest.raises(Rejected, match="no document was pushed") as error:
            client.withdraw("https://wiki.test/b")
        assert error.value.field == "url"
        with pytest.raises(Rejected, match="is not read"):
            client.push("https://wiki.test/d", b"x", content_type="image/png")
        with pytest.raises(ClientError):
            client.push("file:///etc/passwd", "x")
