"""The command `pilotlight`. Results go to stdout, progress and logs to stderr; a user's error is a line and exit 2."""

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from embedder.errors import PilotlightError
from rag.results import as_text
from rag.settings import SETTINGS, Settings, load

# Which settings each verb reads, by their group in the table.
_GROUPS = {
    "index": ("index", "embedder", "crawl", "chunk"),
    "serve": ("index", "embedder", "serve"),
    "search": ("index", "embedder", "serve"),
    "eval": ("embedder",),
    "warm": ("embedder",),
    "doctor": ("index", "embedder"),
}


def parser() -> argparse.ArgumentParser:
    """Return the parser; every setting's flag comes from the settings table."""
    top = argparse.ArgumentParser(
        prog="pilotlight", description="Self-hosted retrieval for CPU servers: index documents, search in milliseconds."
    )
    top.add_argument("--version", action="version", version=f"pilotlight {metadata.version('pilotlight')}")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    verb = verbs.add_parser("index", help="read sources and publish a new generation of the index")
    verb.add_argument(
        "sources",
        nargs="*",
        metavar="SOURCE",
        help="http(s) url of a site, or a file or folder; without one, the sources of the live index are read again",
    )
    verb.add_argument("--quiet", action="store_true", help="no progress on stderr")
    verbs.add_parser("serve", help="answer queries on a web page and over REST")
    verb = verbs.add_parser("search", help="answer one query on the command line")
    verb.add_argument("query", metavar="QUERY")
    verb.add_argument("-k", type=int, default=10, help="hits to return (default: 10)")
    _add_mode(verb)
    verb = verbs.add_parser("eval", help="measure retrieval quality on a dataset in BEIR's layout")
    verb.add_argument("folder", metavar="BEIR_DIR", type=Path)
    _add_mode(verb)
    verbs.add_parser("warm", help="compile the model for this machine now, so that no later command has to")
    verbs.add_parser("doctor", help="show the CPU, engine, model and index in use, and warn about what is slow")
    for name, verb in verbs.choices.items():
        verb.add_argument("--json", action="store_true", help="print one JSON object on stdout")
        if "index" not in _GROUPS[name]:
            verb.add_argument("--index", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        _add_settings(verb, _GROUPS[name])
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    args = vars(parser().parse_args(argv))
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.WARNING, stream=sys.stderr)
    try:
        settings = load({s.name: args[s.name] for s in SETTINGS if s.name in args})
        result, text = _run(args, settings)
        print(json.dumps(result, ensure_ascii=False) if args["json"] else text)
        sys.stdout.flush()
    except PilotlightError as error:
        print(f"pilotlight: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("pilotlight: stopped; the live index is as it was", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left; say nothing at exit
        return 1
    return 0


def _run(args: dict[str, Any], settings: Settings) -> tuple[dict[str, Any], str]:
    if args["verb"] == "doctor":
        from rag.doctor import as_text as doctor_text
        from rag.doctor import examine

        report = examine(settings)
        return report, doctor_text(report)
    from rag import commands

    if args["verb"] == "index":
        return commands.index(args["sources"], settings, quiet=args["quiet"])
    if args["verb"] == "warm":
        return commands.warm(settings)
    if args["verb"] == "search":
        answer = commands.search(args["query"], args["k"], args["mode"], settings)
        return answer, as_text(answer)
    if args["verb"] == "eval":
        scores = commands.evaluate(args["folder"], args["mode"], settings)
        return scores, "\n".join(f"{name:>12}  {value}" for name, value in scores.items())
    commands.serve(settings)
    raise AssertionError("serve does not return")


def _add_mode(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--mode", default="dense", help="how passages are found: dense (default)")


def _add_settings(verb: argparse.ArgumentParser, groups: tuple[str, ...]) -> None:
    group = verb.add_argument_group("settings", "each can also be set by the environment variable in brackets")
    for setting in SETTINGS:
        if setting.group not in groups:
            continue
        text = f"{setting.help} (default: {setting.default!s}) [{setting.variable}]".replace("%", "%%")
        if isinstance(setting.default, bool):
            group.add_argument(setting.flag, action="store_true", default=argparse.SUPPRESS, help=text)
        else:
            choices = "{" + ",".join(setting.choices) + "}" if setting.choices else None
            group.add_argument(setting.flag, default=argparse.SUPPRESS, help=text, metavar=choices)


if __name__ == "__main__":
    sys.exit(main())
