"""The whole query path on small indexes: what is found, page by page, and what the answer says of it."""

import re
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from indexer.errors import SynonymsError
from indexer.generation.documents import DocumentFacts
from indexer.generation.generation import Generation, JointGeneration
from indexer.generation.lexical.lexical_query import MAX_SYNONYM_WORDS, read_query
from indexer.generation.lexical.vocabulary import Heading
from indexer.generation.rows import ScoredRows
from indexer.records import Page
from indexer.sources.pushed_store import SOURCE, PushedStore
from rag import deadline
from rag.errors import DeadlinePassed, FieldError, FingerprintMismatch
from rag.query.model_queue import WARM_QUERIES, RerankQueue
from rag.query.request import MODES, SearchRequest
from rag.query.results import (
    Suggestion,
    as_markdown,
    as_text,
    count_facets,
    full_heading,
    questions_among,
    suggestions,
    text_of,
    without_number,
)
from rag.query.retriever import Retriever, shorten
from rag.query.synonyms import parse_synonyms, read_synonyms
from rag.serving.follower import Follower
from rag.serving.live import LiveRetriever
from rag.settings import load
from tests.building import build_index
from tests.dummy import DummyCrossEncoder, DummyEmbedder
from tests.rag.conftest import Site
from tests.waiting import wait_for
from web.app import create_app

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa".split()


def opened(site, **limits):
    return Retriever(Generation.open(site.index), DummyEmbedder(), **limits)


def ask(retriever, query, **options):
    answer = retriever.answer_query(SearchRequest(query, **options))
    *stages, total = answer.took_ms.values()
    assert 0 <= min(stages) <= sum(stages) <= total + 0.01
    assert stages == [round(each, 3) for each in stages]
    return answer


@pytest.fixture
def retriever(site):
    site.build()
    return opened(site)


@pytest.fixture
def many(site):
    """Of 260 pages and 120 copies of another."""
    for number in range(260):
        words = " ".join(WORDS[place % 10] * (1 + place % 3) for place in range(number, number + 7))
        (site.source / f"page{number:03}.txt").write_text(f"Vacuum number {number} {words}\n", encoding="utf-8")
    for number in range(120):
        (site.source / f"copy{number}.txt").write_text(f"vacuum alpha beta {'.' * number}\n", encoding="utf-8")
    site.build()
    return opened(site)


def test_a_query_too_long_for_the_model_is_read_by_its_telling_sentences(retriever):
    chatter = "The weather on the coast was lovely when aunt Martha came to visit us again. " * 20
    question = "VACUUM reclaims storage occupied by dead tuples."
    for mode in ("hybrid", "dense"):
        answer = ask(retriever, f"{chatter}{question} -durability {chatter}", mode=mode)
        assert answer.hits[0].title == "Vacuum"
        assert answer.excluded == ['"durability"']
        assert answer.query.startswith("The weather")
        assert answer.close
        assert not ask(retriever, chatter, mode=mode).close


def test_the_right_passage_is_first(retriever):
    answer = ask(retriever, "partial index of a table", k=2)
    assert [hit.rank for hit in answer.hits] == [1, 2]
    best = answer.hits[0]
    assert best.title == "Partial indexes"
    assert best.url.endswith("partial.md#partial-indexes")
    assert [best.text[a:b] for a, b in best.highlights] == ["partial", "index", "table"]
    assert best.score == 1.0 > answer.hits[1].score  # best by meaning and by words
    assert best.scores["dense"] > answer.hits[1].scores["dense"]
    assert best.scores["lexical"] > 0
    assert answer.hits[1].scores["lexical"] is None
    assert answer.generation == retriever.generation.manifest.id
    assert list(answer.took_ms) == ["embed", "dense", "lexical", "fuse", "rerank", "total"]


