"""Print the test coverage of each folder of the packages, from a JSON report of coverage.py.

Code that tests run only in separate processes, such as readers and the command line, counts as not covered.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path, PurePath

BAR = 90.0


def main(report: str) -> None:
    """Print the covered percentage of lines and branches of each folder, lowest first. Mark folders below `BAR`."""
    rooms = defaultdict[str, list[int]](lambda: [0, 0])
    for name, entry in json.loads(Path(report).read_text())["files"].items():
        summary = entry["summary"]
        counts = rooms[str(PurePath(name).parent)]
        counts[0] += summary["covered_lines"] + summary["covered_branches"]
        counts[1] += summary["num_statements"] + summary["num_branches"]
    shares = {room: 100 * covered / max(1, total) for room, (covered, total) in rooms.items()}
    for room, share in sorted(shares.items(), key=lambda item: item[1]):
        print(f"{room:40}{share:6.1f} %{'  below the bar' if share < BAR else ''}")


if __name__ == "__main__":
    main(*sys.argv[1:])
