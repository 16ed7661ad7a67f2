"""The length of the path of one search: calls into our code, from the Flask application to FAISS and back."""

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from rag.serving.live import LiveRetriever
from rag.settings import load
from tests.dummy import DummyEmbedder
from tests.rag.conftest import Site, wait_for
from web.app import create_app

MOST_CALLS, MOST_MODULES = 300, 25
ROOT = Path(__file__).parents[3]
OURS = tuple(f"{ROOT}/{package}/" for package in ("embedder", "indexer", "rag", "web"))


def test_one_search_takes_few_calls_in_few_modules(site: Site) -> None:
    for number in range(30):
        (site.source / f"page{number}.md").write_text(f"# Page {number}\n\nA page about topic{number} and tuples.\n")
    site.build()
    settings = load({"index": str(site.index)}, {})
    live = LiveRetriever(settings, lambda settings: DummyEmbedder())
    live.start()
    client = create_app(live, settings).test_client()
    wait_for(lambda: live.ready)
    calls = Counter[str]()

    def count(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            calls[frame.f_code.co_filename] += 1

    before = sys.getprofile()
    for _ in range(3):  # the last one is counted: what the first ones load and compile stays
        calls.clear()
        sys.setprofile(count)
        try:
            answer = client.post("/api/v1/search", json={"query": "dead tuples vacuum", "k": 10})
        finally:
            sys.setprofile(before)
    live.close()
    assert len(answer.get_json()["hits"]) == 10
    assert sum(calls.values()) <= MOST_CALLS, calls
    assert len(calls) <= MOST_MODULES, calls
