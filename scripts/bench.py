#!/usr/bin/env python3
"""Measure Pilotlight beside others, taking turns in one run on the same cores and texts.

embed: text in, unit vector out, beside LangChain, SentenceTransformer, torch.compile, ONNX Runtime and OpenVINO
models: text in, unit vector out with each of --models, beside the first; memory of a process with one of them
query: embed a query and answer a query, inside one process, beside the published LangChain script
index: index the same chunks, beside the script
peers: build, quality and load beside Chroma, LanceDB, LangChain, Haystack and txtai, on a dataset (--source)
search: answer a query over --chunks perturbed passages, and its parts: time, recall, filters, memory, bytes a chunk
cold:  a new process, from its start to the first correct answer, beside the script
overload: a server under wrk, with 16 clients beside Flask, and with ten times as many for --repeat seconds;
    then the parts of a search, each with its time of the processor
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before anything reads it: every model here is a folder

from benchmark.corpus import write_reference
from benchmark.embed import LENGTHS, embed, models
from benchmark.measure import OtherWork, as_text, describe
from benchmark.search_peers import peers
from benchmark.verbs import VERBS


def main() -> int:
    """Run one verb; print a Markdown table, or JSON with --json."""
    args = _parser().parse_args()
    with tempfile.TemporaryDirectory(prefix="pilotlight-bench-") as folder:
        work = args.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        source = args.source or write_reference(work / "reference")
        if args.verb == "peers":
            others = OtherWork()
            rows = peers(source, args.environments, args.repeat or 10, work)
            facts = {"others_cores": others.cores()}
        elif args.verb == "embed":
            chunks = 256 if args.chunks is None else args.chunks
            rows, facts = embed(source, chunks, args.repeat or 12, work, lengths=args.lengths, only=args.only)
        elif args.verb == "models":
            rows, facts = models(args.models, source, args.chunks or 100, args.repeat or 30)
        else:
            run, repeat, chunks = VERBS[args.verb]
            others = OtherWork()
            rows = run(source, args.chunks or chunks, args.repeat or repeat, work)
            facts = {"others_cores": others.cores()}
    report = {"verb": args.verb, "machine": describe(), **facts, "rows": rows}
    if args.out:
        args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report, indent=1) if args.json else as_text(rows, facts))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("embed", "models", "peers", *VERBS))
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.add_argument("--out", type=Path, help="write the JSON object to a file too")
    parser.add_argument("--source", type=Path, help="folder of real text (default: Python's language reference)")
    parser.add_argument(
        "--work", type=Path, help="search: keep the corpus and its index in this folder, and use them again"
    )
    parser.add_argument(
        "--environments", type=Path, default=Path("environments"), help="peers: folder of their virtual environments"
    )
    parser.add_argument("--chunks", type=int, help="passages used at most; embed: 0 leaves the bulk out")
    parser.add_argument("--repeat", type=int, help="turns (default: enough for a steady median)")
    parser.add_argument(
        "--lengths",
        type=lambda text: tuple(map(int, text.split(","))),
        default=LENGTHS,
        help="embed: tokens of the single texts, as in 8,15",
    )
    parser.add_argument(
        "--models",
        type=lambda text: text.split(","),
        default=("all-MiniLM-L6-v2", "multilingual-e5-small"),
        help="models: names or folders",
    )
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=(), help="embed: contestants with one of these words"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