@pytest.mark.parametrize("mode", MODES)
def test_the_page_of_an_address_is_first(many, site, mode):
    for name in ("page017.txt", "copy3.txt"):
        address = (site.source / name).as_uri()
        assert ask(many, f"<{address}?from=mail>.", mode=mode).hits[0].url.partition("#")[0] == address
        best, second, *_ = [*ask(many, f" {address} ", mode=mode, explain=True).hits, None]
        assert best.url.partition("#")[0] == address
        assert second is None or best.score >= second.score
    joint = Retriever(JointGeneration({"a": many.generation, "b": many.generation}), DummyEmbedder())
    assert ask(joint, address, mode=mode).hits[0].url == best.url
    assert not ask(many, address, mode=mode, filter={"path": "/elsewhere"}).hits
    assert ask(many, "https://a.test/vacuum", mode=mode).hits


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("wiki.test/guide/zebra", ["https://wiki.test/guide/zebra"]), (" OLD.test/tape\n", ["http://old.test/tape/"]),
        ("HTTPS://wiki.test/guide/zebra/", ["https://wiki.test/guide/zebra"]), ("http://wiki.test/guide/zebra", ["https://wiki.test/guide/zebra"]),
        ("www.wiki.test/guide/zebra#top", ["https://wiki.test/guide/zebra"]), ("https://old.test/tape/index.html?a=b", ["http://old.test/tape/"]),
        ("see wiki.test/guide/zebra", []), ("guide/zebra", []), ("http://old.test/tape/", ["http://old.test/tape/"]),
    ],
)  # fmt: skip
def test_an_address_may_be_typed_without_its_scheme(site: Site, typed: str, found: list[str]) -> None:
    site.build()
    for address in ("https://wiki.test/guide/zebra", "http://old.test/tape/"):
        PushedStore(site.index).put(Page(address, SOURCE, b"Stripes, in black and white.", "text/plain"))
    site.build()
    assert [hit.url for hit in ask(opened(site), typed, mode="lexical").hits][: len(found) or 1] == found


def test_another_embedder_is_refused(site: Site) -> None:
    site.build()
    with pytest.raises(FingerprintMismatch, match=r"\(dimension: index 64, here 32\): use the settings"):
        Retriever(Generation.open(site.index), DummyEmbedder(32))


def test_what_only_words_find_has_its_cosine(retriever, monkeypatch):
    [expected, *_] = ask(retriever, "dead tuples").hits
    monkeypatch.setattr(retriever.generation, "search_vectors", lambda *_: ScoredRows.none())
    [hit] = ask(retriever, "dead tuples").hits
    assert (hit.id, hit.scores["dense"]) == (expected.id, pytest.approx(expected.scores["dense"]))


@pytest.mark.parametrize(("mode", "silent", "ranks"), [("dense", "lexical", "tokens"), ("lexical", "dense", "lexical")])
def test_one_search_alone(retriever, mode, silent, ranks):
    hits = ask(retriever, "dead tuples", k=3, mode=mode).hits
    assert hits[0].title == "Vacuum"
    assert all(hit.scores[silent] is None and hit.score == hit.scores[ranks] for hit in hits)
    assert len(hits) == (3 if mode == "dense" else 1)  # only one has the words
    assert len(ask(retriever, "zebra", mode=mode).hits) == (3 if mode == "dense" else 0)  # the nearest


def test_half_of_a_character_is_refused(retriever):
    with pytest.raises(FieldError, match="half of a surrogate pair"):
        ask(retriever, "vacuum \ud800")


def test_a_hit_with_its_section(site):
    words = [f"word{i}" for i in range(120)]
    (site.source / "long.md").write_text(
        f"# Long\n\n{'Before. ' * 30}\n\n## Part\n\n{' '.join(words)}\n\n## Next\n\n{'After. ' * 30}\n"
    )
    build_index(site.index, site.source, chunk_tokens=40)
    [hit] = ask(opened(site), "word50", k=1, mode="lexical", expand="section").hits
    assert len(hit.text.split()) <= 40
    assert hit.section_text.split() == words
    assert ask(opened(site), "word50", k=1, mode="lexical").hits[0].section_text is None


