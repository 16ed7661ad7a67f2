"""Read what a Markdown text says about itself in its front matter: YAML, TOML or JSON.

Front matter may say who may read the text, see `indexer.read.access_list`.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, time
from typing import Any

import yaml

from indexer.decoding import visible
from indexer.filter import MOST_VALUES
from indexer.read.access_list import ACCESS, NOBODY, readers_of, statements, states_access
from indexer.read.extraction import collect, first_day, language_of
from indexer.records import Declared, Readers

_YAML = re.compile(r"\A---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TOML = re.compile(r"\A\+\+\+[ \t]*\n(.*?\n)?\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL)
_JSON = re.compile(r"\A\{[ \t]*\n[ \t]*\"[^\"\n]{1,100}\"[ \t]*:")
_LINE = re.compile(r"^(\w[\w-]*+):[ \t]++(\S.*)$", re.MULTILINE)
_LONGEST = 16_000  # characters; the parsers take a millisecond for each few hundred
_CHANGED = ("lastmod", "last_modified", "modified", "updated", "date")  # the surest first
_OURS = ("title", "language", "lang", ACCESS, *_CHANGED)


def split_front_matter(text: str) -> tuple[str | None, Declared, str]:
    """Return the title, what else is declared, and the text after the front matter."""
    fields, end, is_toml = _fields(text)
    lists = {str(name): value if isinstance(value, list) else [value] for name, value in fields.items()}
    texts = {name: [said for value in values[:MOST_VALUES] if (said := _said(value))] for name, values in lists.items()}
    languages = [*texts.get("language", ()), *texts.get("lang", ())]
    declared = Declared(
        language=next((code for tag in languages if (code := language_of(tag))), None),
        date=first_day(day for name in _CHANGED for day in texts.get(name, ())),
        metadata=collect((name, value) for name, values in texts.items() if name not in _OURS for value in values),
        access=NOBODY if states_access(text[end:]) else _readers(fields, text[:end], is_toml),
    )
    return next(iter(texts.get("title", ())), None), declared, text[end:]


def _fields(text: str) -> tuple[dict[Any, Any], int, bool]:
    """Return the fields of the front matter, where it ends, and whether it is TOML."""
    fields: Any = {}
    end, is_toml = 0, False
    with suppress(ValueError, RecursionError):
        if found := _YAML.match(text):
            front, end = found[1] or "", found.end()
            try:
                # the loader without any types: nothing to construct, no merge keys to multiply; aliases share
                fields = yaml.load(front, Loader=yaml.BaseLoader) if len(front) <= _LONGEST else {}  # noqa: S506 - safer
            except yaml.YAMLError:  # such as "title: Part 1: Cats", which people do write
                fields = {name: value.rstrip().strip("\"'") for name, value in _LINE.findall(front)}
        elif found := _TOML.match(text):
            front, end, is_toml = found[1] or "", found.end(), True
            fields = tomllib.loads(front) if len(front) <= _LONGEST else {}
        elif _JSON.match(text):
            fields, end = json.JSONDecoder().raw_decode(text[:_LONGEST])
    return fields if isinstance(fields, dict) else {}, end, is_toml


def _readers(fields: dict[Any, Any], front: str, is_toml: bool) -> Readers:
    """Return who may read a text by its front matter: nobody, where that says more than one list, or none that is."""
    keys = [key for key in _keys(fields) if visible(str(key)).strip().casefold() == ACCESS]
    stated = sum(1 for _ in statements(visible(front)))
    if not keys and not stated:
        return None
    # of two lists, the parsers of YAML and JSON take the last; that of TOML takes none
    if keys == [ACCESS] and ACCESS in fields and (is_toml or stated < 2):
        with suppress(ValueError):
            return readers_of(fields[ACCESS])
    return NOBODY


def _keys(fields: Any) -> Iterator[Any]:
    """Yield the keys of all tables within one another, each table once, however often it is referred to."""
    todo, seen = [fields], set[int]()
    while todo:
        value = todo.pop()
        if id(value) not in seen and isinstance(value, dict | list):
            seen.add(id(value))
            if isinstance(value, dict):
                yield from value
            todo += value.values() if isinstance(value, dict) else value


def _said(value: object) -> str:
    """Return a value as it is written in YAML; empty where it is no single one."""
    if isinstance(value, date | time):  # of TOML
        return value.isoformat()
    said = str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, str | int | float) else ""
    return "" if said in ("~", "null") else said
