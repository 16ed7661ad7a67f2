"""Documents that were sent, as a source of an index."""

from contextlib import closing
from pathlib import Path

import pytest

from indexer.config import BuildConfig, CrawlLimits
from indexer.generation.generation import Generation
from indexer.pipeline.build import build
from indexer.pipeline.progress import BuildReport
from indexer.publish.publish import prepare
from indexer.records import Page, SenderFacts
from indexer.sources.pushed_store import SOURCE, PushedStore
from tests.dummy import DummyEmbedder
from tests.faults.world import quiet

MOMENT = "2026-11-20T04:00:00+00:00"
MAIL = """Subject: Minutes
Content-Type: multipart/mixed; boundary=b

--b

We met.
--b
Content-Disposition: attachment; filename=plan.txt

The plan is to hibernate.
--b--
"""


class Pushed:
    """An index that documents are pushed to."""

    def __init__(self, root: Path) -> None:
        self.index = root / "index"
        prepare(self.index)
        (self.index / "lock").touch()
        self.store = PushedStore(self.index)
        self.embedder = DummyEmbedder()

    def put(
        self, name: str, text: str, *, content_type: str = "text/markdown", stated: SenderFacts | None = None
    ) -> int:
        url, body = f"https://wiki.test/{name}", text.encode("latin-1")
        page = Page(url, SOURCE, body, content_type, "utf-8", None, None, MOMENT, sender_facts=stated or SenderFacts())
        return self.store.put(page).id

    def remove(self, name: str) -> int:
        return self.store.remove(f"https://wiki.test/{name}").id

    def build(self, *sources: str | Path, refresh: tuple[str, ...] | None = ()) -> BuildReport:
        config = BuildConfig(refresh=refresh, crawl=CrawlLimits(allow_private=True))
        return build([str(source) for source in sources], self.index, self.embedder, config, progress=quiet())

    def texts(self) -> dict[str, str]:
        with closing(Generation.open(self.index)) as generation:
            found = generation.documents()
            return {each["url"]: " ".join(passage["text"] for passage in each["passages"]) for each in found}

    def states(self) -> dict[int, tuple[str, str | None]]:
        return {change.id: (change.state, change.reason) for change in self.store.changes(100)}


@pytest.fixture
def pushed(tmp_path: Path) -> Pushed:
    return Pushed(tmp_path)


def test_what_is_sent_is_indexed_replaced_and_withdrawn(pushed):
    pushed.put("cats", "# Cats\n\nCats purr.")
    pushed.put("dogs", "# Dogs\n\nDogs bark.")
    assert pushed.store.is_waiting()
    report = pushed.build()
    assert pushed.texts() == {"https://wiki.test/cats": "Cats purr.", "https://wiki.test/dogs": "Dogs bark."}
    assert pushed.states() == {1: ("indexed", None), 2: ("indexed", None)}
    assert not pushed.store.is_waiting()
    assert pushed.build().generation == report.generation  # nothing has changed
    pushed.put("cats", "# Cats\n\nCats hiss.")
    pushed.remove("dogs")
    embedded = pushed.build().embedded
    assert (embedded, pushed.texts()) == (1, {"https://wiki.test/cats": "Cats hiss."})
    assert (pushed.states()[3], pushed.states()[4]) == (("indexed", None), ("removed", None))
    facts = pushed.store.facts()
    assert (facts.queued, facts.documents, facts.bytes) == (0, 1, len("# Cats\n\nCats hiss."))


def test_what_the_sender_states_goes_first(pushed):
    front = "---\nlang: en\ndate: 2020-01-01\nteam: sales\nowner: ann\n---\n# Own title\n\nText about cats.\n"
    stated = SenderFacts("Given title", "de", "2026-01-31", (("team", ("operations",)), ("reader", ("bob", "eve"))))
    pushed.put("page", front, stated=stated)
    pushed.put("plain", "# Own title\n\nText about dogs.\n")
    pushed.build()
    with closing(Generation.open(pushed.index)) as generation:
        page, plain = generation.documents()
    assert (page["title"], page["language"], page["date"]) == ("Given title", "de", "2026-01-31")
    assert page["metadata"]["team"] == "operations"
    assert page["metadata"]["reader"] == ["bob", "eve"]
    assert page["source"] == SOURCE
    assert (plain["title"], plain["metadata"]) == ("Own title", {})
    pushed.put("page", front, stated=stated._replace(metadata=(("team", ("nobody",)),)))
    pushed.build()
    with closing(Generation.open(pushed.index)) as generation:
        assert next(iter(generation.documents()))["metadata"]["team"] == "nobody"


def test_one_that_cannot_be_read_says_so_and_keeps_nobody(pushed):
    pushed.put("bad", "no PDF", content_type="application/pdf")
    pushed.put("empty", "   ")
    pushed.put("good", "Cats purr.")
    pushed.put("same", "Cats purr.")
    pushed.build()
    assert pushed.texts() == {f"https://wiki.test/{name}": "Cats purr." for name in ("good", "same")}
    states = pushed.states()
    assert (states[1][0], states[2], states[3]) == ("failed", ("skipped", "no text"), ("indexed", None))
    assert states[1][1]
    assert states[4] == ("indexed", None), "it would tell that there is another one"
    pushed.remove("good")
    pushed.build()
    assert list(pushed.texts()) == ["https://wiki.test/same"]
    pushed.put("bad", "no PDF either", content_type="application/pdf")  # alone, nothing else has changed
    pushed.build()
    assert pushed.states()[6][0] == "failed"


def test_what_comes_with_an_e_mail(pushed):
    pushed.put("mail", MAIL, content_type="message/rfc822", stated=SenderFacts("Stated", metadata=(("to", ("ann",)),)))
    pushed.build()
    assert list(pushed.texts()) == ["https://wiki.test/mail", "https://wiki.test/mail!/plan.txt"]
    pushed.put("other", "Cats purr.")
    pushed.build()
    assert len(pushed.texts()) == 3
    pushed.remove("mail")
    pushed.build()
    assert list(pushed.texts()) == ["https://wiki.test/other"]


def test_what_was_pushed_stands_for_its_address(pushed, site):
    site.routes |= {"/": "<p>Start. <a href=/cats>Cats</a>", "/cats": "<p>Crawled text."}
    home, url = f"{site.url}/", f"{site.url}/cats"
    pushed.build(home, refresh=None)
    change = pushed.store.put(Page(url, SOURCE, b"Pushed text.", "text/plain", "utf-8", None, None, MOMENT))
    pushed.build(home)
    assert pushed.texts()[url] == "Pushed text."
    pushed.build(home, refresh=None)  # which the site has as well
    assert pushed.texts()[url] == "Pushed text."
    assert pushed.states()[change.id] == ("indexed", None)
    pushed.store.remove(url)
    pushed.build(home, refresh=None)
    assert pushed.texts()[url] == "Crawled text."


def test_an_index_without_what_was_sent_to_it_keeps_it(pushed):
    """As after an import: the archive has the index alone."""
    pushed.put("cats", "Cats purr.")
    pushed.put("dogs", "Dogs bark.")
    pushed.build()
    (pushed.index / "pushed" / "documents.sqlite").unlink()
    pushed.put("owls", "Owls hoot.")
    pushed.build()
    assert len(pushed.texts()) == 3
    assert pushed.store.has("https://wiki.test/cats")
    pushed.remove("cats")
    pushed.build()
    assert sorted(pushed.texts().values()) == ["Dogs bark.", "Owls hoot."]
