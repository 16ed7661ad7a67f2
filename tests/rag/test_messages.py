"""The structs of the REST API."""

import os
import subprocess
import sys

import pytest

from rag.decoding import decode
from rag.errors import FieldError
from rag.messages import EmbeddingRequest, Exchange, Push, SearchBatch
from rag.query.request import SearchRequest

DESCRIBE_ALL = """
import msgspec, rag.messages
found = [kind for kind in vars(rag.messages).values() if isinstance(kind, msgspec.StructMeta)]
assert len(msgspec.json.schema_components(found)[1]) > 40
"""


def test_no_struct_corrupts_memory() -> None:
    """Unions of a text with a pattern and a list do, in msgspec 0.20 to 0.22."""
    environment = os.environ | {"PYTHONMALLOC": "debug"}
    done = subprocess.run([sys.executable, "-c", DESCRIBE_ALL], env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[:1000]


@pytest.mark.parametrize(
    ("kind", "fields", "field", "words"),
    [
        (SearchRequest, {}, "query", "query is missing."),
        (SearchRequest, {"query": None}, "query", "query is missing."),
        (
            SearchRequest,
            {"query": " \u2028"},
            "query",
            "query must be text of 1 to 10000 characters with something to read in it.",
        ),
        (SearchRequest, {"query": "a", "k": True}, "k", "k must be a whole number from 1 to 100."),
        (SearchRequest, {"query": "a", "offset": -1}, "offset", "offset must be a whole number from 0 to 1000."),
        (SearchRequest, {"query": "a", "diversity": 2}, "diversity", "diversity must be a number from 0 to 1."),
        (SearchRequest, {"query": "a", "mode": "x"}, "mode", "mode must be one of: dense, hybrid, lexical."),
        (SearchRequest, {"query": "a", "facets": 1}, "facets", "facets must be true or false."),
        (SearchRequest, {"query": "a", "b\n": None}, "b\n", "'b\\n' is not a field of this; known fields are: query, "),
        (SearchBatch, {"queries": []}, "queries", "queries must be a list of 1 to 32 items."),
        (EmbeddingRequest, {"input": [""]}, "input[0]", "input[0] must be text of 1 to 100000 characters."),
        (
            EmbeddingRequest,
            {"input": 3},
            "input",
            "input must be text of 1 to 100000 characters or a list",
        ),
        (Exchange, {"question": "a"}, "answer", "answer is missing."),
        (Push, {"url": "https://a.example/", "access": []}, "access", "access must be an object."),
        (Push, {"url": "https://a.example/", "access": {"x": 1}}, "access.x", "'access.x' is not a known field."),
        (Push, {"url": "file:///a"}, "url", "url must be text of 1 to 2000 characters that matches the pattern ^[Hh]"),
        (Push, {"url": "https://a.example/", "metadata": {"a": 3}}, "metadata", "metadata must be text of"),
    ],
)
def test_errors_name_the_field_and_say_what_it_must_be(kind, fields, field, words) -> None:
    with pytest.raises(FieldError) as caught:
        decode(fields, kind, "this")
    assert caught.value.field == field
    assert str(caught.value).startswith(words)
