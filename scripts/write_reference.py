#!/usr/bin/env python3
"""Generate the sections of docs/reference.md on commands and settings from the code.

Run this when a command or a setting has changed. A test compares the page with the code.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from rag.commands.cli import VERBS, SettingOption, Verb, load_verb
from rag.settings import SETTINGS, TYPE_NAMES, Setting

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference.md"
_GENERATED_FROM = "## Commands\n"  # everything after this heading is generated
_LONG_FLAG = re.compile(r"(?<![\w`-])--[a-z][a-z-]*")
_SHARED = ("--help", "--json", "--config")


def page() -> str:
    """Return the page with its hand-written first part, and with generated sections on commands and settings."""
    by_hand = PAGE.read_text(encoding="utf-8").partition(_GENERATED_FROM)[0]
    return "\n".join([by_hand + _GENERATED_FROM, *commands(), "## Settings\n", *settings()]).rstrip() + "\n"


def commands() -> Iterator[str]:
    """Yield a section for each command, with its help, its arguments and its groups of settings."""
    for name in VERBS:
        verb = load_verb(name)
        yield f"### pilotlight {name}\n\n{verb.help}\n"
        if arguments := list(_arguments(verb)):
            yield _table(("argument", "meaning"), arguments)
        if groups := list(_groups(verb)):
            yield f"Settings: {', '.join(groups)}.\n"


def settings() -> Iterator[str]:
    """Yield a table for each group of settings."""
    for group in dict.fromkeys(setting.group for setting in SETTINGS):
        rows = [_setting(setting) for setting in SETTINGS if setting.group == group]
        yield f"### {group.upper() if group == 'ocr' else group.capitalize()}\n"
        yield _table(("setting, variable, flag", "default", "allowed", "meaning"), rows)


def _parameter_name(param: click.Parameter) -> str:
    return param.opts[-1] if isinstance(param, click.Option) else param.human_readable_name


def _arguments(verb: Verb) -> Iterator[tuple[str, str]]:
    for param in verb.params:
        name, value = _parameter_name(param), param.metavar or ""
        if isinstance(param, SettingOption) or name in _SHARED:
            continue
        if isinstance(param, click.Argument):
            name += "…" * (param.nargs == -1)
        elif value and value != name.strip("-").upper():
            name += f" {value}"
        yield f"`{name}`", _LONG_FLAG.sub(r"`\g<0>`", param.help or "")


def _groups(verb: Verb) -> Iterator[str]:
    options = (option for option in verb.params if isinstance(option, SettingOption) and not option.hidden)
    read = {option.setting.name for option in options}
    for group in dict.fromkeys(setting.group for setting in SETTINGS):
        names = [setting.name for setting in SETTINGS if setting.group == group]
        link, some = f"[{group}](#{group})", [f"`{name}`" for name in names if name in read]
        if some:
            yield link if len(some) == len(names) else f"{', '.join(some)} of {link}"


def _setting(setting: Setting) -> tuple[str, ...]:
    default = f"`{setting.default}`" if setting.default != "" else "empty"
    if isinstance(setting.default, bool):
        default = "yes" if setting.default else "no"
    allowed = ", ".join(f"`{choice}`" for choice in setting.choices) or TYPE_NAMES[type(setting.default)]
    if not setting.choices and setting.limits:
        allowed = f"{setting.limits[0]:,} to {setting.limits[1]:,}"
    return f"`{setting.name}` `{setting.variable}` `{setting.flag}`", default, allowed, setting.help


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    cells = [head, ("---",) * len(head), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells) + "\n"


if __name__ == "__main__":
    text = page()
    stale = text != PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text, encoding="utf-8")
    print("written" if stale else "docs/reference.md is up to date", file=sys.stderr)
