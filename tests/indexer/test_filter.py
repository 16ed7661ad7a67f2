import random
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from itertools import accumulate
from typing import Any

import pytest

from indexer.errors import FilterError
from indexer.filter import Filter, terms_of
from indexer.generation.documents import select_rows
from indexer.records import AccessLists, Document


def make(url: str = "https://d.test/a/b.html", **changes: Any) -> Document:
    fields: dict[str, Any] = {
        "source": "https://d.test/",
        "title": "T",
        "sections": (),
        "content_hash": "",
        "etag": None,
        "last_modified": None,
        "fetched_at": "",
    }
    return Document(url=url, **{**fields, **changes})


def matches(fields: Mapping[str, object], document: Document) -> bool:
    """What `select_rows` says, on a database of one document with one passage."""
    with closing(store([document], [1])) as connection:
        return select_rows(Filter.parse(fields), connection, 1).count == 1


def store(documents: list[Document], chunks: list[int]) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE documents (id INTEGER PRIMARY KEY, date TEXT, first_row INTEGER, chunks INTEGER)")
    connection.execute("CREATE TABLE terms (term TEXT, document INTEGER, PRIMARY KEY (term, document)) WITHOUT ROWID")
    firsts = accumulate(chunks, initial=0)
    for number, (document, first, count) in enumerate(zip(documents, firsts, chunks, strict=False)):
        connection.execute("INSERT INTO documents VALUES (?, ?, ?, ?)", (number, document.date, first, count))
        connection.executemany("INSERT INTO terms VALUES (?, ?)", [(term, number) for term in terms_of(document)])
    return connection


META = {"team": ("core", "Web"), "año": ("2026",)}
PAGE = make("https://d.test/guide/my%20page?v=1/2", language="en", date="2026-02-28", metadata=META)
BARE = make("file:///srv/my%20docs/%281%29%23.md")


@pytest.mark.parametrize(
    ("document", "fields", "expected"),
    [
        # an address, or a folder above it: it ends where a folder ends, however escapes are spelled
        *((PAGE, {"url_prefix": f"https://d.test{path}"}, True) for path in ("", "/", "/guide", "/guide/my%20page")),
        *((PAGE, {"url_prefix": url}, True) for url in ("HTTPS://D.TEST:443/", f"{PAGE.url}", f"{PAGE.url}#part")),
        *((PAGE, {"url_prefix": f"https://d.test{path}"}, False) for path in ("/guide/my", "/guide/my%20page?v=1")),
        *((PAGE, {"url_prefix": url}, False) for url in ("https://d.test.evil/", "http://d.test/guide")),
        (BARE, {"url_prefix": "file:///srv/my%20docs/(1)%23.md"}, True),
        # a path is the same on every host
        *((PAGE, {"path": path}, True) for path in ("/", "/guide", "guide/", "/guide/my page")),
        *((PAGE, {"path": path}, False) for path in ("/guide/m", "/g")),
        *((BARE, {"path": path}, True) for path in ("/", "/srv", "/srv/my docs/(1)#.md")),
        # the primary subtag
        *((PAGE, {"language": tag}, True) for tag in ("en", "EN", "en-GB", "en_US", ["de", "en"])),
        (PAGE, {"language": "de"}, False),
        (BARE, {"language": "en"}, False),
        # both days are within, and a document without a date never is
        (PAGE, {"date": {"from": "2026-03-01"}}, False),
        (PAGE, {"date": {"to": "2026-02-27"}}, False),
        (PAGE, {"date": {"from": "2026-02-28", "to": "2026-02-28"}}, True),
        (BARE, {"date": {"to": "2026-02-27"}}, False),
        (BARE, {"date": {}}, True),
        # exact, by case too, and all names must match
        (PAGE, {"metadata": {"team": "Web"}}, True),
        (PAGE, {"metadata": {"team": ["x", "core"], "an\u0303o": " 2026 "}}, True),
        (PAGE, {"metadata": {"team": "web"}}, False),
        (PAGE, {"metadata": {"team": "core", "año": "2025"}}, False),
        (PAGE, {"metadata": {"Team": "core"}}, False),
    ],
)
def test_what_a_field_allows(document: Document, fields: dict[str, object], expected: bool) -> None:
    assert matches(fields, document) is expected


def test_an_endless_path_has_few_terms_and_is_found_by_its_whole_address() -> None:
    url = "https://d.test" + "/a" * 900
    assert len(terms_of(make(url))) < 100
    assert matches({"url_prefix": url}, make(url))
    assert matches({"path": "/a/a/a"}, make(url))
    assert not matches({"url_prefix": url[:-2]}, make(url))


def test_a_term_says_one_thing_only() -> None:
    pairs = [("a", "b=c"), ("a=b", "c"), ("", "1:a=b"), ("1:a", "b"), ("a", "b"), ("a\x00b", "c"), ("é", "b=c")]
    terms = [terms_of(make(metadata={name: (value,)}))[-1] for name, value in pairs]
    assert len(set(terms)) == len(pairs)
    long = make(source="s" * 5_000, metadata={"n" * 64: ("ü" * 256, "ü" * 256), "half": ("\ud800",)})
    [digest] = [term for term in terms_of(long) if term.startswith("source")]
    assert digest not in terms_of(make(source=digest.removeprefix("source#")))
    assert digest not in terms_of(make(source=digest.removeprefix("source")))
    assert all(len(term.encode()) < 300 for term in terms_of(long))
    assert len(set(terms_of(long))) == len(terms_of(long))


