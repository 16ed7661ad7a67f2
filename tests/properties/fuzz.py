"""Feeds changed bytes to one target, or to all in turn: `python -m tests.properties.fuzz [TARGET] [SECONDS] [SEED]`.

Where atheris is installed, coverage guides the changes. Prints the bytes that a target trips over.
"""

import random
import sys
import time
import traceback
from importlib import import_module
from importlib.util import find_spec

# what is instrumented, as doing so takes long: for each target whose code is not in indexer.read
ROOMS = {
    "query": "indexer.generation.lexical", "robots": "indexer.crawl.robots", "filter": "indexer.filter",
    "tools": "rag.adapters", "search": "web.api", "packed model": "embedder.model", "safetensors": "embedder.model",
    "archive": "indexer.publish",
}  # fmt: skip
LIBRARIES = ("email", "docutils.parsers")


def main(name: str = "all", seconds: str = "60", seed: str = "0") -> int:
    """Return 1 if something was found."""
    if name != "all" and find_spec("atheris"):
        import atheris  # type: ignore[import-not-found]

        with atheris.instrument_imports(include=[ROOMS.get(name, "indexer.read"), *LIBRARIES]):
            target = import_module("tests.properties.targets").make_targets()[name]
        atheris.Setup([sys.argv[0], f"-max_total_time={seconds}", f"-seed={seed}", "-max_len=20000"], target.run)
        atheris.Fuzz()
    module = import_module("tests.properties.targets")
    targets = module.make_targets()
    dice, found = random.Random(seed), 0
    for each, target in targets.items() if name == "all" else [(name, targets[name])]:
        end, runs, seen = time.monotonic() + float(seconds), 0, set()
        while time.monotonic() < end:
            data = module.changed(dice.choice(target.seeds), dice)
            runs += 1
            try:
                target.run(data)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
                place = traceback.extract_tb(error.__traceback__)[-1]
                if (key := (type(error), place.filename, place.lineno)) not in seen:
                    seen.add(key)
                    print(f"{each}: {type(error).__name__}: {error} at {place.filename}:{place.lineno}\n  {data!r}")
        found += len(seen)
        print(f"{each}: {runs:,} runs, {len(seen)} found", flush=True)
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
