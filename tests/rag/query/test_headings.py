"""Which headings of an index are offered as questions."""

import pytest

from rag.query.headings import OFFERED, sample_headings, worth_asking
from rag.query.retriever import Retriever
from tests.dummy import DummyEmbedder


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        ("11.8. Partial Indexes in Practice", "Partial Indexes in Practice"),
        ("Chapter 3. Installing the package", "Installing the package"),
        ("On the command line", "On the command line"),
        ("See Also", None),
        ("max_connections (integer)", None),
        ("43.10.2.", None),
        ("It ends in a full stop.", None),
        ("A heading of so many words that nobody would ever want to press it here", None),
        ("Calling it from Python", None),
    ],
)
def test_questions_come_before_phrases_and_what_says_too_little_is_not_offered(name: str, offered: str | None) -> None:
    questions = {"Why is the first start slow?", "How to restore a single file"}
    found = worth_asking([("a", name), *((question, question) for question in questions)])
    assert set(found[:2]) == questions
    assert found[2:] == ([offered] if offered else [])


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
