import pytest

from rag.answer.support import CitationFilter

CASES = [
    ("A partial index [1].", "A partial index [1].", [1]),
    ("It is small [2][1] and [2] fast.", "It is small [2][1] and [2] fast.", [2, 1]),
    ("Nothing says so [4].", "Nothing says so.", []),
    ("Zero [0] and -1 [-1] and many [99999999999999999].", "Zero and -1 [1] and many.", [1]),
    ("Both [1, 3] and [2; 7].", "Both [1][3] and [2].", [1, 3, 2]),
    ("A range [1-3] and [2–9].", "A range [1][2][3] and [2][3].", [1, 2, 3]),
    ("A footnote [^2].", "A footnote [2].", [2]),
    ("[9]", "", []),
    ("Open at the end [1", "Open at the end [1", []),
    ("A box [ ] and [x] and [link](url).", "A box [ ] and [x] and [link](url).", []),
    (
        "In code `a[0]` and\n```\nb[7] = c[1]\n```\nthen [7] [2].",
        "In code `a[0]` and\n```\nb[7] = c[1]\n```\nthen [2].",
        [2],
    ),
    ("An odd ` is forgotten\non the next line [7].", "An odd ` is forgotten\non the next line.", []),
    ("Trailing spaces   ", "Trailing spaces   ", []),
]


@pytest.mark.parametrize(("text", "shown", "cited"), CASES)
def test_whole_and_letter_by_letter(text, shown, cited):
    for pieces in ([text], list(text), [text[:5], text[5:]]):
        filtered = CitationFilter(3)
        assert "".join(map(filtered.feed, pieces)) + filtered.feed("", is_last=True) == shown
        assert filtered.cited == cited


def test_what_cannot_become_a_citation_is_not_held_back():
    filtered = CitationFilter(3)
    assert filtered.feed("see [the manual") == "see [the manual"
    assert filtered.feed(" [1") == ""
    assert filtered.feed("]") == " [1]"
    assert filtered.feed("[" + "1" * 200) == "[" + "1" * 200
