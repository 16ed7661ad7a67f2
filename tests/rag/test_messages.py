"""What is sent: the structs of the REST API, server-sent events, and the word of a long step."""

import os
import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag import events
from rag.decoding import decode
from rag.errors import FieldError
from rag.events import Event, EventDecoder, event_of
from rag.messages import EmbeddingRequest, Exchange, Push, SearchBatch
from rag.query.request import SearchRequest

SENT = [event_of("hits", {"hits": ["a\nb", "ü \u2028 ]"]}), event_of("token", {"text": ""}), Event("done", "[DONE]")]
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
        (
            SearchRequest,
            {"query": " \u2028"},
            "query",
            "query must be text of 1 to 10000 characters with something to read in it.",
        ),
        (SearchRequest, {"query": "a" * 10_001}, "query", "query is too long: at most 10000 characters"),
        (SearchRequest, {"query": "a", "mode": "x"}, "mode", "mode must be one of: dense, hybrid, lexical."),
        (SearchRequest, {"query": "a", "facets": 1}, "facets", "facets must be true or false."),
        (SearchRequest, {"query": "a", "b\n": None}, "b\n", "'b\\n' is not a field of this; known fields are: query, "),
        (SearchBatch, {"queries": []}, "queries", "queries must be a list of 1 to 32 items."),
        (EmbeddingRequest, {"input": [""]}, "input[0]", "input[0]: Expected `str` of length >= 1."),
        (EmbeddingRequest, {"input": 3}, "input", "input must be text of 1 to 100000 characters or a list"),
        (Exchange, {"question": "a"}, "answer", "answer is missing."),
        (Push, {"url": "https://a.example/", "access": {"x": 1}}, "access.x", "'access.x' is not a known field."),
        (Push, {"url": "file:///a"}, "url", "url must be text of 1 to 2000 characters that matches the pattern ^[Hh]"),
        (Push, {"url": "https://a.example/", "metadata": {"a": 3}}, "metadata", "metadata: Expected `str | a"),
    ],
)
def test_errors_name_the_field_and_say_what_it_must_be(kind, fields, field, words) -> None:
    with pytest.raises(FieldError) as caught:
        decode(fields, kind, "this")
    assert caught.value.field == field
    assert str(caught.value).startswith(words)


@given(st.lists(st.integers(0, 200), max_size=6))
def test_events_are_read_as_they_were_written_in_whatever_pieces(cuts) -> None:
    text = b": still there\n\n".join(event.encode() for event in SENT).decode()
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    decoder = EventDecoder()
    pieces = [text[start:end] for start, end in pairwise(places)]
    assert [event for piece in pieces for event in decoder.feed(piece)] == SENT


def test_events_of_other_servers_and_one_without_end(monkeypatch) -> None:
    decoder = EventDecoder()
    assert list(decoder.feed("data:one\r\n:\r\ndata: two\r\nid: 7\r\nretry: 3\r\n\r\ndata: cut")) == [
        Event("message", "one\ntwo")
    ]
    assert list(decoder.feed(" here\n\n")) == [Event("message", "cut here")]
    monkeypatch.setattr(events, "_MOST_CHARACTERS", 1000)
    assert list(decoder.feed("data: " + "x" * 990)) == []
    with pytest.raises(ValueError, match="more than 1,000 characters"):
        list(decoder.feed("x" * 10))
