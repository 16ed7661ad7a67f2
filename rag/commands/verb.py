"""A verb of the command line: how it is declared, and what all of them do around their own work."""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from indexer.generation.layout import CURRENT
from rag.errors import SettingsError
from rag.removed import flag_hint
from rag.settings import SETTINGS, Setting, Settings, did_you_mean, load, read_value

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from rag.settings_file import SettingsFile

HELP = click.help_option("-h", "--help", help="show this help message and exit")
Result = tuple[dict[str, Any], str]  # JSON-ready, and for a terminal
_FLAG = re.compile(r"-(?!\d*\.?\d+$)\S+")  # not a negative number, and not a sentence


class Value(click.ParamType[Any]):
    """Reads a value, and refuses it in the words that settings have for that."""

    name = "value"

    def __init__(self, read: Callable[[object, str], Any], choices: Sequence[str] = ()) -> None:
        self._read = read
        self._choices = choices

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value in its type. Raises SettingsError."""
        return self._read(value, called(param) if param else "the value")

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list["CompletionItem"]:
        """Return the choices that begin with what has been typed."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(choice) for choice in self._choices if choice.startswith(incomplete)]


WHOLE = Value(partial(read_value, kind=int))
NUMBER = Value(partial(read_value, kind=float))
PATH = click.Path(readable=False, path_type=Path)


def called(param: click.Parameter) -> str:
    """Return what help and errors call an option or an argument."""
    return param.opts[-1] if isinstance(param, click.Option) else param.human_readable_name


def one_of(*choices: str) -> Value:
    """Return the type of a value that is one of these."""
    return Value(partial(read_value, kind=str, choices=choices), choices)


@dataclass(frozen=True, slots=True)
class Given:
    """Where the settings of a run come from; a verb gets it by `click.pass_obj`."""

    flags: Mapping[str, object]
    file: "SettingsFile | None"  # the one that --config names

    def settings(self, without: Sequence[str] = ()) -> Settings:
        """Return the settings, as if some flags had not been given. Raises SettingsError."""
        flags = {name: value for name, value in self.flags.items() if name not in without}
        return load(flags, configured=self.file.settings if self.file else None)


class SettingOption(click.Option):
    """The flag of a setting."""

    def __init__(self, setting: Setting, *, hidden: bool = False) -> None:
        self.setting = setting
        default = "" if setting.default == "" else f" (default: {setting.default!s})"
        shape: dict[str, Any] = {"type": Value(setting.read, setting.choices)}
        if setting.kind is bool:
            shape = {"is_flag": True, "default": None}
        elif setting.bare:
            shape |= {"is_flag": False, "flag_value": setting.bare, "metavar": "[VALUE]"}
        else:
            shape["metavar"] = "{" + ",".join(setting.choices) + "}" if setting.choices else setting.name.upper()
        super().__init__([setting.flag], help=f"{setting.help}{default} [{setting.variable}]", hidden=hidden, **shape)


