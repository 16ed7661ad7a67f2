"""Hold names, docstrings and comments to patterns that readers take in at once.

The limits are shares of the whole product, so one exception fails nothing; a habit does. A failure lists the newest
places first by file. Patterns cannot judge English: read the sentence aloud too.
"""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("embedder", "indexer", "rag", "web", "scripts")
RELATIVE = r"(?:what|whatever|who|whose|whom|which|where|those|that|how|why|when|whether)\b"
PREPOSITION = (
    r"(?:of|by|as|which|that|in|from|to|for|at|and|but|or|if|where|when|with|without|so|than|until|on|beyond|above|below|"
    r"between|after|before|because|whose|who)\b"
)
# participles and fillers: they say how a thing came about, and not which thing it is
VAGUE_NAMES = frozenset(
    "found told asked given kept own said wanted known made held seen most part parts then others left taken chosen "
    "meant named stated whole here there so_far beside anew who what".split()
)


class Rule(NamedTuple):
    """A habit that makes text hard to read."""

    subject: str  # docstrings, trailing comments or names
    limit: float  # percent of them
    advice: str


RULES = {
    "opening": Rule("docstring", 1.0, "Begin a docstring with a verb or a noun: the reader looks for what it does."),
    "clause": Rule("docstring", 2.0, 'Name the thing instead of "what is …": a clause has to be resolved, a noun not.'),
    "fragment": Rule("comment", 3.0, "A comment behind a line is a unit or a reason: put the noun into the name."),
    "name": Rule("name", 0.5, "Name a binding by a noun, such as `matches` or `response`, and not by a participle."),
}


class Place(NamedTuple):
    """A text of the product."""

    where: str  # path and line
    text: str


@cache
def places() -> dict[str, list[Place]]:
    """Return the docstrings, trailing comments, names and public classes of the product."""
    kinds: dict[str, list[Place]] = defaultdict(list)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            for kind, line, text in [*_of_syntax(ast.parse(source)), *_of_comments(source)]:
                kinds[kind].append(Place(f"{path.relative_to(ROOT)}:{line}", text))
    return kinds


def _of_syntax(tree: ast.AST) -> Iterator[tuple[str, int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            docstring = ast.get_docstring(node)
            if docstring:
                yield "docstring", node.body[0].lineno, docstring.split("\n\n")[0]
        if isinstance(node, ast.ClassDef):
            yield "class", node.lineno, node.name
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield "name", node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield "name", node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield "name", node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield "name", node.lineno, node.attr


def _of_comments(source: str) -> Iterator[tuple[str, int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = token.string.lstrip("#: ")
        is_trailing = token.type == tokenize.COMMENT and token.line[: token.start[1]].strip() != ""
        if is_trailing and text and not text.startswith(("noqa", "type:", "pragma", "fmt:")):
            yield "comment", token.start[0], text


def _breaks(rule: str, text: str) -> bool:
    if rule == "opening":
        return re.match(RELATIVE, text, re.IGNORECASE) is not None
    if rule == "clause":
        pattern = r"\b(?:what|whatever|those (?:who|that)|all that|nothing (?:but|that)|one that|who does)\b"
        return re.search(pattern, text, re.IGNORECASE) is not None
    if rule == "fragment":
        return re.match(PREPOSITION, text, re.IGNORECASE) is not None
    return text.strip("_").lower() in VAGUE_NAMES


@pytest.mark.parametrize("rule", RULES)
def test_habits_that_make_text_hard_to_read_are_rare(rule):
    subject, limit, advice = RULES[rule]
    wrong = [place for place in places()[subject] if _breaks(rule, place.text)]
    share = 100 * len(wrong) / len(places()[subject])
    listed = "\n".join(f"{where}: {text[:100]}" for where, text in wrong)
    assert share <= limit, f"{share:.1f} % of {subject}s, at most {limit} %. {advice}\n{listed}"


def test_a_class_name_is_one_class():
    classes = defaultdict(list)
    for where, name in places()["class"]:
        if not name.startswith("_"):
            classes[name].append(where)
    twice = {name: where for name, where in classes.items() if len(where) > 1}
    assert twice == {}, "A reader who searches for a class has to find one: say which in the name."


@pytest.mark.parametrize(
    ("rule", "bad", "good"),
    [
        ("opening", "What a page says of itself.", "Return the metadata of a page."),
        ("clause", "Return what is left of a page.", "Return the main text of a page."),
        ("fragment", "of a query's words", "seconds"),
        ("name", "_found", "matches"),
    ],
)
def test_each_rule_tells_the_two_apart(rule, bad, good):
    assert _breaks(rule, bad)
    assert not _breaks(rule, good)
