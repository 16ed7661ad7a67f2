#!/usr/bin/env python3
"""Measure Pilotlight beside others, taking turns in one run on the same cores and texts.

embed: text in, unit vector out, beside LangChain, SentenceTransformer, torch.compile, ONNX Runtime and OpenVINO
query: embed a query and answer a query, inside one process, beside the published LangChain script
index: index the same chunks, beside the script
search: answer a query over --chunks perturbed passages, and its parts: time, recall, filters, memory, bytes a chunk
cold:  a new process, from its start to the first correct answer, beside the script; a serving worker's memory
overload: a server under wrk, with 16 clients beside Flask, and with ten times as many for --repeat seconds
checkouts: searches and starts of this checkout beside those of another one, --against FOLDER, with its own .venv
"""

import argparse
import json
import os
import sys
import tempfile
from functools import partial
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before anything reads it: every model here is a folder

from benchmark import machine
from benchmark.corpus import write_reference
from benchmark.embed import LENGTHS, embed
from benchmark.report import Result, as_text
from benchmark.verbs import VERBS


def main() -> int:
    """Run one verb; print a Markdown table, or JSON with --json."""
    parser = _parser()
    args = parser.parse_args()
    if args.verb == "checkouts" and args.against is None:
        parser.error("checkouts needs --against FOLDER, another checkout")
    with tempfile.TemporaryDirectory(prefix="pilotlight-bench-") as folder:
        work = args.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        source = args.source or write_reference(work / "reference")
        result = _run(args, source, work)
    report = {"verb": args.verb, "machine": machine.describe(), **result.facts, "rows": result.rows}
    if args.out:
        args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report, indent=1) if args.json else as_text(result))
    return 0


def _run(args: argparse.Namespace, source: Path, work: Path) -> Result:
    if args.verb == "embed":
        chunks = 256 if args.chunks is None else args.chunks
        options = {"lengths": args.lengths, "only": args.only}
        return embed(source, chunks, args.repeat or 12, work, **options)
    run, repeat, chunks = VERBS[args.verb]
    if args.verb == "checkouts":
        run = partial(run, against=args.against)
    others = machine.OtherWork()
    rows = run(source, args.chunks or chunks, args.repeat or repeat, work)
    return Result(rows, {"others_cores": others.cores()})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("embed", *VERBS))
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.add_argument("--out", type=Path, help="write the JSON object to a file too")
    parser.add_argument("--source", type=Path, help="folder of real text (default: Python's language reference)")
    parser.add_argument(
        "--work", type=Path, help="search: keep the corpus and its index in this folder, and use them again"
    )
    parser.add_argument("--against", type=Path, help="checkouts: folder of the other one")
    parser.add_argument("--chunks", type=int, help="passages used at most; embed: 0 leaves the bulk out")
    parser.add_argument("--repeat", type=int, help="turns (default: enough for a steady median)")
    parser.add_argument(
        "--lengths", type=_numbers, default=LENGTHS, help="embed: tokens of the single texts, as in 8,15"
    )
    parser.add_argument(
        "--only", type=_words, default=(), help="embed: contestants whose name holds one of these words"
    )
    return parser


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)


if __name__ == "__main__":
    sys.exit(main())
