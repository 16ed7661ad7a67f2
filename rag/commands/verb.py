"""Declaring, running and printing the verbs of the command line."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rag.settings import SETTINGS, Setting, Settings, load

if TYPE_CHECKING:
    from rag.settings_file import SettingsFile

HELP = click.help_option("-h", "--help", help="show this help message and exit")
Result = tuple[dict[str, Any], str]  # JSON-ready, and for a terminal
PATH = click.Path(readable=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The flags and the configuration file of a command line, for verbs with `click.pass_obj`."""

    flags: Mapping[str, object]
    file: "SettingsFile | None"  # --config

    def settings(self, without: Sequence[str] = ()) -> Settings:
        """Return the settings, ignoring the flags in `without`. Raises SettingsError."""
        flags = {name: value for name, value in self.flags.items() if name not in without}
        return load(flags, configured=self.file.settings if self.file else None)


class SettingOption(click.Option):
    """The flag of a setting. `rag.settings.load` parses its value."""

    def __init__(self, setting: Setting, *, hidden: bool = False) -> None:
        self.setting = setting
        default = "" if setting.default == "" else f" (default: {setting.default!s})"
        shape: dict[str, Any] = {"metavar": setting.name.upper()}
        if setting.kind is bool:
            shape = {"is_flag": True, "default": None}
        elif setting.bare:
            shape = {"is_flag": False, "flag_value": setting.bare, "metavar": "[VALUE]"}
        elif setting.choices:
            shape = {"metavar": "{" + ",".join(setting.choices) + "}", "shell_complete": self._choices}
        super().__init__([setting.flag], help=f"{setting.help}{default} [{setting.variable}]", hidden=hidden, **shape)

    def _choices(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        return [choice for choice in self.setting.choices if choice.startswith(incomplete)]


class Verb(click.Command):
    """A command that takes its settings and prints its result; call it like its function."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the verb from Python, without a command line."""
        assert self.callback is not None  # noqa: S101
        return self.callback(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> int:
        """Run the verb and print its result; return the exit code."""
        values = dict(ctx.params)
        config, as_json = values.pop("config"), values.pop("json", False)
        names = [param.name for param in self.params if isinstance(param, SettingOption)]
        flags = {name: value for name in names if (value := values.pop(name)) is not None}
        file = None
        if config is not None:
            from rag.settings_file import read_settings_file

            file = read_settings_file(config)
        ctx.obj = CommandContext(flags, file)
        outcome: Result | None = self(ctx.obj.settings(), **values)
        if outcome is None:
            return 0
        result, text = outcome
        print(json.dumps(result, ensure_ascii=False) if as_json else text)
        sys.stdout.flush()
        failed = [check["what"] for check in result.get("checks", ()) if not check["ok"]]
        if failed:
            print(f"pilotlight: {failed[0]}", file=sys.stderr)
        return 2 if failed else 0


def verb(
    *reads: str, without: Sequence[str] = (), prints: bool = True
) -> Callable[[Callable[..., Result | None]], Verb]:
    """Make a verb of a function that takes the settings and the parameters of click's decorators below.

    Args:
        reads: groups of settings, or single settings, that become flags.
        without: settings of these groups that get no flag.
        prints: whether the verb returns a result, and so has --json.
    """
    shown_settings = [s for s in SETTINGS if (s.group in reads or s.name in reads) and s.name not in without]
    hidden = [s for s in SETTINGS if s.name == "index" and s not in shown_settings]

    def declare(function: Callable[..., Result | None]) -> Verb:
        params = list(reversed(getattr(function, "__click_params__", [])))
        config = "read settings, and sources for index, from this file"
        params.append(click.Option(["--config"], metavar="FILE", type=PATH, help=config))
        if prints:
            params.append(click.Option(["--json"], is_flag=True, help="print the result as one JSON object"))
        params += [SettingOption(setting) for setting in shown_settings]
        params += [SettingOption(setting, hidden=True) for setting in hidden]
        return HELP(Verb(None, callback=function, params=params))

    return declare
