from dataclasses import replace

import pytest

from indexer.cut.chunking import join_short
from indexer.records import Section


def length(text: str) -> int:
    return len(text.split())


def words(count: int) -> str:
    return " ".join(f"w{i}" for i in range(count))


def section(path: str, text: str) -> Section:
    return Section(tuple(path.split("/")) if path else (), path.lower(), text)


@pytest.mark.parametrize(
    ("sections", "joined"),
    [
        ([("A/B", "one"), ("A/C", "two")], [("A", "B\n\none\n\nC\n\ntwo")]),  # of one parent
        ([("B", "one"), ("C", "two")], [("", "B\n\none\n\nC\n\ntwo")]),  # of one document
        ([("A/B/C", "one"), ("A", "two")], [("A", "B › C\n\none\n\ntwo")]),  # one within the other
        ([("A/B", "one"), ("A/B", "two")], [("A/B", "one\n\ntwo")]),
        ([("A/b()", "b() does"), ("A/c()", "c() does")], [("A", "b() does\n\nc() does")]),  # terms stand in the text
        ([("A/B/C", "one"), ("A/D", "two")], [("A/B/C", "one"), ("A/D", "two")]),  # of different parents
        ([("A/B", "one"), ("C/D", "two")], [("A/B", "one"), ("C/D", "two")]),
        ([("A/B", words(99)), ("A/C", "end")], [("A/B", f"{words(99)}\n\nC\n\nend")]),  # no room
        ([("A/B/C", words(99)), ("A/D", "end")], [("A/B/C", f"{words(99)}\n\nD\n\nend")]),  # after what B holds
        ([("A/B", words(99)), ("C/D", "end")], [("A/B", words(99)), ("C/D", "end")]),
        ([("A/B", words(30)), ("A/C", words(30))], [("A/B", words(30)), ("A/C", words(30))]),  # long enough
        ([("A", "lead"), ("A/B", "one"), ("A/C", "two")], [("A", "lead\n\nB\n\none\n\nC\n\ntwo")]),  # above its heading
        ([("A/B", words(30)), ("A/C", "end")], [("A", f"B\n\n{words(30)}\n\nC\n\nend")]),
    ],
)
def test_what_is_joined(sections: list[tuple[str, str]], joined: list[tuple[str, str]]) -> None:
    found = join_short([section(*each) for each in sections], 100, length)
    assert [("/".join(each.path), each.text) for each in found] == joined
    assert found[0].anchor == sections[0][0].lower(), "a link leads to where the text begins"


def test_a_lead_in_joins_the_subsection_it_introduces_however_long() -> None:
    lead, within = section("A", "For more see elsewhere."), section("A/B", words(200))
    assert join_short([lead, within], 100, length) == [
        replace(section("A/B", f"{lead.text}\n\n{within.text}"), anchor="a", marks=((len(lead.text) + 2, "a/b"),))
    ]
    long = section("A", words(60))
    assert join_short([long, within], 100, length) == [long, within]
