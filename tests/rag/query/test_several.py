"""Several collections searched as one: the same hits as one index of all their documents, and nothing of others."""

import io
import random
from pathlib import Path

import pytest
from msgspec.structs import replace

from indexer.config import BuildConfig
from indexer.generation.manifest import collection_dir
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress
from rag.access import Grant, Scope
from rag.errors import CollectionMissing, NotReady
from rag.query.request import MODES, Filter, SearchRequest
from rag.serving.follower import Follower
from rag.serving.live import LiveRetriever
from rag.settings import load
from tests.dummy import DummyEmbedder
from tests.rag.conftest import wait_for

WORDS = "vacuum index table tuple page lock buffer query plan join cache scan write read commit log".split()
COPY = "# Copied\n\nA page about the vacuum of a table that both of them have, word for word, and of its log.\n"


def write_pages(folder: Path, pages: int, most: int) -> str:
    """Write pages of up to so many words, two of three in English; return the folder."""
    folder.mkdir()
    dice = random.Random(pages)
    for number in range(pages):
        known = [
            *WORDS,
            f"only{folder.name}",
            *(f"{a}{b}" for a in "bdfgklmnprst" for b in ("ale", "orm", "ind", "est")),
        ]
        text = " ".join(dice.choices(known, weights=range(len(known), 0, -1), k=dice.randint(9, most)))
        head, text = ("---\nlanguage: de\n---\n", text) if number % 3 == 0 else ("", f"{text} private{folder.name}")
        (folder / f"{number:03}.md").write_text(f"{head}# Page {number}\n\n{text}\n", encoding="utf-8")
    (folder / "copy.md").write_text(COPY, encoding="utf-8")
    return str(folder)


@pytest.fixture(scope="module", params=[False, True], ids=["", "tokens"])
def live(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("several")
    sources = {"a": [write_pages(root / "a", 55, 20)], "b": [write_pages(root / "b", 30, 90)]}
    sources |= {"both": sources["a"] + sources["b"], "secret": [write_pages(root / "secret", 20, 40)]}
    for name, folders in sources.items():
        config, quiet = BuildConfig(full=True, tokens=request.param), Progress(io.StringIO(), quiet=True)
        build(folders, collection_dir(root / "index", name), DummyEmbedder(), config, progress=quiet)
    retriever = LiveRetriever(Follower(load({"index": str(root / "index")}, {}), lambda settings: DummyEmbedder()))
    retriever.start()
    wait_for(lambda: retriever.follower.tried)
    retriever.close()  # follows the index no more, and goes on answering
    return retriever


def test_a_scope_holds_in_each_collection_and_others_are_not_there(live):
    """Of one, what is in German; of the other, all. What is not in the scope is as what does not exist."""
    scope = Scope((Grant(frozenset({"a", "gone"}), Filter(language=("de",))), Grant(frozenset({"b"}))))
    for mode in MODES:
        found = live.within(scope).search(SearchRequest("vacuum onlysecret onlyb", k=50, collections="*", mode=mode))
        assert found.collections == ["a", "b"]
        assert {hit.language for hit in found.hits if hit.collection == "a"} == {"de"}
        assert {hit.language for hit in found.hits if hit.collection == "b"} > {"de"}
        assert (found.unavailable, "," in found.generation) == ([], True)
        if mode != "dense":
            found = live.within(scope).search(SearchRequest("privatex", collections="*", mode=mode))
            assert found.also_searched == [{"typed": "privatex", "searched": ["privateb"], "reason": "correction"}]
    for name in ("secret", "nowhere"):
        with pytest.raises(CollectionMissing, match=f"^there is no collection '{name}'; there are: a, b$") as error:
            live.within(scope).search(SearchRequest("vacuum", collections=["a", name]))
        assert error.value.field == "collections"
    with pytest.raises(CollectionMissing):
        live.within(Scope(())).search(SearchRequest("vacuum", collections="*"))


def test_what_cannot_be_searched_is_named(live, monkeypatch):
    with pytest.raises(CollectionMissing, match="no collection ''"):
        live.search(SearchRequest("vacuum", collections="a,"))
    monkeypatch.setattr(live.follower.collections["b"], "away", True)
    monkeypatch.setattr(live.follower.collections["b"], "reason", "its store is away")
    found = live.search(SearchRequest("vacuum", collections="*"))
    assert (found.collections, found.unavailable) == (["a", "both", "secret"], ["b"])
    with pytest.raises(NotReady, match="collection 'b': its store is away"):
        live.search(SearchRequest("vacuum", collections="a,b"))
    alone = live.search(SearchRequest("vacuum", collections=["a", "a"]))
    assert replace(alone, took_ms={}) == replace(live.search(SearchRequest("vacuum", collection="a")), took_ms={})
    assert [hit.collection for hit in alone.hits] == ["a"] * len(alone.hits)
