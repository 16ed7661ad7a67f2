"""The options of a search, and filters as parameters of an address."""

from typing import Any

import pytest
from msgspec.structs import replace

from indexer.generation.generation import Generation
from rag.decoding import check
from rag.errors import FieldError
from rag.query.request import (
    MAX_K,
    MAX_OFFSET,
    MAX_QUERY_CHARS,
    Filter,
    SearchRequest,
    effective_filter,
    fields_of,
    key_of,
    names_of,
    parameters_of,
)

PARAMETERS = {"language": ["de", "en"], "from": ["2026-01-01"], "to": ["2026-02-01"], "meta.team": ["a", "b"]}


def test_a_filter_is_written_as_parameters_and_read_back() -> None:
    only = Filter.parse(fields_of(PARAMETERS))
    assert (only.language, only.date_from, only.date_to) == (("de", "en"), "2026-01-01", "2026-02-01")
    assert parameters_of(only) == [(name, value) for name, values in PARAMETERS.items() for value in values]
    assert parameters_of(None) == []
    assert fields_of({"from": ["2025-01-01", "2026-01-01"]}) == {"date": {"from": "2026-01-01"}}
    assert fields_of({"color": ["a"]}) == {"color": ["a"]}


@pytest.mark.parametrize(
    ("field", "key"),
    [
        ("filter.language", "language"), ("filter.date.from", "from"), ("filter.metadata.team", "meta.team"),
        ("filter.metadata.metadata.x", "meta.metadata.x"), ("query", "query"),
    ],
)  # fmt: skip
def test_the_name_of_a_field_in_an_address(field: str, key: str) -> None:
    assert key_of(field) == key


@pytest.mark.parametrize(
    ("collections", "names"),
    [("a, b,a", ["a", "b"]), (["a", "a "], ["a"]), ("*", None), (["a", "*"], None), ("a,", ["a", ""])],
)
def test_names_of_collections(collections: Any, names: list[str] | None) -> None:
    assert names_of(collections) == names


@pytest.mark.parametrize(
    ("options", "is_valid"),
    [
        ({"k": 1}, True), ({"k": 0}, False), ({"k": MAX_K}, True), ({"k": MAX_K + 1}, False),
        ({"offset": 0}, True), ({"offset": -1}, False), ({"offset": MAX_OFFSET}, True),
        ({"offset": MAX_OFFSET + 1}, False),
        ({"per_document": 0}, True), ({"per_document": -1}, False), ({"per_document": MAX_K + 1}, False),
        ({"query": "a"}, True), ({"query": ""}, False), ({"query": " "}, False),
        ({"query": "a" * MAX_QUERY_CHARS}, True),
        ({"query": "a" * (MAX_QUERY_CHARS + 1)}, False), ({"collection": "a"}, True), ({"collection": ""}, False),
        ({"collections": ["a"] * 100}, True), ({"collections": ["a"] * 101}, False), ({"collections": []}, False),
        ({"collections": ["a"]}, True), ({"mode": "fast"}, False),
    ],
)  # fmt: skip
def test_limits_of_options(options: dict[str, Any], is_valid: bool) -> None:
    request = replace(SearchRequest("vacuum"), **options)
    if is_valid:
        check(request)
    else:
        with pytest.raises(FieldError, match=next(iter(options))):
            check(request)


def test_options_that_are_left_to_the_server() -> None:
    request = SearchRequest("-old new", filter={}, per_document=0)
    assert (request.parsed_filter, request.meaning) == (None, "new")
    assert SearchRequest("a", filter={"language": "en"}).parsed_filter == Filter(language=("en",))
    assert SearchRequest("a", filter=Filter(language=("en",))).parsed_filter == Filter(language=("en",))
    assert SearchRequest("a").options() == {
        "k": 10, "offset": 0, "mode": "hybrid", "collection": "default", "facets": False, "rerank": False,
        "links": False, "explain": False,
    }  # fmt: skip
    assert request.options()["per_document"] == 0


def test_readers_matter_only_where_documents_have_access_lists(site: Any) -> None:
    site.build()
    manifest = Generation.open(site.index).manifest
    readers, language = Filter(readers=frozenset({"a"})), Filter(language=("en",))
    both = Filter(language=("en",), readers=frozenset({"a"}))
    assert not manifest.is_restricted
    effective = [effective_filter(only, manifest) for only in (None, readers, language, both)]
    assert effective == [None, None, language, language]
