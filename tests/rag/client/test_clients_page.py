"""The examples of a client in the documentation, run against the real application."""

import re
from pathlib import Path

import pytest

from rag.serving.api_keys import KeyFile
from rag.serving.pushed_queue import PushedQueue
from rag.settings import Settings
from tests.endpoint import fake_endpoint
from tests.web.fakes import FakeJobs, FakeRetriever, make_hit
from tests.web.running import running
from web.app import create_app

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = [(DOCS / name).read_text(encoding="utf-8") for name in ("programming.md", "sources.md")]
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", "".join(PAGES), re.MULTILINE | re.DOTALL)
KEY = "pl_a-key-that-may-write"
PRINTS = (
    ("client.search(", "1 Partial Indexes Indexes › Partial Indexes https://docs.example/"),
    ("client.push(", ""),
    (
        "import PilotlightRetriever\n\nretriever = PilotlightRetriever(searcher",
        "['https://docs.example/indexes/partial.html#part-1', 'https://",
    ),
    ("PilotlightReranker", "0.872138440"),
    ("ask_further", "For few rows [2]. ['For few rows [2].']\nFor few rows [2]. how do I make a"),
    ("openai", ""),
    ("citation.number", "For few rows [2].\n[2] Partial Indexes: https://docs.example/indexes/partial.html#part-2"),
)


@pytest.mark.parametrize(("mark", "printed"), PRINTS)
def test_example(mark, printed, tmp_path, capsys, monkeypatch):
    [example] = [text for text in EXAMPLES if mark in text]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PILOTLIGHT_KEY", KEY)
    retriever = FakeRetriever()
    retriever.hits = [make_hit(1), make_hit(2)]
    retriever.rerank_model = "dummy"
    settings = Settings(keys=str(tmp_path / "keys.json"), anonymous="read")
    KeyFile(settings.keys_file).add("builder", "write", KEY)
    example = example.replace('api_key="none"', f'api_key="{KEY}"')
    with fake_endpoint() as endpoint:
        endpoint.answers("For few rows", " [2].")
        settings = Settings(
            index="index", keys=str(settings.keys_file), anonymous="read", answer_url=endpoint.url, answer_model="small"
        )
        with running(create_app(retriever, settings, FakeJobs(), PushedQueue(settings))) as url:
            exec(compile(example.replace("http://127.0.0.1:8642", url), "documentation", "exec"), {})
    assert printed in capsys.readouterr().out


def test_every_example_is_run():
    assert len(EXAMPLES) == len(PRINTS)
