"""Which headings of an index are offered as questions."""

import pytest

from rag.query.headings import OFFERED, sample_headings, worth_asking
from rag.query.retriever import Retriever
from tests.dummy import DummyEmbedder


def test_questions_come_first_then_tasks_then_phrases() -> None:
    ranks = [
        ("How do I start the server", "How to restore a single file", "Who answers for an error?"),
        ("Chapter 3. Installing the package", "Read the sources again"),
        ("11.8. Partial Indexes in Practice",),
    ]
    names = [name for rank in ranks for name in rank]
    found = worth_asking((f"{at}", name) for at, name in enumerate(reversed(names)))
    assert set(found[:3]) == {"How do I start the server?", *ranks[0][1:]}
    assert set(found[3:5]) == {"Installing the package", "Read the sources again"}
    assert found[5:] == ["Partial Indexes in Practice"]


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        ("Description", False),
        ("See Also", False),
        ("max_connections (integer)", False),
        ("43.10.2.", False),
        ("std::vec", False),
        ("It ends in a full stop.", False),
        ("A heading of so many words that nobody would ever want to press it here", False),
        ("What all commands share", True),
        ("On the command line", True),
        ("Calling it from Python", False),
    ],
)
def test_what_says_too_little_is_not_offered_and_what_is_no_question_has_no_mark(name: str, offered: bool) -> None:
    assert worth_asking([("a", name)]) == [name] * offered
    assert worth_asking([("a", name), ("b", "Why is the first start slow?")])[0] == "Why is the first start slow?"


def test_documents_take_turns_and_what_several_have_is_not_offered() -> None:
    names = [("faq", f"Why is thing {'abcdefghijklmnop'[at]} like that?") for at in range(16)]
    names += [("a", "Reporting bugs to us"), ("b", "Reporting Bugs to Us")]
    found = worth_asking([*names, ("guide", "Installing the package"), ("notes", "Partial indexes in practice")])
    assert found[0].startswith("Why is")
    assert found[1:3] == ["Installing the package", "Partial indexes in practice"]
    assert len(found) == OFFERED
    assert not any("eporting" in text for text in found)


def test_they_are_taken_from_all_over_the_index(site) -> None:
    for number, name in enumerate("alpha beta gamma delta epsilon zeta eta theta iota".split()):
        (site.source / f"{number}.md").write_text(f"# About {name} in detail\n\nWords of {name}.\n", encoding="utf-8")
    site.build()
    retriever = Retriever.open(site.index, DummyEmbedder())
    found = sample_headings(retriever.generation)
    assert {"About alpha in detail", "About iota in detail"} <= set(found)
    assert retriever.headings == found
