"""The command `pilotlight`. Results go to stdout, progress and logs to stderr; a user's error is a line and exit 2."""

import argparse
import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from embedder.errors import PilotlightError
from indexer.config import OWN
from indexer.generation.layout import CURRENT, is_url
from rag.settings import SETTINGS, Settings, load
from rag.usage import Parser

# Which settings each verb reads, by their group in the table, and those of a group that it has no use for.
_GROUPS = {
    "index": ("index", "store", "build", "embedder", "crawl", "chunk"),
    "remove": ("index", "store", "build"),
    "serve": ("index", "store", "replica", "embedder", "serve", "page", "access", "answers"),
    "mcp": ("index", "store", "replica", "embedder"),
    "search": ("index", "store", "replica", "embedder", "serve"),
    "eval": ("embedder",),
    "verify": ("index", "store", "replica", "embedder"),
    "sources": ("index", "replica"),
    "generations": ("index", "store", "replica"),
    "rollback": ("index", "store"),
    "export": ("index", "replica"),
    "import": ("index", "build", "embedder"),
    "copy": ("build",),
    "push": ("index", "build"),
    "collections": ("index", "replica"),
    "drop": ("index",),
    "keys": ("index", "access"),
    "warm": ("embedder",),
    "doctor": ("index", "embedder"),
}
_UNUSED = {
    "remove": {"vector_index", "ray"},
    "serve": {"collection"},
    "import": {"vector_index", "ray", "threads"},
    "copy": {"vector_index", "ray"},
    "push": {"vector_index", "ray"},
    "search": {"poll", "host", "port", "workers", "log_format", "log_queries"},
    "verify": {"poll"},
    "sources": {"poll"},
    "generations": {"poll"},
    "export": {"poll"},
    "collections": {"collection", "poll"},
    "drop": {"collection"},
    "keys": {"collection", *(s.name for s in SETTINGS if s.group == "access")} - {"keys"},
}


