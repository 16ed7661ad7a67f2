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
from indexer.layout import is_url
from rag.settings import SETTINGS, Settings, load

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
    "import": {"vector_index", "ray"},
    "copy": {"vector_index", "ray"},
    "push": {"vector_index", "ray"},
    "search": {"poll"},
    "verify": {"poll"},
    "sources": {"poll"},
    "generations": {"poll"},
    "export": {"poll"},
    "collections": {"collection", "poll"},
    "drop": {"collection"},
    "keys": {"collection", *(s.name for s in SETTINGS if s.group == "access")} - {"keys"},
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
    verb.add_argument("--add", action="store_true", help="keep the sources of the live index beside those given")
    verb.add_argument(
        "--watch",
        action="store_true",
        help="stay, and read folders and files again when they change; a site needs --every, or its own in the file",
    )
    verb.add_argument(
        "--every", metavar="INTERVAL", help="stay, and read sources again so often, such as 90s, 15m, 6h or 1d"
    )
    verb.add_argument("--full", action="store_true", help="read and cut pages anew that have not changed")
    verb.add_argument("--quiet", action="store_true", help="no progress on stderr")
    verb = verbs.add_parser("remove", help="publish the index without some of its sources; nothing is read again")
    verb.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="as it was given to index; an unknown one is refused"
    )
    verbs.add_parser("serve", help="answer queries on a web page and over REST")
    verb = verbs.add_parser("mcp", help="offer search and read_document as tools, by the Model Context Protocol")
    verb.add_argument("--server", metavar="URL", help="ask this running server, and read no index here")
    verb.add_argument(
        "--http", metavar="PORT", type=int, help="listen on this port of 127.0.0.1 instead of standard input"
    )
    verb = verbs.add_parser("search", help="answer one query on the command line")
    verb.add_argument("query", metavar="QUERY", help="the question, in quotes")
    verb.add_argument("-k", type=int, default=10, help="hits to return (default: 10)")
    _add_mode(verb)
    verb.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="only documents with this source, url_prefix, path, language, content_type or meta.NAME, or dated from or "
        "to a day; the same key again allows either value",
    )
    verb.add_argument("--diversity", type=float, default=0.0, help="0 to 1: prefer hits unlike each other (default: 0)")
    verb = verbs.add_parser("eval", help="measure retrieval quality on a dataset in BEIR's layout")
    verb.add_argument(
        "folder",
        metavar="BEIR_DIR",
        type=Path,
        help="folder with corpus.jsonl, queries.jsonl and qrels/test.tsv",
    )
    _add_mode(verb)
    verb.add_argument("--fusion", help="how hybrid joins its two lists: weighted (default) or rrf")
    verb = verbs.add_parser("verify", help="check every file, count and a sample of the vectors of a generation")
    verb.add_argument("--generation", metavar="ID", help="id of a generation; the live one unless told")
    verb.add_argument("--quick", action="store_true", help="embed nothing again, so that no model is loaded")
    verbs.add_parser("sources", help="list what the index was made from, and how much each source gave")
    verbs.add_parser("generations", help="list the published generations, newest first")
    verb = verbs.add_parser("rollback", help="make an older generation the live one, after verifying it")
    verb.add_argument(
        "generation", nargs="?", metavar="GENERATION", help="id of a generation; the one before unless told"
    )
    verb = verbs.add_parser("export", help="write a generation into one archive")
    verb.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help="the archive, replaced if it is there; compressed if it ends in .gz or .tgz",
    )
    verb.add_argument("--generation", metavar="ID", help="id of a generation; the live one unless told")
    verb.add_argument("--jsonl", action="store_true", help="write the documents as JSON Lines instead")
    verb = verbs.add_parser("import", help="publish the generation that an archive holds")
    verb.add_argument("file", metavar="FILE", type=Path, help="an archive that export wrote")
    verb = verbs.add_parser("copy", help="copy a generation to another store, check it there, and make it live")
    place = "folder of an index, or milvus://HOST:PORT/NAME"
    verb.add_argument("--from", required=True, metavar="PLACE", help=f"{place}: where it is")
    verb.add_argument("--to", required=True, metavar="PLACE", help=f"{place}: where it is to be")
    verb.add_argument("--generation", metavar="ID", help="id of a generation; the live one unless told")
    verb.add_argument("--quiet", action="store_true", help="no progress on stderr")
    verb = verbs.add_parser("push", help="publish a generation where other servers fetch it")
    verb.add_argument("url", metavar="URL", help="s3://BUCKET/PREFIX, or file:///FOLDER for a folder that is shared")
    verb.add_argument("--generation", metavar="ID", help="id of a generation; the live one unless told")
    verbs.add_parser("collections", help="list the collections of the index")
    verb = verbs.add_parser("drop", help="remove a named collection for good")
    verb.add_argument("name", metavar="NAME", help="the collection")
    verb.add_argument("--yes", action="store_true", help="confirm it")
    verb = verbs.add_parser("keys", help="make, list and remove the keys that callers of a server need")
    verb.add_argument("action", choices=("add", "list", "remove"), metavar="ACTION", help="add, list or remove")
    verb.add_argument("name", nargs="?", metavar="NAME", help="what the key is called: who or what has it")
    verb.add_argument("--role", default="read", help="what it is good for: read (default) or write, which reads too")
    verb.add_argument("--stdin", action="store_true", help="take the key from standard input, instead of a new one")
    verbs.add_parser("warm", help="compile the model for this machine now, so that no later command has to")
    verbs.add_parser("doctor", help="show the CPU, engine, model and index in use, and warn about what is slow")
    for name, verb in verbs.choices.items():
        verb.add_argument("--config", metavar="FILE", type=Path, help="take settings, and for index sources, from this")
        verb.add_argument("--json", action="store_true", help="print one JSON object on stdout")
        if "index" not in _GROUPS[name]:
            verb.add_argument("--index", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        _add_settings(verb, name)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    args = vars(parser().parse_args(argv))
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.WARNING, stream=sys.stderr)
    try:
        configured = None
        if args["config"] is not None:
            from rag.configuration import read_configuration

            configured = read_configuration(args["config"])
        flags = {s.name: args[s.name] for s in SETTINGS if s.name in args}
        settings = load(flags, configured=configured.settings if configured else None)
        args["configured"] = configured.sources if configured else ()
        result, text = _run(args, settings)
        print(json.dumps(result, ensure_ascii=False) if args["json"] else text)
        sys.stdout.flush()
    except PilotlightError as error:
        print(f"pilotlight: {error}", file=sys.stderr)
        return 2
    except MemoryError:
        from indexer.memory import SHORT

        print(f"pilotlight: {SHORT}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("pilotlight: stopped; the live index is as it was", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left; say nothing at exit
        return 1
    failed = [check["what"] for check in result.get("checks", ()) if not check["ok"]]
    if failed:
        print(f"pilotlight: {failed[0]}", file=sys.stderr)
    return 2 if failed else 0


def _run(args: dict[str, Any], settings: Settings) -> tuple[dict[str, Any], str]:
    verb = args["verb"]
    if is_url(settings.index):
        from rag import replicas

        replicas.ready_copy(settings, verb)
    if verb == "index":
        from indexer import memory

        memory.prepare()
    if verb == "doctor":
        from rag.doctor import as_text as doctor_text
        from rag.doctor import examine

        report = examine(settings)
        return report, doctor_text(report)
    # a verb imports what it needs: some need a model, and most do not
    if verb in {"index", "remove", "search", "eval", "warm", "mcp", "serve"}:
        return _run_command(args, settings)
    from rag import upkeep

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
    from rag import commands

    verb = args["verb"]
    if verb == "index":
        options = {name: args[name] for name in ("configured", "add", "full", "quiet", "watch", "every")}
        return commands.index(args["sources"], settings, **options)
    if verb == "remove":
        return commands.remove(args["sources"], settings)
    if verb == "search":
        return commands.search(
            args["query"],
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


def _add_mode(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--mode", default="hybrid", help="how passages are found: hybrid (default), dense or lexical")


def _add_settings(verb: argparse.ArgumentParser, name: str) -> None:
    group = verb.add_argument_group("settings", "each can also be set by the environment variable in brackets")
    for setting in SETTINGS:
        if setting.group not in _GROUPS[name] or setting.name in _UNUSED.get(name, ()):
            continue
        text = f"{setting.help} (default: {setting.default!s}) [{setting.variable}]".replace("%", "%%")
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
