"""No regular expression of the product takes four times as long for twice as much, whatever it is given.

Each is run over repetitions of characters, and of what its own parts match, with an end that fails. Processor time
counts, and only from a few milliseconds on.
"""

import ast
import importlib
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from pkgutil import walk_packages
from re import _constants as kinds  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import FrameType
from typing import Any

import pytest

from indexer.read.markup import blocks
from indexer.read.office import sheets
from rag import access
from rag.adapters.passages import line_of

ROOT = Path(__file__).resolve().parents[2]
LENGTH = 4_000  # characters
TINY = 0.02  # seconds; what takes less is not looked at
MOST = 2.3  # times as long for twice as much
SIGNS = " \n\t\raA0_-.,:;!?/\\|<>()[]{}\"'`=#*&%~+@$^é中\u00a0"
FAILING = ("", "\x01", "\n\x01")  # ends
EXEMPT = {  # why they may take longer
    **{f"indexer.read.markup.markdown.{name}": "200 characters of a pair" for name in ("_PAIR", "_PAIRS")},
    "indexer.read.access_list._TABLE_PREFIX": "100 characters before a key",
    "indexer.read.office.sheets._TOKEN": "255 characters of a format",
    "indexer.sources.bucket._BODY": "a bounded part of an error",
    "indexer.sources.bucket._REQUEST": "a bounded part of an error",
}


def run(pattern: re.Pattern[Any], methods: set[str], text: Any) -> None:
    if "search" in methods:
        for _ in pattern.finditer(text):
            pass
    if "match" in methods:
        pattern.match(text)
    if "fullmatch" in methods:
        pattern.fullmatch(text)


def member(items: list[tuple[Any, Any]]) -> list[str]:
    """Return some characters of a class."""
    if items[0][0] is kinds.NEGATE:
        found = re.compile("[" + re.escape("".join(c for kind in items[1:] for c in member([kind]))) + "]")
        return [sign for sign in "a 0<\n-" if not found.match(sign)][:3] or ["é"]
    characters: list[str] = []
    for kind, value in items:
        if kind is kinds.LITERAL:
            characters.append(chr(value))
        elif kind is kinds.RANGE:
            characters.append(chr(value[0]))
        elif kind is kinds.CATEGORY:
            name = str(value)
            inside = "0" if "DIGIT" in name else " \n" if "SPACE" in name else "a0_"
            characters += (
                ["<", " "] if "NOT" in name and "SPACE" not in name else ["a", "<"] if "NOT" in name else [*inside]
            )
    return characters[:6]


def samples(tree: Any) -> list[str]:
    """Return a few texts that a part of a pattern matches, as far as that is easily found."""
    found = [""]
    for kind, value in tree:
        if kind is kinds.LITERAL:
            more = [chr(value)]
        elif kind is kinds.NOT_LITERAL:
            more = [next(sign for sign in "a 0" if sign != chr(value))]
        elif kind is kinds.ANY:
            more = ["a", " "]
        elif kind is kinds.IN:
            more = member(value)
        elif kind is kinds.BRANCH:
            more = [text for branch in value[1] for text in samples(branch)[:2]][:12]
        elif kind is kinds.SUBPATTERN:
            more = samples(value[3])
        elif kind is kinds.ATOMIC_GROUP:
            more = samples(value)
        elif kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT, kinds.POSSESSIVE_REPEAT):
            more = [text * max(1, min(value[0], 50)) for text in samples(value[2])] + ([""] if not value[0] else [])
        else:
            more = [""]
        found = [before + text for text in more for before in found][:12]
    return found


def repeats(tree: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """Yield what may be repeated often, and a text that comes before it."""
    for place, (kind, value) in enumerate(tree):
        if kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT, kinds.POSSESSIVE_REPEAT):
            start = before + samples(tree[:place])[0]
            if value[1] > 20:
                yield from ((start, text) for text in samples(value[2]) if text)
            yield from repeats(value[2], start)
        elif kind is kinds.BRANCH:
            for branch in value[1]:
                yield from repeats(branch, before + samples(tree[:place])[0])
        elif kind is kinds.SUBPATTERN:
            yield from repeats(value[3], before + samples(tree[:place])[0])
        elif kind is kinds.ATOMIC_GROUP:
            yield from repeats(value, before + samples(tree[:place])[0])
        elif kind in (kinds.ASSERT, kinds.ASSERT_NOT):
            yield from repeats(value[1], before + samples(tree[:place])[0])


