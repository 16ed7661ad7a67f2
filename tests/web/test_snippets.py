import pytest

from web.snippets import SNIPPET_CHARS, make_section, make_snippet, mark, merge_spans


def test_short_passage_is_shown_whole() -> None:
    assert make_snippet("A partial index.", [(2, 9)]) == "A <mark>partial</mark> index."


def test_long_passage_is_cut_around_the_match() -> None:
    text = "Filler words go on. " * 60 + "A partial index is here. " + "More filler follows. " * 60
    at = text.index("partial")
    snippet = make_snippet(text, [(at, at + 7)])
    assert snippet.startswith("… A <mark>partial</mark> index is here.")
    assert snippet.endswith(" …")
    assert len(snippet) < SNIPPET_CHARS + 60


def test_the_richest_run_of_matches_wins() -> None:
    text = "An index. " + "Nothing of note. " * 60 + "A partial index on fsync. " + "Nothing of note. " * 60
    spans = [(text.index(word), text.index(word) + len(word)) for word in ("index", "partial", "fsync")]
    later = text.index("index", 20)
    snippet = make_snippet(text, [*spans, (later, later + 5)])
    assert "<mark>partial</mark> <mark>index</mark> on <mark>fsync</mark>" in snippet


def test_without_matches_the_beginning_is_shown() -> None:
    snippet = make_snippet("word " * 200, [])
    assert snippet.startswith("word word")
    assert snippet.endswith("word …")


def test_a_sentence_is_marked_only_where_no_word_is() -> None:
    text = "Filler words go on. " * 60 + "Here & now it is said. " + "More filler follows. " * 60
    span = (text.index("Here"), text.index(" More"))
    assert make_snippet(text, [], span).startswith('… <mark class="near">Here &amp; now it is said.</m')
    assert "near" not in make_snippet(text, [(0, 6)], span)
    assert make_snippet("Short one.", [], (6, 400)) == 'Short <mark class="near">one.</mark>'


def test_a_section_sets_its_passage_off() -> None:
    section = "Before <b>.\nA partial index.\nAfter."
    assert make_section(section, "A partial index. ", [(2, 9)]) == (
        'Before &lt;b&gt;.\n<span class="passage">A <mark>partial</mark> index.</span>\nAfter.'
    )
    assert make_section("A partial index.", "A partial index.", [(2, 9)]) == "A <mark>partial</mark> index."
    assert make_section("Something <else>.", "A partial index.", [(2, 9)]) == "Something &lt;else&gt;."


def test_text_without_spaces_is_cut_anyway() -> None:
    snippet = make_snippet("語" * 2000, [(1500, 1502)])
    assert "<mark>語語</mark>" in snippet
    assert len(snippet) < SNIPPET_CHARS + 60


@pytest.mark.parametrize("length", [0, 1, 319, 320, 344, 345, 346, 700])
def test_every_length_and_place_of_a_match_is_cut_safely(length: int) -> None:
    text = ("ab cd. " * 101)[:length]
    for start in range(0, length, 37):
        snippet = make_snippet(text, [(start, start + 2)])
        assert snippet.count("<mark>") == snippet.count("</mark>")


def test_everything_is_escaped() -> None:
    text = '<script>alert("x")</script> & <img src=x onerror=alert(1)>'
    assert mark(text, [(0, 8)], 0, len(text)) == (
        "<mark>&lt;script&gt;</mark>alert(&#34;x&#34;)&lt;/script&gt; &amp; &lt;img src=x onerror=alert(1)&gt;"
    )


def test_spans_are_sorted_cut_and_joined() -> None:
    assert merge_spans([(8, 20), (0, 3), (2, 5), (5, 6), (9, 9), (-4, 1), (30, 40)], 10) == [(0, 6), (8, 10)]
