"""Access lists: who may read a document, as its front matter, a file beside it, or its sender says.

A list that cannot be read is one of nobody, and so is a text that looks like one in a format without lists: a slip of
the pen must not make a document public.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import accumulate, takewhile
from typing import Any

from indexer.filter import folded
from indexer.records import Readers
from indexer.text.cleaning import visible
from indexer.text.toml import load_toml

FILE = ".access.toml"  # of all in a folder; with the name of a file before it, of that file
ACCESS = "access"  # key of front matter
LISTED = "has an access list, which only files of folders can have"
NOBODY: tuple[str, ...] = ()
MOST_NAMES = 256  # of one list
LONGEST = 256  # characters of a name
_KINDS = {"users": "user", "groups": "group"}
_LOOKED_AT = 16_000  # characters of a document of which only the beginning may be a list
_CLAIM_WITHIN = 4_000  # characters of a document in another format than those with lists
_SHAPE = 'users = ["ann"], groups = ["staff"], or everybody = true'


def closed_paths(names: Iterable[str]) -> frozenset[str]:
    """Return the paths that access lists are for, among the files of these paths, in small letters.

    The path of a folder ends with a slash, and that of the top is empty. A list that is named for no file is for the
    folder that it lies in: its name has a slip.
    """
    folded_names = [name.casefold() for name in names]
    targets = [name.removesuffix(FILE) for name in folded_names if name.endswith(FILE)]
    files = {*folded_names} if targets else set()
    return frozenset(each if each in files else each[: each.rfind("/") + 1] for each in targets)


def has_list(path: str, closed: Collection[str]) -> bool:
    """Return whether one of some access lists is for a file, see `closed_paths`; or it is one itself."""
    path = path.casefold()
    folders = accumulate(f"{step}/" for step in path.split("/")[:-1])
    return path.endswith(FILE) or not {path, "", *folders}.isdisjoint(closed)


def readers_of(given: object) -> Readers:
    """Return the names of a list, such as `group:staff`; None for everybody. Raises ValueError, which says why not."""
    if not isinstance(given, Mapping):
        raise ValueError(f"an access list is no table; it has {_SHAPE}")
    if unknown := [name for name in given if name not in (*_KINDS, "everybody")]:
        raise ValueError(f"an access list has {str(unknown[0])[:40]!r}; it has {_SHAPE}")
    if "everybody" in given:
        if len(given) == 1 and given["everybody"] in (True, "true"):
            return None
        raise ValueError(f"everybody must be true, and stand alone in an access list; it has {_SHAPE}")
    names = set()
    for kind, texts in given.items():
        if not isinstance(texts, str | list):
            raise ValueError("users and groups of an access list must be names or lists of names")
        for text in [texts] if isinstance(texts, str) else texts:
            name = folded(visible(text)) if isinstance(text, str) else ""
            if not 0 < len(name) <= LONGEST:
                raise ValueError(f"an access list has a name that is empty, too long or no text: {str(text)[:40]!r}")
            names.add(f"{_KINDS[kind]}:{name}")
    if len(names) > MOST_NAMES:
        raise ValueError(f"an access list has at most {MOST_NAMES} names")
    return tuple(sorted(names))


def read_list(body: bytes) -> Readers:
    """Read the file of a list, as `readers_of` does. Raises ValueError."""
    try:
        given = load_toml(body.decode("utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"is not valid TOML ({error})") from None
    return readers_of(given)


def checked_names(names: Any) -> Readers:
    """Return names that a reader process gave; of nobody if they are none."""
    if names is None:
        return None
    try:
        by_kind: dict[str, list[str]] = {}
        for kind, _, name in (str(each).partition(":") for each in names):
            by_kind.setdefault(f"{kind}s", []).append(name)
        return readers_of(by_kind)
    except (TypeError, ValueError):
        return NOBODY


_KEY = re.compile(r"\baccess\b[\"'\])]*\s{0,9}(?:[:=\uff1a\]]|\.\w)", re.IGNORECASE)
_TABLE = re.compile(r"(?:[\w\"'-]*\.)+\Z")  # that a key is in
_BEFORE_KEY = " \t\xa0{[,\"'?-:@%;!<*+>/"  # signs of lists, quotes, comments and fields
_SOMEBODY = re.compile(r"(?:\b|\.)(?:users?|groups?|everybody)\b[\"']?[^\S\n]*[:=\uff1a]", re.IGNORECASE)
_CLOSING = r"[\"'\u2019\u201c\u201d\])]*"
_CLAIM = re.compile(
    rf"\baccess\b(?:{_CLOSING}\s{{0,9}}[:=\uff1a\]](?:[^|]{{0,100}}?|.{{0,99}}?\n\W{{0,9}})|\W{{1,20}}|\.)"
    rf"\b(?:users?|groups?|everybody)\b(?:{_CLOSING}\s{{0,9}}[:=\uff1a]|[>\u203a])",
    re.IGNORECASE,
)
_COMMENT_SIGNS = re.compile(
    r"^[ \t]*(?:#!.*|(?:/[*/]|[#*;%!'\"]|--(?=[ \t]))[#*;%!'\"/]{0,8}|@?rem\b|dnl\b)[ \t]?",
    re.IGNORECASE | re.MULTILINE,
)
_DELIMITER = re.compile(
    r"[ ]{0,3}(?:(?:<!--|//)[ ]{0,9})?(?:[-\u2013\u2014+]{2,}|\u2014|[;.*_%]{3,})(?:\w{0,9}[^\S\n]*|[^\S\n]+#.*)"
)
_FIELD = re.compile(r"\s|[\"':@]{0,2}[\w.-]{1,100}[\"']?\s{0,9}[:=\uff1a]|[\[\]{}#-]|<!--|$")
_TOP_FIELD = re.compile(r"[ \t]|[\"':@;#+%<!-]{0,5}[ ]?[\w.-]{1,100}[\"']?[ \t]{0,9}[:\uff1a](?:\s|$)")
_COMMENTS = re.compile(r"\A\s*(?:<!--.*?-->\s*)*", re.DOTALL)
_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")


def statements(text: str) -> Iterator[int]:
    """Yield the ends of keys `access` in a text."""
    for key in _KEY.finditer(text):
        before = _TABLE.sub("", text[max(0, key.start() - 100) : key.start()].rpartition("\n")[2])
        signs = before[len(before.rstrip(_BEFORE_KEY)) :]
        if signs == before or not {*signs}.isdisjoint("{[,"):
            yield key.end()


def _names_somebody(text: str) -> bool:
    return any(_SOMEBODY.search(text, place, place + 100) for place in statements(text))


def readers_in_fields(fields: Mapping[Any, Any], front: str, *, is_toml: bool) -> Readers:
    """Return the readers that front matter names: nobody, if it has several lists or an invalid one.

    Args:
        fields: the front matter as its parser read it.
        front: the front matter as it is written.
        is_toml: whether its parser refuses a key that is there twice; those of YAML and JSON take the last.
    """
    keys = [key for key in _keys_within(fields) if visible(str(key)).strip().casefold() == ACCESS]
    statement_count = sum(1 for _ in statements(visible(front)))
    if not keys and not statement_count:
        return None
    if keys == [ACCESS] and ACCESS in fields and (is_toml or statement_count < 2):
        with suppress(ValueError):
            return readers_of(fields[ACCESS])
    return NOBODY


def _keys_within(fields: Any) -> Iterator[Any]:
    """Yield the keys of all tables within one another, each table once, however often it is referred to."""
    todo, visited = [fields], set[int]()
    while todo:
        value = todo.pop()
        if id(value) not in visited and isinstance(value, dict | list):
            visited.add(id(value))
            if isinstance(value, dict):
                yield from value
            todo += value.values() if isinstance(value, dict) else value


def begins_with_list(text: str) -> bool:
    """Return whether a text begins with what looks like fields, or front matter, and an access list among them."""
    head = visible(text[:_LOOKED_AT]).lstrip()
    if not _KEY.search(head):
        return False
    for begin in {head, _COMMENTS.sub("", head), head.removeprefix("<!--")}:
        lines = begin.lstrip().split("\n")
        is_fenced = _FENCE.match(lines[0]) is not None
        if _DELIMITER.fullmatch(lines[is_fenced] if len(lines) > 1 else ""):
            fields = list(takewhile(lambda line: not _DELIMITER.fullmatch(line), lines[is_fenced + 1 :]))
        else:
            fields = list(takewhile(_TOP_FIELD.match, lines))
        if any(next(statements(line), 0) for line in fields) or (lines[0].startswith("{") and _names_somebody(head)):
            return True
    return False


def looks_listed(text: str) -> bool:
    """Return whether a text of a format without lists has, near its beginning, what looks like one.

    That is `access` with users, groups or everybody, as fields, tables or tags have them, or front matter with the key,
    also in comments.
    """
    head = visible(text[:_CLAIM_WITHIN]).lstrip()
    if _CLAIM.search(head):
        return True
    bare = _COMMENT_SIGNS.sub("", head).lstrip()
    return any(_DELIMITER.fullmatch(each.partition("\n")[0]) and begins_with_list(each) for each in (head, bare))


def states_access(text: str) -> bool:
    """Return whether something that looks like an access list stands in a text outside of code.

    That is a key `access` with users or groups, or one among fields at the beginning or below a delimiter.
    """
    text = visible(text)
    if not _KEY.search(text) or begins_with_list(text):
        return bool(_KEY.search(text))
    fence = before = ""  # of the code that a line is in; the line before
    in_fields = has_fields = is_after_blank = False
    lines = text.split("\n")
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) and not line[mark.end() :].strip() else fence
        elif mark:
            fence, in_fields = mark[1], False
        elif _DELIMITER.fullmatch(line):  # or the line below a heading
            in_fields, has_fields, is_after_blank = not before.strip() or bool(after.strip()), False, False
        elif next(statements(line), 0):
            if in_fields or (line[:4].strip() and _names_somebody(f"{line}\n{after}")):
                return True
        elif not line.strip():
            is_after_blank = True
        elif _FIELD.match(line):
            has_fields, is_after_blank = True, False
        elif is_after_blank or not has_fields:
            in_fields = False
        before = line
    return False
