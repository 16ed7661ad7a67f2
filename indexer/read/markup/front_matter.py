"""Front matter of Markdown: what a text says about itself before it begins, in YAML, TOML or JSON.

It may say who may read the text. Whatever looks like such a list and cannot be read, wherever it stands, closes the
text: a slip of the pen must not make a document public.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date, time
from typing import Any

import yaml

from indexer.filter import MOST_VALUES
from indexer.read.access_list import NOBODY, readers_of
from indexer.read.metadata import Declared, collect, first_day, language_of
from indexer.records import Readers

_YAML = re.compile(r"\A---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TOML = re.compile(r"\A\+\+\+[ \t]*\n(.*?\n)?\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL)
_JSON = re.compile(r"\A\{[ \t]*\n[ \t]*\"[^\"\n]{1,100}\"[ \t]*:")
_LINE = re.compile(r"^(\w[\w-]*):[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_LONGEST = 16_000  # characters; the parsers take a millisecond for each few hundred
_CHANGED = ("lastmod", "last_modified", "modified", "updated", "date")  # the surest first
_ACCESS = "access"
_OURS = ("title", "language", "lang", _ACCESS, *_CHANGED)
_MENTIONS_ACCESS = re.compile(
    rf"^(?:[^\S\n]|[{{\[,\"'?-])*(?:[\w.-]{{1,100}}\.)?[\"']?{_ACCESS}\b", re.MULTILINE | re.IGNORECASE
)
_STATES_ACCESS = re.compile(
    rf"[^\S\n]*(?:[\"']?{_ACCESS}[\"']?[^\S\n]*[:=.]|\[[^\S\n]*[\"']?{_ACCESS}\b)", re.IGNORECASE
)
_NAMES = re.compile(r"[^\S\n]|[\"']?[\w.-]{1,100}[\"']?[^\S\n]*[:=]|[\[\]{}#-]|$")  # how a line of fields begins
_DELIMITER = re.compile(r"(?:-{2,}|\+{2,}|;{3,}|\.{3,})\w{0,4}[^\S\n]*\Z")
_FENCE = re.compile(r"[ ]{0,3}(?:`{3}|~{3})")
_NOTHING = ("", "~", "null")


def split_front_matter(text: str) -> tuple[str | None, Declared, str]:
    """Return the title, what else is declared, and the text after the front matter."""
    fields, access, rest = _fields(text)
    lists = {str(name): value if isinstance(value, list) else [value] for name, value in fields.items()}
    texts = {name: [said for value in values[:MOST_VALUES] if (said := _said(value))] for name, values in lists.items()}
    languages = [*texts.get("language", ()), *texts.get("lang", ())]
    declared = Declared(
        language=next((code for tag in languages if (code := language_of(tag))), None),
        date=first_day(day for name in _CHANGED for day in texts.get(name, ())),
        metadata=collect((name, value) for name, values in texts.items() if name not in _OURS for value in values),
        access=NOBODY if _states_access(rest) else access,
    )
    return next(iter(texts.get("title", ())), None), declared, rest


def _fields(text: str) -> tuple[Mapping[str, Any], Readers, str]:
    """Return the fields of the front matter, who may read the text by it, and the text after it."""
    if found := _YAML.match(text):
        return *_loaded(found[1] or "", _load_yaml), text[found.end() :]
    if found := _TOML.match(text):
        return *_loaded(found[1] or "", _load_toml), text[found.end() :]
    if _JSON.match(text):
        with suppress(ValueError, RecursionError):
            _, end = json.JSONDecoder().raw_decode(text[:_LONGEST])
            return *_loaded(text[:end], json.loads), text[end:]
    begin = text.lstrip("\ufeff \t\n")
    was_meant = begin.startswith(("---", "+++", "{")) and any(map(_STATES_ACCESS.match, begin[:_LONGEST].split("\n")))
    return {}, NOBODY if was_meant else None, text


def _loaded(front: str, load: Callable[[str], Any]) -> tuple[Mapping[str, Any], Readers]:
    """Return the fields of a front matter; nobody may read what it says of access in any other way than a list."""
    fields = load(front) if len(front) <= _LONGEST else {}
    fields = fields if isinstance(fields, dict) else {}
    # of two lists, the parsers of YAML and JSON take the last; that of TOML takes none
    lists = 1 if load is _load_toml else sum(map(bool, map(_STATES_ACCESS.match, front.split("\n"))))
    if _ACCESS in fields and lists < 2:
        with suppress(ValueError):
            return fields, readers_of(fields[_ACCESS])
    return fields, NOBODY if _MENTIONS_ACCESS.search(front) else None


def _load_yaml(text: str) -> Any:
    try:
        # The loader without any types: nothing to construct, no merge keys to multiply; aliases share what they name.
        return yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - safer than safe_load
    except (yaml.YAMLError, RecursionError, ValueError):  # such as "title: Part 1: Cats", which people do write
        return {name: value.strip("\"'") for name, value in _LINE.findall(text)}


def _load_toml(text: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return {}


def _states_access(text: str) -> bool:
    """Return whether a block that looks like front matter stands elsewhere in a text, and states who may read it."""
    in_code = in_block = False
    for line in text.split("\n"):
        if _FENCE.match(line):
            in_code, in_block = not in_code, False
        elif in_code:
            continue
        elif _DELIMITER.match(line):
            in_block = True
        elif in_block:
            if _STATES_ACCESS.match(line):
                return True
            in_block = _NAMES.match(line) is not None
    return False


def _said(value: object) -> str:
    """Return a value as it is written in YAML; empty where it is no single one."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, date | time):  # of TOML
        return value.isoformat()
    said = str(value) if isinstance(value, str | int | float) else ""
    return "" if said in _NOTHING else said