@pytest.mark.parametrize("mode", ["hybrid", "dense"])
def test_tokens_are_part_of_the_score(site, mode, monkeypatch):
    site.build(tokens=False)
    retriever = opened(site)
    site.build(tokens=True)
    with_tokens, request = opened(site), SearchRequest("which rows of a table", mode=mode)
    bare, both = retriever.answer_query(request).hits, with_tokens.answer_query(request).hits
    assert [hit.scores["tokens"] for hit in bare] == [None] * 3
    scores = [hit.scores["tokens"] for hit in both]
    assert both[0].title == "Partial indexes"
    assert max(scores) == scores[0] > scores[-1]
    assert {hit.title: hit.scores["dense"] for hit in bare} == {hit.title: hit.scores["dense"] for hit in both}

    def late(*arguments):
        monkeypatch.setattr(deadline, "check", refuse)
        return search(*arguments)

    def refuse():
        raise DeadlinePassed

    search = with_tokens.generation.search_vectors
    monkeypatch.setattr(with_tokens.generation, "search_vectors", late)
    with pytest.raises(DeadlinePassed):  # between two slices of the comparison
        with_tokens.answer_query(request)


@pytest.mark.parametrize("mode", MODES)
def test_terms_are_searched_while_a_query_is_embedded(many, monkeypatch, mode):
    generation, threads = many.generation, []
    search, expected = generation.search_terms, many.answer_query(SearchRequest("vacuum alpha", mode=mode))

    def search_terms(*arguments: Any) -> Any:
        threads.append(threading.current_thread().name[:5])
        return search(*arguments)

    monkeypatch.setattr(generation, "search_terms", search_terms)
    monkeypatch.setattr(generation, "terms_take_long", True)
    answer = many.answer_query(SearchRequest("vacuum alpha", mode=mode))
    assert replace(answer, took_ms={}) == replace(expected, took_ms={})
    assert threads[:1] == {"hybrid": ["terms"], "dense": [], "lexical": ["MainT"]}[mode]
    assert answer.took_ms["lexical"] < 30_000


def test_a_search_goes_deeper_only_for_want_of_hits(site, monkeypatch):
    for number in range(17):
        (site.source / f"page{number}.md").write_text(f"# Page {number}\n\nA page about topic{number} and tuples.\n")
    site.build()
    retriever, depths = opened(site), []
    search = retriever.generation.search_vectors

    def search_vectors(vector: Any, depth: int, *more: Any) -> Any:
        depths.append(depth)
        return search(vector, depth, *more)

    monkeypatch.setattr(retriever.generation, "search_vectors", search_vectors)
    monkeypatch.setattr("rag.query.retriever.CANDIDATES", 4)
    for options, expected, following in (
        ({"k": 1}, [4], 1), ({"k": 3}, [6], 3), ({"k": 2, "offset": 2}, [4], 4), ({"k": 2, "offset": 3}, [4, 16], 5),
        ({"k": 3, "offset": 16}, [6, 24], 19), ({"k": 4, "offset": 16}, [8, 32], None),
        ({"k": 9, "offset": 20}, [18, 72], None),
    ):  # fmt: skip
        depths.clear()
        answer = ask(retriever, "a page about tuples", mode="dense", **options)
        assert (depths, answer.next) == (expected, following)
    monkeypatch.setattr("rag.query.retriever.MAX_OFFSET", 4)
    assert [ask(retriever, "page", k=2, offset=offset).next for offset in (2, 3)] == [4, None]


def test_a_query_is_run_before_the_first_user(site):
    site.build()
    for model in (None, DummyCrossEncoder()):
        retriever = opened(site, reranker=model and RerankQueue(model))
        retriever.warm()
        assert retriever.embedder.encoded >= len(WARM_QUERIES)
        assert model is None or len(model.runs) == len(WARM_QUERIES)


