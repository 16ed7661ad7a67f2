"""The command `pilotlight`. Results go to stdout, progress and logs to stderr.

An error that the user can correct is printed as one line on stderr, and the exit code is 2.
"""

import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from embedder.errors import PilotlightError
from rag.errors import SettingsError
from rag.settings import SETTINGS, Setting, Settings, did_you_mean, load

if TYPE_CHECKING:
    from rag.settings_file import SettingsFile

HELP = click.help_option("-h", "--help", help="show this help message and exit")
Result = tuple[dict[str, Any], str]  # data for --json, text for a terminal
PATH = click.Path(readable=False, path_type=Path)
VERBS = {  # name: "module.function" in `rag.commands`, and the summary
    "index": ("index.index", "read sources and publish a new generation of the index"),
    "remove": ("index.remove", "remove sources from the index, without reading anything again"),
    "serve": ("serve.serve", "serve the search page and the REST API"),
    "mcp": ("serve.mcp", "offer search tools to agents over the Model Context Protocol"),
    "search": ("search.search", "answer one query on the command line"),
    "eval": ("search.evaluate", "measure search quality on a dataset in BEIR format"),
    "compare": ("search.compare", "show which of two generations or settings answers questions better"),
    "verify": ("generations.verify", "check the manifest, files and counts of a generation"),
    "rollback": ("generations.rollback", "verify an older generation and make it live, or list all"),
    "export": ("generations.export", "write a generation to an archive"),
    "import": ("generations.import_", "publish the generation in an archive"),
    "collections": ("generations.collections", "list the collections of the index, or delete one"),
    "keys": ("serve.keys", "create, list and remove the API keys of a server"),
    "doctor": ("doctor.doctor", "show the CPU, engine, model and index in use, and report problems"),
}


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The flags and the configuration file of a command line. Verbs with `click.pass_obj` receive this object."""

    flags: Mapping[str, object]
    file: "SettingsFile | None"  # None if --config is not set

    def settings(self, without: Sequence[str] = ()) -> Settings:
        """Return the settings, ignoring the flags in `without`. Raises SettingsError if a value is invalid."""
        flags = {name: value for name, value in self.flags.items() if name not in without}
        return load(flags, configured=self.file.settings if self.file else None)


class SettingOption(click.Option):
    """The command-line flag of a setting. Values are parsed by `rag.settings.load`, not by click."""

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
    """A subcommand that passes its settings to a function and prints the result of the function."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function of the verb, without parsing a command line."""
        assert self.callback is not None  # noqa: S101
        return self.callback(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> int:
        """Run the verb, print its result, and return the exit code."""
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
    """Return a decorator that turns a function into a verb. The function receives the settings and click's parameters.

    Args:
        reads: names of settings, or of groups of settings, that become flags.
        without: names of settings in these groups that do not become flags.
        prints: whether the function returns a result. If so, the verb has the flag --json.
    """
    shown_settings = [s for s in SETTINGS if (s.group in reads or s.name in reads) and s.name not in without]
    hidden = [s for s in SETTINGS if s.name == "index" and s not in shown_settings]

    def declare(function: Callable[..., Result | None]) -> Verb:
        params = list(reversed(getattr(function, "__click_params__", [])))
        config = "read settings, and for index also sources, from this file"
        params.append(click.Option(["--config"], metavar="FILE", type=PATH, help=config))
        if prints:
            params.append(click.Option(["--json"], is_flag=True, help="print the result as one JSON object"))
        params += [SettingOption(setting) for setting in shown_settings]
        params += [SettingOption(setting, hidden=True) for setting in hidden]
        return HELP(Verb(None, callback=function, params=params))

    return declare


def load_verb(name: str) -> Verb:
    """Import the module of a verb, and return the verb."""
    target, summary = VERBS[name]
    module, _, function = target.partition(".")
    command: Verb = getattr(import_module(f"rag.commands.{module}"), function)
    command.short_help, command.help = summary, f"{summary[:1].upper()}{summary[1:]}."
    return command


class _Verbs(click.Group):
    """The group of verbs, each imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> Verb | None:
        return load_verb(cmd_name) if cmd_name in VERBS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in VERBS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in VERBS and not ctx.resilient_parsing:
            suggestion = did_you_mean(name, VERBS)
            raise SettingsError(f"there is no command {name!r}{suggestion}; see pilotlight --help for all of them")
        return super().resolve_command(ctx, args)


@click.group(cls=_Verbs, invoke_without_command=True, subcommand_metavar="COMMAND ...")
@click.version_option(package_name="pilotlight", message="%(prog)s %(version)s", help="show the version and exit")
@HELP
@click.pass_context
def pilotlight(ctx: click.Context) -> int:
    """Self-hosted retrieval for CPU servers: index documents, search in milliseconds."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return 0


def report_error(error: PilotlightError | MemoryError) -> int:
    """Print an error on stderr as one line, and return the exit code."""
    from indexer.memory import SHORT

    print(f"pilotlight: {SHORT if isinstance(error, MemoryError) else error}", file=sys.stderr, flush=True)
    return 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit code."""
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.WARNING, stream=sys.stderr)
    try:
        code: int = pilotlight.main(argv, "pilotlight", standalone_mode=False)  # also handles shell completion
        return code
    except click.UsageError as error:
        text = f"{error.format_message()} See {error.ctx.command_path if error.ctx else 'pilotlight'} --help"
        print(f"pilotlight: {text}", file=sys.stderr)
        return 2
    except (PilotlightError, MemoryError) as error:
        return report_error(error)
    except click.Abort:
        print("pilotlight: stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
