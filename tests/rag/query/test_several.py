"""Several collections, or several versions of a page, searched as one: the same hits as one index of all documents."""

import random
from itertools import product
from pathlib import Path
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient
from msgspec.structs import replace

from indexer.config import CrawlLimits
from indexer.generation.manifest import collection_dir
from rag.access import Grant, Scope
from rag.errors import CollectionMissing, NotReady
from rag.query.request import MODES, Filter, SearchRequest
from rag.query.results import link_to_text
from rag.serving.follower import Follower
from rag.serving.live import LiveRetriever
from rag.settings import load
from tests.building import build_index
from tests.dummy import DummyEmbedder
from tests.indexer.server import Site, page
from tests.rag.conftest import start
from tests.waiting import wait_for
from web.app import create_app

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
        build_index(collection_dir(root / "index", name), *folders, full=True, tokens=request.param)
    retriever = LiveRetriever(Follower(load({"index": str(root / "index")}, {}), lambda settings: DummyEmbedder()))
    retriever.start()
    wait_for(lambda: retriever.follower.has_refreshed)
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
    monkeypatch.setattr(live.follower.collections["b"], "unreachable", True)
    monkeypatch.setattr(live.follower.collections["b"], "reason", "its store is away")
    found = live.search(SearchRequest("vacuum", collections="*"))
    assert (found.collections, found.unavailable) == (["a", "both", "secret"], ["b"])
    with pytest.raises(NotReady, match="collection 'b': its store is away"):
        live.search(SearchRequest("vacuum", collections="a,b"))
    alone = live.search(SearchRequest("vacuum", collections=["a", "a"]))
    assert replace(alone, took_ms={}) == replace(live.search(SearchRequest("vacuum", collection="a")), took_ms={})
    assert [hit.collection for hit in alone.hits] == ["a"] * len(alone.hits)


TITLES = {"partial": "Partial indexes", "vacuum": "Routine vacuuming", "roles": "Roles of a database"}


def crawl(site: Site, index: Path) -> None:
    links = "".join(f'<p><a href="{path}">{path}</a></p>' for path in site.routes if path != "/")
    site.routes["/"] = page(links, "Start")
    build_index(index, f"{site.url}/", crawl=CrawlLimits(allow_private=True))


def hits(client: FlaskClient, **asked: str) -> list[tuple[str, str | None, list[str]]]:
    found = client.get("/api/v1/search", query_string=asked).get_json()["hits"]
    return [(each["url"][-12:], each["version"], [other["version"] for other in each["also"]]) for each in found]


def test_the_newest_version_of_a_page_stands_for_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag.serving.follower.POLL_SECONDS", 0.02)
    site = Site()
    for version, (name, title) in product(("15", "16", "17"), TITLES.items()):
        text = f"<p>{title} in version {version} are described here. The limit is {version}0.</p>"
        site.routes[f"/docs/{version}/{name}.html"] = page(f"<h1>{title}</h1>{text}", f"{version}: {title}")
    site.routes["/docs/15/tape.html"] = page("<h1>Tape</h1><p>Magnetic tape was supported once.</p>", "Tape")
    crawl(site, tmp_path)
    settings = load({"index": str(tmp_path)}, {})
    live = LiveRetriever(Follower(settings, lambda _: DummyEmbedder()))
    start(live)
    client = create_app(live, settings).test_client()
    for mode in ("hybrid", "dense", "lexical"):
        assert hits(client, q="partial indexes", mode=mode)[0] == ("partial.html", "17", ["16", "15"])
    assert hits(client, q="magnetic tape")[0] == ("15/tape.html", "15", [])
    assert hits(client, q="partial indexes", version="16")[0] == ("partial.html", "16", [])
    assert {version for _, version, _ in hits(client, q="partial", version="latest")} == {"17"}
    assert hits(client, q="partial indexes", version="9") == []
    shares = client.get("/api/v1/search?q=partial+indexes&facets=true").get_json()["facets"]["version"]
    assert {share["value"]: share["count"] for share in shares} == {"15": 4, "16": 3, "17": 3}
    html = client.get("/?q=partial+indexes").get_data(as_text=True)
    assert "version 17" in html
    assert f'<a href="{site.url}/docs/16/partial.html" rel="noopener noreferrer">16</a>' in html
    before = live.describe()["generation"]
    for name in TITLES:
        del site.routes[f"/docs/17/{name}.html"]
    crawl(site, tmp_path)
    wait_for(lambda: live.describe()["generation"] != before)
    assert hits(client, q="partial indexes")[0] == ("partial.html", "16", ["15"])
    live.close()
    site.close()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("- Use well-known, cost-based stripes & more.", "Use%20well%2Dknown%2C%20cost%2Dbased%20stripes%20%26%20more"),
        ("a | how much memory it takes\nb | no", "how%20much%20memory%20it%20takes"),
        ("It is a default. For lions. It is a default.", "It%20is%20a%20default"),
        (
            "One two three four five six seven eight nine ten eleven.",
            "One%20two%20three%20four%20five,nine%20ten%20eleven",
        ),
        ("The `zebra` (5) is read; see below at the end.", "see%20below%20at%20the%20end"),
        ("参数限制内存大小，启动时读取。", "%E5%8F%82%E6%95%B0%E9%99%90%E5%88%B6%E5%86%85%E5%AD%98%E5%A4%A7%E5%B0%8F"),
        ("Zebra: 5.", None),
        ("One two three. Four five six.", "One%20two%20three"),
        ("Two words. Here are three.", "Here%20are%20three"),
        (
            "one two three four five six seven eight nine ten.",
            quote("one two three four five six seven eight nine ten"),
        ),
        (f"a b {'x' * 80}. c d {'y' * 81}.", f"a%20b%20{'x' * 80}"),
        ("参数限制内。", None),
        ("参数限制内存。", quote("参数限制内存")),
    ],
)
def test_links_to_text(text: str, found: str | None) -> None:
    url = "https://d.example/p"
    assert link_to_text(url, "text/html", text, []) == (found and f"{url}#:~:text={found}")
    assert link_to_text(f"{url}#a", "text/html", text, []) == (found and f"{url}#a:~:text={found}")
    assert link_to_text(url, "application/pdf", text, []) is None
    assert link_to_text("file:///p", "text/html", text, []) is None


def test_the_clause_with_most_words_of_the_query_is_named() -> None:
    text = "It is on by default. It is on in tests."
    assert link_to_text("https://d.example/", "text/html", text, [(30, 32), (33, 38)]) == (
        "https://d.example/#:~:text=It%20is%20on%20in%20tests"
    )
    assert link_to_text("https://d.example/", "text/html", text, [(21, 23)]) == (
        "https://d.example/#:~:text=It%20is%20on%20in%20tests"
    )