@pytest.mark.parametrize(("tokens", "is_short"), [(5, True), (6, False)])
def test_a_query_as_long_as_the_model_reads_is_left_alone(tokens, is_short):
    embedder = SimpleNamespace(count_tokens=lambda texts, role: [tokens], max_length=5)
    terms, read = read_query('one two. three. "four" -five'), []

    def parse(text: str) -> Any:
        read.append(text)
        return replace(terms, required=(), excluded=(), did_you_mean="x")

    shorter = shorten(terms, embedder, lambda sentences: np.zeros(len(sentences), np.float32), parse)
    assert (shorter is terms, len(read)) == (is_short, not is_short)
    assert (shorter.required, shorter.excluded, shorter.did_you_mean) == (terms.required, terms.excluded, None)


def test_copies_give_way_to_other_passages(many):  # more of them than there are candidates at first
    hits = ask(many, "vacuum alpha beta", k=4, mode="lexical").hits
    assert len(hits) == 4
    [copied] = [hit for hit in hits if hit.duplicates]
    assert len(copied.duplicates) == 10
    assert all("copy" in url for url in copied.duplicates)


@pytest.mark.parametrize(
    "options",
    [{}, {"mode": "dense"}, {"mode": "lexical"}, {"per_document": 1}],
    ids=["hybrid", "dense", "lexical", "per_document"],
)
def test_pages_make_up_the_whole(many, options):
    hits, offset, pages = [], 0, 0
    while offset is not None and pages < 12:
        page = ask(many, "vacuum alpha beta", k=20, offset=offset, **options)
        assert [hit.rank for hit in page.hits] == list(range(offset + 1, offset + 1 + len(page.hits)))
        assert page.next in (offset + 20, None)
        hits += page.hits
        offset, pages = page.next, pages + 1
    assert len(hits) > 200
    assert len({hit.id for hit in hits}) == len(hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.fixture
def secret(site):
    (site.source / "secret.md").write_text("# Secret\n\nThe ceratops of max_wal_senders stay hidden, as does vacxum.\n")
    site.build()
    return lambda **limits: opened(site, **limits)


@pytest.fixture
def titles(secret):
    def search(query: str, mode: str = "hybrid", **limits: str) -> list[str]:
        return [hit.title for hit in ask(secret(**limits), query, mode=mode).hits]

    return search


@pytest.mark.parametrize("mode", MODES)
def test_required_and_excluded_parts_hold_in_every_mode(titles, mode):
    assert "Vacuum" in titles("vacuum partial index fsync", mode)
    assert "Vacuum" not in titles("vacuum partial index fsync -tuples", mode)
    assert titles('"dead tuples" index', mode) == ["Vacuum"]
    assert titles('"tuples dead" index', mode) == []


def test_the_answer_says_how_the_query_was_read(secret):
    answer = secret().answer_query(SearchRequest('reclams "dead tuples" -durability'))
    assert answer.also_searched == [{"typed": "reclams", "searched": ["reclaims"], "reason": "correction"}]
    assert (answer.required, answer.excluded) == (['"dead tuples"'], ['"durability"'])
    assert as_text(answer.as_dict()).splitlines()[:7:2] == [
        'without: "durability"', 'only with: "dead tuples"',
        'did you mean: reclaims "dead tuples" -durability', "also searched for: reclaims (reclams)",
    ]  # fmt: skip


def test_a_result_that_is_not_close_says_so(secret):
    for close in (-1.0, 2.0):
        request = SearchRequest("vacum reclaims zebras nowhere near anything", k=1)
        answer = secret(close=close).answer_query(request)
        [hit] = answer.hits
        assert {hit.text[start:end].lower() for start, end in hit.highlights} == {"vacuum", "reclaims"}
        assert answer.close == (close < 1)
        assert as_text(answer.as_dict()).count("nothing close; nearest:") == (close > 1)


def test_synonyms_are_those_of_the_settings(titles, tmp_path):
    rules = tmp_path / "rules.txt"
    rules.write_text("hoover => vacuum\n")
    assert titles("hoover", "lexical") == []
    assert titles("hoover", "lexical", synonyms=str(rules)) == ["Vacuum"]
    with pytest.raises(SynonymsError, match=r"nowhere\.txt: No such file"):
        titles("vacuum", synonyms=str(tmp_path / "nowhere.txt"))
    for text, match in (
        (", ".join(f"w{n}" for n in range(65)), "line 1: a rule has at most 64"),
        ("\n".join(f"a => b{n}" for n in range(65)), "line 65: 'a' has more than 64 synonyms"),
    ):
        rules.write_text(text)
        with pytest.raises(SynonymsError, match=match):
            titles("vacuum", synonyms=str(rules))
    rules.write_text(", ".join(f"w{n}" for n in range(64)) + "\n" + "\n".join(f"a => b{n}" for n in range(64)))
    assert {len(synonyms) for synonyms in read_synonyms(str(rules)).values()} == {64}
    rules.write_bytes(b"a, \xff\n")
    with pytest.raises(SynonymsError, match=r"not UTF-8 \(invalid start byte at byte 3\)"):
        titles("vacuum", synonyms=str(rules))


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("# x\n\na, B # y", {("a",): ["a", "B"], ("b",): ["B", "a"]}),
        ("a => b, c d", {("a",): ["b", "c d"]}),
        ("a, b\na => c", {("a",): ["a", "b", "c"], ("b",): ["b", "a"]}),
        (r"c\,d, e", {("c", "d"): ["c,d", "e"], ("e",): ["e", "c,d"]}),
        ("a => b => c", r"f line 1: a rule has one =>, not 2\Z"),
        ("\na", r"f line 2: 'a' has no synonym: write a, b or a => b\Z"),
        ("a, ,b", r"f line 1: '' must have one to \d+ words\Z"),
        (" ".join(["a"] * (MAX_SYNONYM_WORDS + 1)) + ", b", rf"must have one to {MAX_SYNONYM_WORDS} words\Z"),
        (" ".join(["a"] * MAX_SYNONYM_WORDS) + " => b", {("a",) * MAX_SYNONYM_WORDS: ["b"]}),
    ],
)
def test_rules_of_synonyms(text: str, rules: dict[tuple[str, ...], list[str]] | str) -> None:
    if isinstance(rules, str):
        with pytest.raises(SynonymsError, match=rules):
            parse_synonyms(text, "f")
    else:
        assert parse_synonyms(text, "f") == rules


