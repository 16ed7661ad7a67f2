"""The words of a query: syntax and synonyms."""

import pytest

from indexer.errors import SynonymsError
from indexer.generation.lexical.analysis import spans
from indexer.generation.lexical.lexical_query import parse_query, read_query
from rag.query.synonyms import parse_synonyms
from tests.linear import check_linear, repeated


@pytest.mark.parametrize(
    ("query", "words", "required", "excluded", "meaning"),
    [
        ('vacuum "dead tuples"', "vacuum", ["dead tuples"], [], 'vacuum "dead tuples"'),
        ("jaguar -car speed", "jaguar speed", [], ["car"], "jaguar speed"),
        ('jaguar -"big cat"', "jaguar", [], ["big cat"], "jaguar"),
        ("well-known -half-baked thing", "well-known thing", [], ["half-baked"], "well-known thing"),
        ('say "x = 5" -why', "say", ["x = 5"], ["why"], 'say "x = 5"'),
        ("R&D - cost -overrun", "R&D - cost", [], ["overrun"], "R&D - cost"),
    ],
)
def test_syntax(query, words, required, excluded, meaning):
    parsed = parse_query(query)
    found = " ".join(parsed.words.split()), list(parsed.required), list(parsed.excluded), parsed.meaning
    assert found == (words, required, excluded, meaning)


@pytest.mark.parametrize(
    "query",
    [
        "how do I create an index?", "rm -rf build", "ls -l", "tar -xzf a.tgz", "gcc -O2 -Wall foo", "find . -name foo",
        'x = "foo"', 'printf("%s", title:x)', '{"title": "b"}', "error: could not connect", "std::vec -size",
        "git log --oneline -graph", "a - b", "-verbose", "between -5 and 10", "title:vacuum cost", "title::new -create",
        "time 12:30", "C++ templates", "text:vacuum* OR +dead -tuples (", "$HOME -path", "a -> b", "[ d e ] -word x",
        "subtitle:x", "x-ray -2", 'an "open quote', "", "\\", '"', "-", "title:", '-""',
    ],
)  # fmt: skip
def test_what_is_not_syntax_stays_words(query):
    parsed = parse_query(query)
    assert (parsed.words, parsed.required, parsed.excluded, parsed.meaning) == (query, (), (), query)


def test_characters_that_nobody_sees_do_not_matter() -> None:
    parsed = parse_query("Schiff\u00adfahrt \u200bمی\u200cخواهم -❤\ufe0f")
    assert parsed.meaning == "Schifffahrt میخواهم -❤"
    assert "\u00ad" not in parsed.words


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("how do I use os.path.join", [("os", "path", "join")]),
        ("std::vector vs node->next", [("std", "vector"), ("node", "next")]),
        ("keep-alive-timeout", [("keep", "aliv", "timeout")]),
        ("a thing that is well-known to everybody here", [("well", "known")]),
        ("--dry-run", []),
        ("end. Begin", []),
    ],
)
def test_words_of_a_name_tell_more_side_by_side(query: str, names: list[tuple[str, ...]]) -> None:
    assert [readings[0] for readings in read_query(query).pairs] == names
    assert read_query("user_by_id").words == (("user_by_id",), ("user",), ("id",))


@pytest.mark.parametrize("unit", ["a.", "a-", "a::", "getUser", "aB ", "A"])
def test_names_are_read_in_linear_time(unit: str) -> None:
    check_linear(lambda text: spans(read_query(text).marked, text), repeated(unit), 1 << 18)


RULES = r"""
# rows have many names
row, tuple, record

pg, postgres => postgresql
autocommit => autocommit, auto commit
data base => database
a\,b, c
"""


@pytest.mark.parametrize(
    ("query", "words", "phrases", "also"),
    [
        ("ROW size", [("row", "tupl", "record"), ("size",)], [], [("ROW", ("tuple", "record"))]),
        ("rows", [("row",)], [], []),  # rules are for words as they are written
        ("pg index", [("postgresql",), ("index",)], [], [("pg", ("postgresql",))]),
        ("postgresql", [("postgresql",)], [], []),  # one way
        ("autocommit", [("autocommit",)], [(("auto", "commit"),)], [("autocommit", ("auto commit",))]),
        ("a Data Base", [("databas",)], [], [("Data Base", ("database",))]),
        ('"row"', [], [], []),  # quoted: word for word
        ("base data", [("base",), ("data",)], [], []),
    ],
)
def test_rules(query, words, phrases, also):
    found = read_query(query, synonyms=parse_synonyms(RULES, "rules.txt"))
    assert (list(found.words), list(found.synonyms)) == (words, phrases)
    assert [(one.typed, one.searched) for one in found.also] == also
    assert all(one.reason == "synonym" for one in found.also)


@pytest.mark.parametrize("line", ["alone", "a => b => c", "a =>", "a,, b", "=> b", "?, !", "a, b c d e f g h i j"])
def test_errors_name_file_and_line(line):
    with pytest.raises(SynonymsError, match=r"^rules\.txt line 2: "):
        parse_synonyms(f"a, b\n{line}\n", "rules.txt")


@pytest.mark.parametrize(
    "mark", ["\u0301", "\u0301\u0301", "\u064b", "\u200d", "\ufe0f", "\u0e33", "\u0345x", "\ufdfa"]
)
def test_marks_that_stand_alone_are_read_in_every_language(mark: str) -> None:
    for languages in ({"en": 1, "de": 1}, {"en": 1, "fr": 1, "ar": 1, "el": 1, "ta": 1}):
        assert "" not in {term for terms in read_query(f"{mark} {mark} a{mark}", languages).words for term in terms}
