"""The command `pilotlight`. Results go to stdout, progress and logs to stderr.

An error of the user prints one line on stderr and exits with 2.
"""

import logging
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from embedder.errors import PilotlightError
from rag.commands.verb import HELP, Verb
from rag.errors import SettingsError
from rag.settings import did_you_mean

VERBS = {  # module and function below `rag.commands`, and summary
    "index": ("index.index", "read sources and publish a new generation of the index"),
    "remove": ("index.remove", "remove sources from the index, without reading anything again"),
    "serve": ("serve.serve", "serve the search page and the REST API"),
    "mcp": ("serve.mcp", "offer the tools of agents over the Model Context Protocol"),
    "search": ("search.search", "answer one query on the command line"),
    "eval": ("search.evaluate", "measure search quality on a dataset in BEIR format"),
    "compare": ("search.compare", "show which of two generations or settings answers questions better"),
    "verify": ("generations.verify", "check the manifest, files and counts of a generation"),
    "rollback": ("generations.rollback", "verify an older generation and make it live, or list them"),
    "export": ("generations.export", "write a generation to an archive"),
    "import": ("generations.import_", "publish the generation in an archive"),
    "collections": ("generations.collections", "list the collections of the index, or delete one"),
    "keys": ("serve.keys", "create, list and remove the API keys of a server"),
    "doctor": ("doctor.doctor", "show the CPU, engine, model and index in use, and report problems"),
}


def load_verb(name: str) -> Verb:
    """Import the module of a verb, and return the verb."""
    place, summary = VERBS[name]
    module, _, function = place.partition(".")
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.WARNING, stream=sys.stderr)
    try:
        code: int = pilotlight.main(argv, "pilotlight", standalone_mode=False)  # also handles shell completion
        return code
    except click.UsageError as error:
        text = f"{error.format_message()} See {error.ctx.command_path if error.ctx else 'pilotlight'} --help"
        print(f"pilotlight: {text}", file=sys.stderr)
        return 2
    except (PilotlightError, MemoryError) as error:
        from indexer.memory import SHORT

        print(f"pilotlight: {SHORT if isinstance(error, MemoryError) else error}", file=sys.stderr)
        return 2
    except click.Abort:
        print("pilotlight: stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
