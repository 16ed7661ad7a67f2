"""What of a query is syntax, and what only looks like it."""

import pytest

from indexer.generation.lexical.query_words import parse_query


@pytest.mark.parametrize(
    ("query", "words", "required", "excluded", "meaning"),
    [
        ('vacuum "dead tuples"', "vacuum", ["dead tuples"], [], 'vacuum "dead tuples"'),
        ("jaguar -car speed", "jaguar speed", [], ["car"], "jaguar speed"),
        ('jaguar -"big cat"', "jaguar", [], ["big cat"], "jaguar"),
        ("well-known -half-baked thing", "well-known thing", [], ["half-baked"], "well-known thing"),
        ("title:vacuum cost", "vacuum cost vacuum", ["title:vacuum"], [], "vacuum cost"),
        ('Heading:"partial index"', "partial index", ["section:partial index"], [], '"partial index"'),
        ("-title:vacuum tuples", "tuples", [], ["title:vacuum"], "tuples"),
        ("url:https://x.org/?a=b docs", "docs", ["url:https://x.org/?a=b"], [], "docs"),
        ("body:x", "x x", ["body:x"], [], "x"),
        ('say "x = 5" -why', "say", ["x = 5"], ["why"], 'say "x = 5"'),
        ("R&D - cost -overrun", "R&D - cost", [], ["overrun"], "R&D - cost"),
    ],
)
def test_syntax(query, words, required, excluded, meaning):
    parsed = parse_query(query)
    told = [[f"{part.field}:{part.text}" if part.field else part.text for part in parts] for parts in parsed[1:3]]
    assert (" ".join(parsed.words.split()), *told, parsed.meaning) == (words, required, excluded, meaning)


@pytest.mark.parametrize(
    "query",
    [
        "how do I create an index?", "rm -rf build", "ls -l", "tar -xzf a.tgz", "gcc -O2 -Wall foo", "find . -name foo",
        'x = "foo"', 'printf("%s", title:x)', '{"title": "b"}', "error: could not connect", "std::vec -size",
        "git log --oneline -graph", "a - b", "-verbose", "between -5 and 10", "title: vacuum", "title::new -create",
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
