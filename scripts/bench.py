#!/usr/bin/env python3
"""Compare Pilotlight with other software in one run, on the same cores and texts.

embed: time to embed texts; with LangChain, SentenceTransformer, torch.compile, ONNX Runtime and OpenVINO
peers: build time, quality and load on a BEIR dataset (--source); with Chroma, LanceDB, LangChain, Haystack and txtai
search: time of a search and of its steps in an index of --chunks passages, with and without filters; recall; index size
cold: time from the start of a process to its first correct answer; with a LangChain script
overload: load of a server by 1, 16 and 160 clients of wrk (160 for --repeat seconds), and CPU time of each component
    of a search
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from benchmark.cold import cold
from benchmark.corpus import write_reference
from benchmark.embed import embed
from benchmark.measure import OtherWork, as_text, describe
from benchmark.overload import overload
from benchmark.scale import search
from benchmark.search_peers import peers

VERBS = {  # name → (function, default of --repeat, default of --chunks)
    "search": (search, 5, 10_000),
    "cold": (cold, 7, 10_000),
    "overload": (overload, 60, 10_000),  # --repeat is in seconds
}


def main() -> int:
    """Run one benchmark, and print the results as a Markdown table or, with --json, as JSON."""
    args = _parser().parse_args()
    with tempfile.TemporaryDirectory(prefix="pilotlight-bench-") as folder:
        work = args.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        source = args.source or write_reference(work / "reference")
        other_work = OtherWork()
        if args.verb == "peers":
            rows = peers(source, args.environments, args.repeat or 10, work)
        elif args.verb == "embed":
            chunks = 256 if args.chunks is None else args.chunks
            rows = embed(source, chunks, args.repeat or 12, work, args.only)
        else:
            run, repeat, chunks = VERBS[args.verb]
            rows = run(source, args.chunks or chunks, args.repeat or repeat, work)
    facts = {"other_cores": other_work.cores()}
    report = {"verb": args.verb, "machine": describe(), **facts, "rows": rows}
    if args.out:
        args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report, indent=1) if args.json else as_text(rows, facts))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("embed", "peers", *VERBS))
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.add_argument("--out", type=Path, help="write the JSON object to a file too")
    parser.add_argument("--source", type=Path, help="folder of real text (default: Python's language reference)")
    parser.add_argument("--work", type=Path, help="search, peers, overload: folder for indexes, reused by later runs")
    parser.add_argument("--environments", type=Path, default=Path("environments"), help="peers: virtual environments")
    parser.add_argument("--chunks", type=int, help="maximum number of passages; embed: 0 skips the batch of passages")
    parser.add_argument("--repeat", type=int, help="number of repetitions (default: enough for a steady median)")
    only = "embed: measure only software whose name contains one of these words, separated by commas"
    parser.add_argument("--only", type=lambda text: text.split(","), default=(), help=only)
    return parser


if __name__ == "__main__":
    sys.exit(main())