class Verb(click.Command):
    """A command that gets the settings that it reads, and prints its result; call it as the function it is made of."""

    def __init__(self, function: Callable[..., Result | None], *, publishes: bool, **attributes: Any) -> None:
        rules = {"ignore_unknown_options": True, "allow_extra_args": True}  # `parse_args` refuses them
        super().__init__(None, callback=function, context_settings=rules, **attributes)
        self._function = function
        self._publishes = publishes

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do the work of the verb, without a command line."""
        return self._function(*args, **kwargs)

    @property
    def options(self) -> dict[str, click.Option]:
        """Its options by their flags."""
        return {flag: param for param in self.params if isinstance(param, click.Option) for flag in param.opts}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the line after the verb. Raises SettingsError."""
        if ctx.resilient_parsing:  # a line that is being completed
            return super().parse_args(ctx, args)
        more = f"see {ctx.command_path} --help"
        self._check_flags(ctx, args, more)
        try:
            rest = super().parse_args(ctx, list(args))
        except click.MissingParameter:
            given, _, _ = self.make_parser(ctx).parse_args(list(args))
            missing = [p for p in self.params if p.required and not isinstance(given.get(p.name) or 0, str | tuple)]
            raise SettingsError(f"{ctx.info_name} needs {', '.join(map(called, missing))}; {more}") from None
        except click.UsageError as error:
            raise SettingsError(f"{error.format_message().rstrip('.')}; {more}") from error
        if rest:
            raise SettingsError(f"{ctx.info_name} does not expect {rest[0]!r}; {more}")
        return rest

    def _check_flags(self, ctx: click.Context, args: Sequence[str], more: str) -> None:
        """Raise SettingsError for a flag that the verb does not have, or that has another where its value should be."""
        words = iter(args)
        for word in words:
            flag, equals, _ = word.partition("=")
            if word == "--":
                return
            if not _FLAG.fullmatch(flag):
                continue
            if not flag.startswith("--"):
                flag, equals = word[:2], word[2:]
            option = self.options.get(flag)
            if option is None:
                raise SettingsError(self._unknown(ctx, flag, more))
            bare = isinstance(option, SettingOption) and option.setting.bare
            if not (equals or option.is_flag or bare):
                value = next(words, None)
                if value is None or _FLAG.fullmatch(value):
                    raise SettingsError(f"{flag} needs a value; {more}")

    def _unknown(self, ctx: click.Context, flag: str, more: str) -> str:
        if instead := flag_hint(flag):
            return f"{flag} was removed: {instead}"
        group = cast(click.Group, ctx.find_root().command)
        verbs = {name: group.get_command(ctx, name) for name in group.list_commands(ctx)}
        others = [name for name, verb in verbs.items() if isinstance(verb, Verb) and flag in verb.shown_flags]
        text = f"{ctx.info_name} has no flag {flag}"
        if others:
            return f"{text}; it belongs to {', '.join(others[:4])}{' and others' * (len(others) > 4)}"
        return f"{text}{did_you_mean(flag, self.shown_flags)}; {more}"

    @property
    def shown_flags(self) -> list[str]:
        """The flags that its help shows."""
        return [flag for flag, option in self.options.items() if not option.hidden]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags of the verb, and those of settings below them."""
        records: dict[bool, list[tuple[str, str]]] = {False: [], True: []}
        for param in self.params:
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record:
                records[isinstance(param, SettingOption)].append(record)
        with formatter.section("Options"):
            formatter.write_dl(records[False])
        if records[True]:
            with formatter.section("Settings"):
                formatter.write_text("each can also be set by the environment variable in brackets")
                formatter.write_paragraph()
                formatter.write_dl(records[True])

    def invoke(self, ctx: click.Context) -> int:
        """Do the work, and print its result; return the exit code."""
        values = dict(ctx.params)
        config, as_json = values.pop("config"), values.pop("json", False)
        names = [param.name for param in self.params if isinstance(param, SettingOption)]
        flags = {name: value for name in names if (value := values.pop(name)) is not None}
        file = None
        if config is not None:
            from rag.settings_file import read_settings_file

            file = read_settings_file(config)
        ctx.obj = Given(flags, file)
        settings = ctx.obj.settings()
        try:
            found: Result | None = self(settings, **values)
            if found is None:
                return 0
            result, text = found
            print(json.dumps(result, ensure_ascii=False) if as_json else text)
            sys.stdout.flush()
        except KeyboardInterrupt:
            if self._publishes and (settings.collection_dir / CURRENT).exists():
                raise KeyboardInterrupt("; the live index has not changed") from None
            raise
        failed = [check["what"] for check in result.get("checks", ()) if not check["ok"]]
        if failed:
            print(f"pilotlight: {failed[0]}", file=sys.stderr)
        return 2 if failed else 0


def verb(
    *reads: str, without: Sequence[str] = (), prints: bool = True, publishes: bool = False
) -> Callable[[Callable[..., Result | None]], Verb]:
    """Make a verb of a function that takes the settings and, by name, what click's decorators below this one declare.

    Args:
        reads: groups of settings, and single settings, whose flags it has.
        without: settings of these groups that it has no use for.
        prints: whether there is a result to print; if not, it has no --json.
        publishes: whether it publishes to the index, which has not changed when it is stopped.
    """
    known = [s for s in SETTINGS if (s.group in reads or s.name in reads) and s.name not in without]
    hidden = [s for s in SETTINGS if s.name == "index" and s not in known]  # taken by every verb

    def declare(function: Callable[..., Result | None]) -> Verb:
        params = list(reversed(getattr(function, "__click_params__", [])))
        config = "read settings, and sources for index, from this file"
        params.append(click.Option(["--config"], metavar="FILE", type=PATH, help=config))
        if prints:
            params.append(click.Option(["--json"], is_flag=True, help="print the result as one JSON object"))
        params += [SettingOption(setting) for setting in known]
        params += [SettingOption(setting, hidden=True) for setting in hidden]
        return HELP(Verb(function, params=params, publishes=publishes))

    return declare
