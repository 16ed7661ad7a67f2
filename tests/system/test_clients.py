"""What programs use, with the real model and real processes: the client, a written answer, and the tools."""

import sys
import threading

import anyio
import pytest

from rag import Client
from rag.errors import Refused
from tests.endpoint import fake_endpoint
from tests.system.conftest import serving

pytestmark = pytest.mark.model


def test_a_client_and_a_written_answer(index):
    with fake_endpoint() as endpoint:
        flags = ("--answer-url", endpoint.url, "--answer-model", "small", "--workers", "1")
        with serving(index, *flags) as url, Client(url) as client:
            [hit] = client.search("dead tuples", k=1, sentences=True).hits
            assert hit.title == "Vacuum"
            document = client.document(hit.document)
            assert document.passages[0].id == hit.id
            assert {found.id for found in client.documents()} >= {document.id}
            [first, second] = client.search_many(["dead tuples", "power"], k=1)
            assert (first.hits[0].id, second.query) == (hit.id, "power")
            assert client.embed(["dead tuples"]).shape == (1, 384)
            with pytest.raises(Refused):
                client.index()

            endpoint.answers("It reclaims storage [1].")
            with client.answer("what is vacuum?", k=2) as answer:
                assert "".join(answer) == "It reclaims storage [1]."
            assert answer.citations[0].id == answer.found.hits[0].id

            endpoint.answers("It", threading.Event())
            with client.answer("what is vacuum?") as answer:
                assert next(iter(answer)) == "It"
            assert endpoint.left.wait(30)  # the server has noticed that its reader left


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
