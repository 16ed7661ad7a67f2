#!/usr/bin/env python3
"""Measure Pilotlight against the published LangChain script, taking turns in one run on the same texts.

query: embed a query and answer a query, inside one process
embed: index the same chunks
cold:  a new process, from its start to the first correct answer
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from benchmark import machine
from benchmark.corpus import write_reference
from benchmark.verbs import VERBS, Row


def main() -> int:
    """Run one verb; print a Markdown table, or JSON with --json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    parser.add_argument("--source", type=Path, help="folder of real text (default: Python's language reference)")
    parser.add_argument("--chunks", type=int, default=2000, help="passages used at most (default: 2000)")
    parser.add_argument("--repeat", type=int, help="turns (default: enough for a steady median)")
    args = parser.parse_args()
    run, repeat = VERBS[args.verb]
    with tempfile.TemporaryDirectory(prefix="pilotlight-bench-") as folder:
        work = Path(folder)
        source = args.source or write_reference(work / "reference")
        rows = run(source, args.chunks, args.repeat or repeat, work)
    result = {"verb": args.verb, "machine": machine.describe(), "rows": rows}
    print(json.dumps(result, indent=1) if args.json else as_table(rows))
    return 0


def as_table(rows: list[Row]) -> str:
    """Lay rows out as a Markdown table."""
    lines = ["| what | contestant | median ms | p95 ms | runs | times faster |", "|---|---|---|---|---|---|"]
    fields = ("name", "contestant", "median_ms", "p95_ms", "runs", "ratio")
    lines += ["| " + " | ".join(str(row[field]) for field in fields) + " |" for row in rows]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