def parser() -> Parser:
    """Return the parser; every setting's flag comes from the settings table."""
    top = Parser(
        prog="pilotlight", description="Self-hosted retrieval for CPU servers: index documents, search in milliseconds."
    )
    top.add_argument("--version", action="version", version=f"pilotlight {metadata.version('pilotlight')}")
    verbs = top.add_subparsers(dest="verb", metavar="COMMAND")
    verb = verbs.add_parser("index", help="read sources and publish a new generation of the index")
    verb.add_argument(
        "sources",
        nargs="*",
        metavar="SOURCE",
        help="address of a site, or path of a file or folder (default: the sources of the live index)",
    )
    verb.add_argument("--add", action="store_true", help="add these sources to those of the live index")
    verb.add_argument(
        "--watch",
        action="store_true",
        help="keep running and re-read folders and files when they change; sites need --every, or an interval each",
    )
    verb.add_argument(
        "--every", metavar="INTERVAL", help="keep running and re-read at this interval, such as 90s, 15m, 6h or 1d"
    )
    verb.add_argument("--full", action="store_true", help="reprocess unchanged pages too")
    verb.add_argument("--quiet", action="store_true", help="show no progress")
    verb = verbs.add_parser("remove", help="remove sources from the index, without reading anything again")
    verb.add_argument("sources", nargs="+", metavar="SOURCE", help="the source, as it was given to index")
    verbs.add_parser("serve", help="serve the search page and the REST API")
    verb = verbs.add_parser("mcp", help="offer search and read_document as tools of the Model Context Protocol")
    verb.add_argument("--server", metavar="URL", help="ask this running server instead of reading an index")
    verb.add_argument(
        "--http", metavar="PORT", type=int, help="listen on this port of 127.0.0.1 (default: use standard input)"
    )
    verb = verbs.add_parser("search", help="answer one query on the command line")
    verb.add_argument("query", nargs="+", metavar="QUERY", help="the question; several words are one question")
    verb.add_argument("-k", type=int, default=10, help="hits to return (default: 10)")
    _add_mode(verb)
    verb.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="search only documents that match; KEY is source, url_prefix, path, language, content_type, from, to or "
        "meta.NAME; repeat a key to allow several values",
    )
    verb.add_argument(
        "--diversity", type=float, default=0.0, help="from 0 to 1: prefer hits that differ from each other (default: 0)"
    )
    verb = verbs.add_parser("eval", help="measure search quality on a dataset in BEIR format")
    verb.add_argument(
        "folder",
        metavar="BEIR_DIR",
        type=Path,
        help="folder with corpus.jsonl, queries.jsonl and qrels/test.tsv",
    )
    _add_mode(verb)
    verb.add_argument("--fusion", help="how hybrid combines its two rankings: weighted (default) or rrf")
    verb = verbs.add_parser("verify", help="check the files, counts and a sample of the vectors of a generation")
    verb.add_argument("--generation", metavar="ID", help="id of the generation (default: live)")
    verb.add_argument("--quick", action="store_true", help="skip the vectors, and load no model")
    verbs.add_parser("sources", help="list the sources of the index, with their documents and settings")
    verbs.add_parser("generations", help="list the published generations, newest first")
    verb = verbs.add_parser("rollback", help="verify an older generation and make it live")
    verb.add_argument(
        "generation", nargs="?", metavar="GENERATION", help="id of the generation (default: the previous one)"
    )
    verb = verbs.add_parser("export", help="write a generation to an archive")
    verb.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help="the archive; an existing file is replaced; .gz and .tgz are compressed",
    )
    verb.add_argument("--generation", metavar="ID", help="id of the generation (default: live)")
    verb.add_argument("--jsonl", action="store_true", help="write the documents as JSON Lines instead")
    verb = verbs.add_parser("import", help="publish the generation in an archive")
    verb.add_argument("file", metavar="FILE", type=Path, help="an archive written by export")
    verb = verbs.add_parser("copy", help="copy a generation to another store, verify it there and make it live")
    place = "folder of an index, or milvus://HOST:PORT/NAME"
    verb.add_argument("--from", required=True, metavar="PLACE", help=f"copy from here: {place}")
    verb.add_argument("--to", required=True, metavar="PLACE", help=f"copy to here: {place}")
    verb.add_argument("--generation", metavar="ID", help="id of the generation (default: live)")
    verb.add_argument("--quiet", action="store_true", help="show no progress")
    verb = verbs.add_parser("push", help="publish a generation for other servers to fetch")
    verb.add_argument("url", metavar="URL", help="s3://BUCKET/PREFIX, or file:///FOLDER for a shared folder")
    verb.add_argument("--generation", metavar="ID", help="id of the generation (default: live)")
    verbs.add_parser("collections", help="list the collections of the index")
    verb = verbs.add_parser("drop", help="delete a collection permanently")
    verb.add_argument("name", metavar="NAME", help="name of the collection")
    verb.add_argument("--yes", action="store_true", help="confirm the deletion")
    verb = verbs.add_parser("keys", help="create, list and remove the API keys of a server")
    verb.add_argument("action", choices=("add", "list", "remove"), metavar="ACTION", help="add, list or remove")
    verb.add_argument("name", nargs="?", metavar="NAME", help="name of the key, such as who uses it")
    verb.add_argument("--role", default="read", help="what it allows: read (default), or write, which includes read")
    verb.add_argument("--stdin", action="store_true", help="read the key from standard input instead of generating one")
    verbs.add_parser("warm", help="compile the model for this machine ahead of time")
    verbs.add_parser("doctor", help="show the CPU, engine, model and index in use, and report problems")
    helps = {action.dest: action.help or "" for action in verbs._choices_actions}
    for name, verb in verbs.choices.items():
        verb.description = f"{helps[name][:1].upper()}{helps[name][1:]}."
        verb.add_argument(
            "--config", metavar="FILE", type=Path, help="read settings, and sources for index, from this file"
        )
        if name not in {"serve", "mcp"}:  # which print nothing
            verb.add_argument("--json", action="store_true", help="print the result as one JSON object")
        if "index" not in _GROUPS[name]:
            verb.add_argument("--index", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        _add_settings(verb, name)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.WARNING, stream=sys.stderr)
    args: dict[str, Any] = {}
    settings = None
    try:
        line = parser()
        args = line.read(argv)
        if args["verb"] is None:
            line.print_help()
            return 0
        configured = None
        if args["config"] is not None:
            from rag.configuration import read_configuration

            configured = read_configuration(args["config"])
        flags = {s.name: args[s.name] for s in SETTINGS if s.name in args}
        given = configured.settings if configured else None
        settings = load(flags, configured=given)
        args["own"] = {name: getattr(settings, name) for name in OWN if name in flags}
        if args["own"]:  # they are for the sources named with them, and no others
            settings = load({name: value for name, value in flags.items() if name not in OWN}, configured=given)
        args["configured"] = configured.sources if configured else ()
        result, text = _run(args, settings)
        print(json.dumps(result, ensure_ascii=False) if args.get("json") else text)
        sys.stdout.flush()
    except PilotlightError as error:
        print(f"pilotlight: {error}", file=sys.stderr)
        return 2
    except MemoryError:
        from indexer.memory import SHORT

        print(f"pilotlight: {SHORT}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"pilotlight: stopped{_untouched(args, settings)}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left; say nothing at exit
        return 1
    failed = [check["what"] for check in result.get("checks", ()) if not check["ok"]]
    if failed:
        print(f"pilotlight: {failed[0]}", file=sys.stderr)
    return 2 if failed else 0


def _untouched(args: Mapping[str, Any], settings: Settings | None) -> str:
    """What to say of the index when a command that writes one was stopped."""
    if settings is None or args["verb"] not in {"index", "remove"} or not (settings.collection_dir / CURRENT).exists():
        return ""
    return "; the live index has not changed"


def _run(args: dict[str, Any], settings: Settings) -> tuple[dict[str, Any], str]:
    verb = args["verb"]
    if is_url(settings.index):
        from rag.live import replicas

        replicas.ready_copy(settings, verb)
    if verb == "index":
        from indexer import memory

        memory.prepare()
    if verb == "doctor":
        from rag.commands.doctor import as_text as doctor_text
        from rag.commands.doctor import examine

        report = examine(settings)
        return report, doctor_text(report)
    # a verb imports what it needs: some need a model, and most do not
    if verb in {"index", "remove", "search", "eval", "warm", "mcp", "serve"}:
        return _run_command(args, settings)
    from rag.commands import upkeep

    if verb == "copy":
        return upkeep.copy(settings, args["from"], args["to"], generation=args["generation"], quiet=args["quiet"])
    if verb == "verify":
        return upkeep.verify(settings, generation=args["generation"], quick=args["quick"])
    if verb == "sources":
        return upkeep.sources(settings)
    if verb == "generations":
        return upkeep.generations(settings)
    if verb == "rollback":
        return upkeep.rollback(settings, args["generation"])
    if verb == "export":
        return upkeep.export(settings, args["file"], generation=args["generation"], jsonl=args["jsonl"])
    if verb == "import":
        return upkeep.import_(settings, args["file"])
    if verb == "push":
        return upkeep.push(settings, args["url"], args["generation"])
    if verb == "collections":
        return upkeep.collections(settings)
    if verb == "keys":
        return upkeep.keys(settings, args["action"], args["name"], role=args["role"], from_stdin=args["stdin"])
    return upkeep.drop(settings, args["name"], yes=args["yes"])


def _run_command(args: dict[str, Any], settings: Settings) -> tuple[dict[str, Any], str]:
    from rag.commands import commands

    verb = args["verb"]
    if verb == "index":
        options = {name: args[name] for name in ("configured", "add", "full", "quiet", "watch", "every", "own")}
        return commands.index(args["sources"], settings, **options)
    if verb == "remove":
        return commands.remove(args["sources"], settings)
    if verb == "search":
        return commands.search(
            " ".join(args["query"]),
            settings,
            k=args["k"],
            mode=args["mode"],
            filter=commands.read_filter(args["filter"]),
            diversity=args["diversity"],
        )
    if verb == "eval":
        return commands.evaluate(args["folder"], settings, mode=args["mode"], fusion=args["fusion"])
    if verb == "warm":
        return commands.warm(settings)
    if verb == "mcp":
        commands.mcp(settings, server=args["server"], port=args["http"])
        raise SystemExit  # without a word: standard output was the protocol's
    commands.serve(settings)
    raise AssertionError("serve does not return")


def _add_mode(verb: Parser) -> None:
    verb.add_argument("--mode", default="hybrid", help="how to search: hybrid (default), dense or lexical")


def _add_settings(verb: Parser, name: str) -> None:
    group = verb.add_argument_group("settings", "each can also be set by the environment variable in brackets")
    for setting in SETTINGS:
        if setting.group not in _GROUPS[name] or setting.name in _UNUSED.get(name, ()):
            continue
        default = "" if setting.default == "" else f" (default: {setting.default!s})"
        text = f"{setting.help}{default} [{setting.variable}]".replace("%", "%%")
        if isinstance(setting.default, bool):
            group.add_argument(setting.flag, action="store_true", default=argparse.SUPPRESS, help=text)
        elif setting.bare:
            group.add_argument(
                setting.flag, nargs="?", const=setting.bare, default=argparse.SUPPRESS, help=text, metavar="VALUE"
            )
        else:
            choices = "{" + ",".join(setting.choices) + "}" if setting.choices else None
            group.add_argument(setting.flag, default=argparse.SUPPRESS, help=text, metavar=choices)


if __name__ == "__main__":
    sys.exit(main())