MOST_CALLS, MOST_MODULES = 200, 24
ROOT = Path(__file__).parents[3]
OURS = tuple(f"{ROOT}/{package}/" for package in ("indexer", "rag", "web"))  # a dummy stands for the embedder


def test_one_search_takes_few_calls_in_few_modules(site: Site) -> None:
    for number in range(30):
        (site.source / f"page{number}.md").write_text(f"# Page {number}\n\nA page about topic{number} and tuples.\n")
    site.build()
    settings = load({"index": str(site.index), "query_cache": "0"}, {})
    live = LiveRetriever(Follower(settings, lambda settings: DummyEmbedder()))
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


def facts(url: str, source: str = "https://a.example/", language: str | None = "en") -> DocumentFacts:
    return DocumentFacts(url, source, language, "text/html", None)


def pairs(documents: list[DocumentFacts], name: str) -> list[tuple[str, int]]:
    return [(share["value"], share["count"]) for share in count_facets(documents)[name]]


@pytest.mark.parametrize(
    ("paths", "shares"),
    [
        (("/", "/faq.html", "/docs/a", "/docs/17/b", "/blog/"), [("/docs", 2), ("/blog", 1)]),
        (
            ("/docs/en/17/a.html", "/docs/en/18/b.html", "/docs/en/18/x/c.html", "/docs/en/index.html"),
            [("/docs/en/18", 2), ("/docs/en/17", 1)],
        ),
        (("/docs/a", "/docs/b"), []),
        (("/docs/17/a",), []),
    ],
)
def test_a_path_is_the_first_folder_below_what_all_share(paths: tuple[str, ...], shares: list[tuple[str, int]]) -> None:
    assert pairs([facts(f"https://a.example{path}") for path in paths], "path") == shares