def test_no_filter_selects_everything_and_order_makes_no_difference() -> None:
    assert not any(map(bool, (Filter(), Filter.parse({}), Filter.parse({"date": {}, "metadata": {}}))))
    with closing(store([make(), make()], [2, 3])) as connection:
        assert select_rows(Filter(), connection, 5).rows().tolist() == [0, 1, 2, 3, 4]
    first = Filter.parse({"language": ["en", "de-CH"], "metadata": {"b": "1", "a": ["y", "x"]}})
    second = Filter.parse({"metadata": {"a": ["x", "y", "x"], "b": ["1"]}, "language": ["DE", "en", "en"]})
    assert first == second
    assert hash(first) == hash(second)


def test_as_dict_is_read_back() -> None:
    fields = {
        "source": ["a", "b"],
        "url_prefix": ["https://d.test/100%2525"],
        "path": ["/x"],
        "language": ["en"],
        "content_type": ["text/html"],
        "date": {"from": "2026-01-01", "to": "2026-12-31"},
        "metadata": {"k": ["v"]},
    }
    assert Filter.parse(fields).as_dict() == fields
    assert Filter().as_dict() == {}


@pytest.mark.parametrize(
    ("fields", "field", "detail"),
    [
        (["en"], "filter", "must be an object"),
        ({"lang": "en"}, "filter.lang", "known fields are: source"),
        ({"a\nb" * 99: "en"}, "filter.a\\nb", "is not a filter field"),
        ({"language": []}, "filter.language", "must be a text"),
        ({"language": ["en", 1]}, "filter.language", "must be a text"),
        ({"language": "english please"}, "filter.language", "must be a language tag"),
        ({"path": " "}, "filter.path", "is empty"),
        ({"path": "x" * 2_001}, "filter.path", "at most 2000"),
        ({"source": [str(i) for i in range(33)]}, "filter.source", "at most 32"),
        ({"source": "\ud800"}, "filter.source", "surrogate"),
        ({"url_prefix": "d.test/a"}, "filter.url_prefix", "with its scheme"),
        ({"date": "2026-01-01"}, "filter.date", "must be an object"),
        ({"date": {"since": "2026-01-01"}}, "filter.date", '"from", "to"'),
        ({"date": {"to": "2026-02-30"}}, "filter.date.to", "must be a day"),
        ({"date": {"to": "２０２６-01-01"}}, "filter.date.to", "must be a day"),
        ({"date": {"from": "2026-02-01", "to": "2026-01-01"}}, "filter.date.from", "later than `to`"),
        ({"metadata": "x"}, "filter.metadata", "must be an object"),
        ({"metadata": {str(i): "x" for i in range(33)}}, "filter.metadata", "at most 32"),
        ({"metadata": {"team": {"x": 1}}}, "filter.metadata.team", "must be a text"),
        ({"metadata": {"": "x"}}, "filter.metadata.", "is empty"),
        ({"metadata": {"a b": "x", "a  b": "y"}}, "filter.metadata.a  b", "more than once"),
    ],
)
def test_what_is_wrong_is_named(fields: object, field: str, detail: str) -> None:
    with pytest.raises(FilterError) as caught:
        Filter.parse(fields)
    assert caught.value.field.startswith(field)
    assert detail in caught.value.detail
    assert "\n" not in str(caught.value)


def test_filters_are_joined_and_access_lists_kept() -> None:
    chance = random.Random(9)
    documents = [
        make(
            f"https://d.test/{chance.choice('ab')}/{number}",
            date=chance.choice(["2025-05-05", "2026-01-01", None]),
            metadata={"team": tuple(chance.sample("xyz", chance.randrange(3)))},
            access=AccessLists(
                chance.choice([None, None, (), ("user:ann",), ("group:red", "user:bob")]),
                chance.choice([None, None, ("group:red",), ("group:blue", "user:ann")]),
            ),
        )
        for number in range(100)
    ]
    parts = [
        Filter.parse({"metadata": {"team": ["x", "y"]}}),
        Filter.parse({"path": "/b", "date": {"from": "2025-12-31"}}),
        Filter.parse({"date": {"to": "2025-12-31"}}),
        Filter(),
        Filter(readers=frozenset({"user:ann"})),
        Filter(readers=frozenset({"group:red", "user:bob"})),
        Filter(readers=frozenset()),
        Filter.any_of([]),
    ]
    with closing(store(documents, [1] * 100)) as connection:

        def rows(wanted: Filter) -> set[int]:
            return set(select_rows(wanted, connection, 100).rows().tolist())

        for first in parts:
            for second in parts:
                either = Filter.any_of([first, second])
                assert either == Filter.any_of([second, first])
                assert rows(either) == rows(first) | rows(second)
                assert rows(first & second) == rows(first) & rows(second)
                assert (first & second).as_dict() == first.as_dict()
                for third in parts:
                    assert rows(either & third) == rows(third & either) == rows(either) & rows(third)
        assert not rows(parts[-1])
        assert all(map(bool, parts[4:]))  # nothing of it may pass for no filter
        for readers in (set(), {"user:ann"}):
            allowed = {n for n, each in enumerate(documents) if all(x is None or readers & set(x) for x in each.access)}
            assert rows(Filter(readers=frozenset(readers))) == allowed != set()