def attacks(pattern: re.Pattern[Any]) -> list[Callable[[int], str]]:
    """Return functions that make a text of a length."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = parser.parse(source, pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags)
    units = {("", sign) for sign in SIGNS} | {("", text) for text in samples(tree) if text}
    for before, text in repeats(tree):
        units |= {(before, text), ("", before + text), ("", f"{before} {text}"), ("", before or text)}

    def texts(before: str, unit: str, end: str) -> Callable[[int], str]:
        return lambda length: before + unit * (length // len(unit)) + end

    return [texts(before, unit, end) for before, unit in sorted(units) for end in FAILING]


class TooLong(Exception):
    pass


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def seconds(pattern: re.Pattern[Any], methods: set[str], text: Any, times: int = 1) -> float:
    took = []
    for _ in range(times):
        begin = time.process_time()
        run(pattern, methods, text)
        took.append(time.process_time() - begin)
    return min(took)


def fault(pattern: re.Pattern[Any], methods: set[str]) -> str:
    """Return the attack that takes more than it may, and how long; empty if there is none."""
    for attack in attacks(pattern):
        once, twice = (
            text if isinstance(pattern.pattern, str) else text.encode("latin-1", "replace")
            for text in (attack(LENGTH), attack(2 * LENGTH))
        )
        try:
            with limited(2):
                if seconds(pattern, methods, twice) < TINY:
                    continue
                for repeats in (3, 9, 27):  # on a busy machine a short measurement may be off
                    took, longer = seconds(pattern, methods, once, repeats), seconds(pattern, methods, twice, repeats)
                    if longer < TINY or longer <= MOST * took:
                        break
        except TooLong:
            return f"{once[:40]!r}: more than 2 s"
        if longer >= TINY and longer > MOST * took:
            return f"{once[:40]!r}…{once[-3:]!r}: {took:.4f} s, {longer:.4f} s"
    return ""


def modules(package: str) -> Iterator[tuple[str, Any, ast.Module]]:
    path = importlib.import_module(package).__path__
    for found in walk_packages(path, f"{package}."):
        module = importlib.import_module(found.name)
        yield found.name, module, ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))


def patterns(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | list | frozenset):
        for item in value:
            yield from patterns(item)
    elif isinstance(value, dict):
        yield from patterns([*value, *value.values()])


USES = dict.fromkeys(("search", "finditer", "findall", "sub", "subn", "split"), "search")
USES |= {"match": "match", "fullmatch": "fullmatch"}


def uses(trees: list[ast.Module]) -> dict[str, set[str]]:
    """Return how patterns are used, by the name of the variable."""
    found: dict[str, set[str]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in USES:
                name = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
                found.setdefault(name, set()).add(USES[node.attr])
    return found


def inline(tree: ast.Module) -> Iterator[tuple[str, set[str], re.Pattern[Any]]]:
    """Yield the patterns of calls such as `re.sub("a+", …)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            is_re = isinstance(node.func.value, ast.Name) and node.func.value.id == "re"
            if is_re and node.func.attr in USES and isinstance(node.args[0], ast.Constant):
                pattern = node.args[0].value
                yield f"re.{node.func.attr}({pattern!r})", {USES[node.func.attr]}, re.compile(pattern)


def builds(tree: ast.Module) -> bool:
    """Return whether a function makes a pattern of other than a constant."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return any(
        isinstance(node, ast.Call)
        and ast.unparse(node.func) in {f"re.{name}" for name in ("compile", *USES)}
        and not isinstance(node.args[0], ast.Constant)
        for function in functions
        for node in ast.walk(function)
    )


BUILT = {  # by module: how patterns are used that its functions build, and these as they build them
    "indexer.generation.lexical.analysis": ("search", [re.compile("a|no_cache")]),
    "indexer.read.markup.blocks": ("match", [re.compile(blocks._HIGHLIGHT_END % "highlight")]),
    "indexer.read.office.sheets": ("search", [re.compile(rb'<(?:\w+:)?c\s(?=[^<>]*?\bs="(1|22)")' + sheets._PLACE)]),
    "rag.changes.compare": ("search", [re.compile(r"(?<![\w.])3\.11(?!\.?\d)")]),
    "rag.adapters.passages": ("search", [line_of(["dead", "tuples"])]),
    "rag.access": ("fullmatch", [re.compile(access._NAME)]),
}


def test_patterns_that_functions_build_take_linear_time() -> None:
    faults = {name: fault(each, {method}) for name, (method, some) in BUILT.items() for each in some}
    assert not any(faults.values()), faults


@pytest.mark.parametrize("package", ["embedder", "indexer", "rag", "web"])
def test_regular_expressions_take_linear_time(package: str) -> None:
    found = list(modules(package))
    faults, seen = {}, set()
    for name, module, tree in found:
        used = uses([tree])
        here = [
            (variable, used.get(variable, {"search"}), pattern)
            for variable, value in vars(module).items()
            for pattern in patterns(value)
        ]
        assert name in BUILT or not builds(tree), name
        for variable, methods, pattern in [*here, *inline(tree)]:
            key = f"{name}.{variable}"
            if key in EXEMPT or (pattern, *sorted(methods)) in seen:
                continue
            seen.add((pattern, *sorted(methods)))
            if reason := fault(pattern, methods):
                faults[key] = reason
    assert not faults, "\n".join(f"{name}: {reason}" for name, reason in faults.items())