def test_the_ten_most_frequent_values_are_counted_and_versions_from_the_newest() -> None:
    languages = [f"l{number:02}" for number in range(12)]
    documents = [facts("https://a.example/", language=language) for language in [*languages, "l11", None]]
    assert pairs(documents, "language") == [("l11", 2), *((language, 1) for language in languages[:9])]
    assert count_facets([], ["9", "10", "", "9"])["version"] == [
        {"value": "10", "count": 1}, {"value": "9", "count": 2},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("title", "section", "path"),
    [
        ("A", "A › B", "A › B"), ("A", "B › C", "A › B › C"), ("A", "A", "A"), ("A", "", "A"), ("", "B", "B"),
        ("A", "AB › C", "A › AB › C"),
    ],
)  # fmt: skip
def test_a_heading_path_has_the_title_of_its_page_once(title: str, section: str, path: str) -> None:
    assert full_heading(title, section) == path


def test_a_question_is_short_and_a_heading_or_a_title() -> None:
    def passage(document: int, title: str, section: str) -> Any:
        return SimpleNamespace(document_url=f"file:///{document}", title=title, section=section)

    sections = ["How? › 1. What?", "Why?", "x" * 69 + "?", "x" * 70 + "?", "No question", ""]
    passages = [passage(number, "Title?" if number > 3 else "Title", each) for number, each in enumerate(sections)]
    assert questions_among([*passages, passage(0, "", "Another?")]) == ["What?", "Why?", "x" * 69 + "?", "Title?"]
    many = [passage(number, f"{chr(97 + number)}?", "") for number in range(9)]
    assert questions_among(many) == ["a?", "c?", "e?", "g?"]


def test_questions_for_the_start_page_are_headings_of_different_documents(site) -> None:
    for number in range(40):
        text = f"# {number}. How is {number} made?\n\nWords of {number}.\n\n## About it\n\nMore of {number}.\n"
        (site.source / f"{number:02}.md").write_text(text, encoding="utf-8")
    site.build()
    found = Retriever(Generation.open(site.index), DummyEmbedder()).questions
    assert len(found) == len(set(found)) == 4
    assert all(re.fullmatch(r"How is \d+ made\?", each) for each in found)


@pytest.mark.parametrize(
    ("heading", "plain"),
    [
        ("4.2. Vacuum", "Vacuum"), ("Chapter 12: Vacuum  in  rows", "Vacuum in rows"), ("Appendix B Vacuum", "Vacuum"),
        ("A) Vacuum", "Vacuum"), ("A vacuum", "A vacuum"), ("Part of it", "Part of it"), ("4.2", "4.2"),
    ],
)  # fmt: skip
def test_a_heading_is_suggested_without_its_number(heading: str, plain: str) -> None:
    assert without_number(heading) == plain


def test_suggestions_are_few_and_not_what_is_typed_already() -> None:
    texts = ("1. Vacuum", "Vacuum", "VACUUM  rows", "Vacuum tables", "Vacuum pages")
    headings = [Heading(order, text, order == 0) for order, text in enumerate(texts)]
    assert suggestions("vacuum  ROWS ", headings, 2) == [
        Suggestion("Vacuum", "title"), Suggestion("Vacuum tables", "heading"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "fence"), [("x = 1", "```"), ("a ``` b", "````"), ("a `` b", "```"), ("`````\n```", "``````")]
)
def test_code_stands_between_fences_that_it_does_not_have(code: str, fence: str) -> None:
    text = f"See:\n{code}\nand go."
    blocks = [(0, 5, "table"), (5, 5 + len(code), "code")]
    assert as_markdown(text, blocks) == f"See:\n{fence}\n{code}\n{fence}\nand go."
    hit: Any = SimpleNamespace(text=text, blocks=blocks, section_text=None, section_blocks=[])
    assert text_of(hit) == as_markdown(text, blocks)
    hit.section_text = "The section."
    assert text_of(hit) == "The section."
