from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag import events
from rag.events import Event, EventDecoder, event_of

SENT = [event_of("hits", {"hits": ["a\nb", "ü \u2028 ]"]}), event_of("token", {"text": ""}), Event("done", "[DONE]")]


@given(st.lists(st.integers(0, 200), max_size=6))
def test_what_is_written_is_read_in_whatever_pieces(cuts):
    text = b": still there\n\n".join(event.encode() for event in SENT).decode()
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    decoder = EventDecoder()
    pieces = [text[start:end] for start, end in pairwise(places)]
    assert [event for piece in pieces for event in decoder.feed(piece)] == SENT


def test_lines_of_other_servers():
    decoder = EventDecoder()
    assert list(decoder.feed("data:one\r\ndata: two\r\nid: 7\r\nretry: 3\r\n\r\ndata: cut")) == [
        Event("message", "one\ntwo")
    ]
    assert list(decoder.feed(" here\n\n")) == [Event("message", "cut here")]


def test_an_event_without_end(monkeypatch):
    monkeypatch.setattr(events, "_MOST_CHARACTERS", 1000)
    decoder = EventDecoder()
    assert list(decoder.feed("data: " + "x" * 990)) == []
    with pytest.raises(ValueError, match="more than 1,000 characters"):
        list(decoder.feed("x" * 10))
