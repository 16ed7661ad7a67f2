#!/usr/bin/env python3
"""Generate the reference of settings, commands and the REST API from the program itself.

Writes the tables in docs/settings.md and docs/cli.md, and all of docs/rest.md. Run it when one of these has changed; a
test compares.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from rag.commands.cli import VERBS, load_verb
from rag.commands.verb import SettingOption, Verb, called
from rag.declaration import TYPE_NAMES, Setting
from rag.settings import SETTINGS, load
from web.app import create_app
from web.openapi import document

DOCS = Path(__file__).resolve().parents[1] / "docs"
_TYPES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "null": "null"}
_OPERATOR = "Needs the role `write`, and sight of everything; a browser may send the key as a password."
_ROLES = {
    "": "Needs no key.",
    "read": "Needs the role `read`.",
    "write": "Needs the role `write`.",
    "operator": _OPERATOR,
}
_LONG_FLAG = re.compile(r"(?<![\w`-])--[a-z][a-z-]*")
_ABBREVIATIONS = ("ocr",)  # groups of settings
_SHARED = {  # flags of more than one command
    "--config": "take settings from a [configuration file](settings.md#configuration-file)",
    "--json": "print the result as JSON",
}


def pages() -> dict[str, str]:
    """Return the pages as they should be, by file name."""
    texts = {name: (DOCS / name).read_text(encoding="utf-8") for name in ("settings.md", "cli.md")}
    return {
        "settings.md": with_settings(texts["settings.md"]),
        "cli.md": with_arguments(texts["cli.md"]),
        "rest.md": rest(_openapi()),
    }


def with_settings(text: str) -> str:
    """Return the page of settings with the tables of `SETTINGS`, each below the heading of its group."""
    for group in dict.fromkeys(setting.group for setting in SETTINGS):
        table = [_setting(setting) for setting in SETTINGS if setting.group == group]

        def rows(_: str, table: Sequence[tuple[str, ...]] = table) -> Sequence[tuple[str, ...]]:
            return table

        heading = group.upper() if group in _ABBREVIATIONS else group.capitalize()
        text = _replace(text, heading, ("setting, variable, flag", "default", "allowed", "meaning"), rows)
    return text


def _setting(setting: Setting) -> tuple[str, ...]:
    if isinstance(setting.default, bool):
        default = "yes" if setting.default else "no"
    else:
        default = f"`{setting.default}`" if setting.default != "" else "empty"
    if setting.choices:
        allowed = ", ".join(f"`{choice}`" for choice in setting.choices)
    elif setting.low is not None and setting.high is not None:
        allowed = f"{setting.low:,} to {setting.high:,}"
    else:
        allowed = TYPE_NAMES[type(setting.default)]
    return f"`{setting.name}` `{setting.variable}` `{setting.flag}`", default, allowed, setting.help


def with_arguments(text: str) -> str:
    """Return the page of the command line with the arguments of the parser below the heading of each command.

    Descriptions of shared flags that the page already has are kept, because each command prints something else.
    """
    for name in VERBS:
        verb = load_verb(name)

        def rows(old: str, verb: Verb = verb) -> list[tuple[str, ...]]:
            shared = [
                _kept(old, flag) or (f"`{flag}`", meaning) for flag, meaning in _SHARED.items() if flag in verb.options
            ]
            return [*_arguments(verb), *shared, *_settings_of(verb)]

        text = _replace(text, f"pilotlight {name}", ("argument", "meaning"), rows)
    return text


def _kept(table: str, flag: str) -> tuple[str, ...] | None:
    found = re.search(rf"^\| (`{flag}(?: [^`]*)?`) \| (.*) \|$", table, re.MULTILINE)
    return found.groups() if found else None


def _arguments(verb: Verb) -> Iterator[tuple[str, str]]:
    for param in verb.params:
        name, value = called(param), param.metavar or ""
        if isinstance(param, SettingOption) or name in {*_SHARED, "--help"}:
            continue
        if isinstance(param, click.Argument):
            name += "…" * (param.nargs == -1)
        elif value and value != name.strip("-").upper():
            name += f" {value}"
        yield f"`{name}`", _LONG_FLAG.sub(r"`\g<0>`", param.help or "")


def _settings_of(verb: Verb) -> Iterator[tuple[str, str]]:
    read: dict[str, list[str]] = {}
    for option in verb.options.values():
        if isinstance(option, SettingOption) and not option.hidden:
            read.setdefault(option.setting.group, []).append(option.setting.name)
    if read:
        yield "settings", ", ".join(_group(group, names) for group, names in read.items())


def _group(group: str, read: list[str]) -> str:
    every = [setting.name for setting in SETTINGS if setting.group == group]
    link = f"[{group}](settings.md#{group})"
    return link if read == every else f"{', '.join(f'`{name}`' for name in read)} of {link}"


def rest(api: Mapping[str, Any]) -> str:
    """Return the page that describes an OpenAPI document."""
    lines = [
        "# REST reference",
        "",
        "Every route, field and status, generated from the program's own `/openapi.json`. How to use them is in",
        "[Searching](search.md#rest-api) and [Programming against the API](api.md).",
        "",
        "Every error is a [problem](search.md#errors). Roles are those of [keys](operations.md#access); a server",
        "without keys lets its own machine read.",
        "",
    ]
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            lines += [f"## {method.upper()} {path}", "", *_operation(operation)]
    lines += ["## Objects", ""]
    for name, schema in sorted(api["components"]["schemas"].items()):
        lines += [f"### {name}", "", *_paragraph(schema.get("description", "")), *_fields(schema)]
    return "\n".join(lines).rstrip() + "\n"


def _operation(operation: Mapping[str, Any]) -> Iterator[str]:
    security = operation["security"]
    browser_alone = {"browser": []} in security and {} not in security
    role = "" if not security else "operator" if browser_alone else "read" if {} in security else "write"
    yield from _paragraph(f"{operation['summary'].rstrip('.')}. {_ROLES[role]}")
    yield from _paragraph(operation.get("description", ""))
    if parameters := operation.get("parameters"):
        rows = [_row(one["name"], one["schema"] | one, needed=one.get("required", False)) for one in parameters]
        yield from [_table(("parameter", "value", "meaning"), rows), ""]
    if body := operation.get("requestBody"):
        for media_type, content in body["content"].items():
            yield from _paragraph(f"Takes `{media_type}`: {_type(content['schema'])}.")
    for status, answer in operation["responses"].items():
        if int(status) < 400:
            kinds = [f"`{kind}`: {_type(one['schema'])}" for kind, one in answer.get("content", {}).items()]
            yield from _paragraph(f"{status}: {'; or '.join(kinds) or 'nothing'}.")
    errors = [status for status in operation["responses"] if int(status) >= 400]
    if errors:
        yield from _paragraph(f"Problems: {', '.join(errors)}.")


def _fields(schema: Mapping[str, Any]) -> Iterator[str]:
    if properties := schema.get("properties"):
        needed = set(schema.get("required", ()))
        said = needed != set(properties)  # if all are, as in answers, it says nothing
        rows = [_row(name, one, needed=said and name in needed) for name, one in properties.items()]
        yield from [_table(("field", "value", "meaning"), rows), ""]
    else:
        yield from _paragraph(f"{_type(schema)}.")


def _row(name: str, schema: Mapping[str, Any], *, needed: bool) -> tuple[str, str, str]:
    value = _type(schema)
    if "default" in schema:
        default = schema["default"]
        value += f"; default `{str(default).lower() if isinstance(default, bool) else default}`"
    elif needed:
        value += "; required"
    return f"`{name}`", value, schema.get("description", "")


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(_type(one) for one in schema[word]))
    if "const" in schema or "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    kinds = schema.get("type", "any value")
    return " or ".join(_kind(kind, schema) for kind in ([kinds] if isinstance(kinds, str) else kinds))


def _kind(kind: str, schema: Mapping[str, Any]) -> str:
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object":
        names = ", ".join(f"`{name}`" for name in schema.get("properties", ()))
        return f"object with {names}" if names else "object"
    low, high = (schema.get(name) for name in ("minimum", "maximum"))
    limits = f", {low:,} to {high:,}" if low is not None and high is not None and kind != "null" else ""
    longest = f", up to {schema['maxLength']:,} characters" if kind == "string" and "maxLength" in schema else ""
    return _TYPES.get(kind, kind) + limits + longest


def _openapi() -> dict[str, Any]:
    return document(create_app(_Nothing(), load({}, {})))  # type: ignore[arg-type]  # nothing is searched


class _Nothing:
    """In place of a retriever."""

    def status(self) -> dict[str, Any]:
        return {}


def _paragraph(text: str) -> list[str]:
    return [text, ""] if text else []


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |".replace("| --- ", "|---").replace("---|", "---|") for line in lines)


def _replace(text: str, heading: str, head: tuple[str, ...], rows: Callable[[str], Sequence[tuple[str, ...]]]) -> str:
    """Put rows, made of the old table, into the table with this head in the section of a second-level heading."""
    before, start, following = text.partition(f"## {heading}\n")
    section, end, after = following.partition("\n## ")
    line = f"| {' | '.join(head)} |"
    found = re.search(rf"^{re.escape(line)}\n(?:\|.*\n)*", section + "\n", re.MULTILINE)
    if not start or found is None:
        raise SystemExit(f"write a section '## {heading}' with a line '{line}' where its table is to be")
    section = section[: found.start()] + _table(head, rows(found[0])) + section[found.end() - 1 :]
    return before + start + section + end + after


if __name__ == "__main__":
    written = pages()
    stale = [name for name, text in written.items() if not (DOCS / name).exists() or (DOCS / name).read_text() != text]
    for name in stale:
        (DOCS / name).write_text(written[name], encoding="utf-8")
    print(f"written: {', '.join(stale) or 'nothing, all is as the program says'}", file=sys.stderr)
