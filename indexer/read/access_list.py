"""Parse access lists, which name the users and groups that may read a document.

Lists are valid in front matter (Markdown, notebooks), in `.access.toml` files and with pushed documents. An invalid
list grants access to nobody, so that an error does not make a document public. Anywhere else, a list is ordinary text
and has no effect. The summary of a build counts documents with ordinary text that looks like an access list.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import accumulate, takewhile
from typing import Any

from indexer.filter import folded
from indexer.records import Readers
from indexer.text.cleaning import load_toml, visible

FILE = ".access.toml"  # applies to its folder; `NAME.access.toml` applies to the file NAME
ACCESS = "access"
UNSUPPORTED_LIST = "has an access list, which is supported only in folders"
NOBODY: tuple[str, ...] = ()
MAX_NAMES = 256
MAX_NAME_LENGTH = 256
_KINDS = {"users": "user", "groups": "group"}
MAX_FRONT_MATTER = 16_000  # characters, which the YAML parser reads in about 0.05 seconds
_SEARCHED_CHARACTERS = 4_000
_EXAMPLE = 'users = ["ann"], groups = ["staff"], or everybody = true'


def closed_paths(names: Iterable[str]) -> frozenset[str]:
    """Return the lower-case paths of the files and folders that have access lists. `names` are the paths of all files.

    The path of a folder ends with a slash, except for the top folder, which is "". A list for a missing file applies to
    the whole folder, because the name of the file is probably misspelt.
    """
    folded_names = [name.casefold() for name in names]
    targets = [name.removesuffix(FILE) for name in folded_names if name.endswith(FILE)]
    files = {*folded_names} if targets else set()
    return frozenset(path if path in files else path[: path.rfind("/") + 1] for path in targets)


def has_list(path: str, closed: Collection[str]) -> bool:
    """Return whether a file is an access list, or is protected by one. `closed` is the result of `closed_paths`."""
    path = path.casefold()
    folders = accumulate(f"{step}/" for step in path.split("/")[:-1])
    return path.endswith(FILE) or not {path, "", *folders}.isdisjoint(closed)


def readers_of(fields: object) -> Readers:
    """Return the users and groups in a parsed list, or None for everybody. Raises ValueError if the list is invalid."""
    if not isinstance(fields, Mapping):
        raise ValueError(f"an access list must be a table with {_EXAMPLE}")
    if unknown := [name for name in fields if name not in (*_KINDS, "everybody")]:
        raise ValueError(f"an access list has the unknown key {str(unknown[0])[:40]!r}; it must have {_EXAMPLE}")
    if "everybody" in fields:
        if len(fields) == 1 and fields["everybody"] in (True, "true"):
            return None
        raise ValueError(f"everybody must be true and the only key of an access list; it must have {_EXAMPLE}")
    names = set()
    for kind, texts in fields.items():
        if not isinstance(texts, str | list):
            raise ValueError("users and groups of an access list must be names or lists of names")
        for text in [texts] if isinstance(texts, str) else texts:
            name = folded(visible(text)) if isinstance(text, str) else ""
            if not 0 < len(name) <= MAX_NAME_LENGTH:
                raise ValueError(f"names in an access list have 1 to {MAX_NAME_LENGTH} characters: {text!r:.40}")
            names.add(f"{_KINDS[kind]}:{name}")
    if len(names) > MAX_NAMES:
        raise ValueError(f"an access list must have at most {MAX_NAMES} names, not {len(names):,}")
    return tuple(sorted(names))


def read_list(body: bytes) -> Readers:
    """Parse an `.access.toml` file. Return its users and groups as `readers_of` does. Raises ValueError if invalid."""
    try:
        fields = load_toml(body.decode("utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"is not valid TOML ({error})") from None
    return readers_of(fields)


def checked_names(names: Any) -> Readers:
    """Check the users and groups in the response of a reader process. Return `NOBODY` if they are invalid."""
    if names is None:
        return None
    try:
        by_kind: dict[str, list[str]] = {}
        for kind, _, name in (str(reader).partition(":") for reader in names):
            by_kind.setdefault(f"{kind}s", []).append(name)
        return readers_of(by_kind)
    except (TypeError, ValueError):
        return NOBODY


_KEY = re.compile(r"\baccess\b[\"'\])]*\s{0,9}(?:[:=\uff1a\]]|\.\w)", re.IGNORECASE)
_TABLE_PREFIX = re.compile(r"(?:[\w\"'-]*\.)+\Z")
_SIGNS_BEFORE_KEY = " \t\xa0{[,\"'?-:@%;!<*+>/"
_USERS_OR_GROUPS = re.compile(r"(?:\b|\.)(?:users?|groups?|everybody)\b[\"']?[^\S\n]*[:=\uff1a]", re.IGNORECASE)
_LIKE_LIST = re.compile(r"\baccess\b\W{1,40}\b(?:users?|groups?|everybody)\b\W{0,9}?[:=>\uff1a]", re.IGNORECASE)
_DELIMITER = re.compile(
    r"[ ]{0,3}(?:(?:<!--|//)[ ]{0,9})?(?:[-\u2013\u2014+]{2,}|\u2014|[;.*_%]{3,})(?:\w{0,9}[^\S\n]*|[^\S\n]+#.*)"
)
_TOP_FIELD = re.compile(r"[ \t]|[\"':@;#+%<!-]{0,5}[ ]?[\w.-]{1,100}[\"']?[ \t]{0,9}[:\uff1a](?:\s|$)")
_COMMENTS = re.compile(r"\A\s*(?:<!--.*?-->\s*)*", re.DOTALL)
_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")


def access_keys(text: str) -> Iterator[int]:
    """Yield the position after each key `access` in a text."""
    for key in _KEY.finditer(text):
        before = _TABLE_PREFIX.sub("", text[max(0, key.start() - 100) : key.start()].rpartition("\n")[2])
        signs = before[len(before.rstrip(_SIGNS_BEFORE_KEY)) :]
        if signs == before or not {*signs}.isdisjoint("{[,"):
            yield key.end()


def readers_in_fields(fields: Mapping[Any, Any], front: str, *, is_toml: bool) -> Readers:
    """Return the users and groups that front matter allows, or `NOBODY` if it has several lists or an invalid list.

    Args:
        fields: the parsed front matter.
        front: the text of the front matter, in which duplicate keys are counted.
        is_toml: whether the format is TOML, whose parser already rejects duplicate keys.
    """
    keys = [key for key in _keys_within(fields) if visible(str(key)).strip().casefold() == ACCESS]
    key_count = sum(1 for _ in access_keys(visible(front)))
    if not keys and not key_count:
        return None
    if keys == [ACCESS] and ACCESS in fields and (is_toml or key_count < 2):
        with suppress(ValueError):
            return readers_of(fields[ACCESS])
    return NOBODY


def _keys_within(fields: Any) -> Iterator[Any]:
    """Yield the keys of all nested tables. If several YAML aliases refer to one table, visit it once."""
    todo, visited = [fields], set[int]()
    while todo:
        value = todo.pop()
        if id(value) not in visited and isinstance(value, dict | list):
            visited.add(id(value))
            if isinstance(value, dict):
                yield from value
            todo += value.values() if isinstance(value, dict) else value


def begins_with_list(text: str) -> bool:
    """Return whether a text begins with front matter that has a key `access`, with or without `---` lines around it."""
    head = visible(text[:MAX_FRONT_MATTER]).lstrip()
    if not _KEY.search(head):
        return False
    for begin in {head, _COMMENTS.sub("", head), head.removeprefix("<!--")}:
        lines = begin.lstrip().split("\n")
        is_fenced = _FENCE.match(lines[0]) is not None
        if _DELIMITER.fullmatch(lines[is_fenced] if len(lines) > 1 else ""):
            fields = list(takewhile(lambda line: not _DELIMITER.fullmatch(line), lines[is_fenced + 1 :]))
        else:
            fields = list(takewhile(_TOP_FIELD.match, lines))
        if any(next(access_keys(line), 0) for line in fields):
            return True
        if lines[0].startswith("{") and any(_USERS_OR_GROUPS.search(head, key, key + 100) for key in access_keys(head)):
            return True
    return False


def looks_like_list(text: str) -> bool:
    """Return whether "access" is followed by "users:", "groups:" or "everybody:" near the beginning of a text."""
    return _LIKE_LIST.search(visible(text[:_SEARCHED_CHARACTERS])) is not None
