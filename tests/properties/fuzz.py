"""Feeds changed bytes to one target, or to all: `python -m tests.properties.fuzz [TARGET] [SECONDS] [SEED]`.

Where atheris is installed, coverage guides the changes, and a folder keeps the inputs that reach new code for another
run. Prints the bytes that a target fails on, once for each place in the code.
"""

import random
import sys
import tempfile
import time
import traceback
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

INSTRUMENTED = ("embedder", "indexer", "rag", "web", "email", "docutils")  # whole packages, or none of their modules
CORPUS = Path(tempfile.gettempdir(), "pilotlight-fuzz")


class Fuzzer:
    """Runs targets, and remembers where they failed."""

    def __init__(self, targets: dict[str, Any]) -> None:
        self.targets, self.names = targets, [*targets]
        self.seen: set[tuple[str, str, int | None]] = set()

    def run(self, name: str, data: bytes) -> None:
        """Run a target, and print an error that is new."""
        try:
            self.targets[name].run(data)
        except Exception as error:  # noqa: BLE001 - any error is a finding
            place = traceback.extract_tb(error.__traceback__)[-1]
            if (key := (type(error).__name__, place.filename, place.lineno)) not in self.seen:
                self.seen.add(key)
                where = f"{place.filename}:{place.lineno}"
                print(f"{name}: {key[0]}: {error} at {where}\n  {data!r}", flush=True)

    def run_chosen(self, data: bytes) -> None:
        """Run the target that the first byte chooses."""
        if data:
            self.run(self.names[data[0] % len(self.names)], data[1:])

    def write_seeds(self, folder: Path) -> None:
        """Write the first inputs of each target."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, name in enumerate(self.names):
            for place, seed in enumerate(self.targets[name].seeds):
                (folder / f"{name.replace(' ', '-')}-{place}").write_bytes(bytes([number]) + seed)


def main(name: str = "all", seconds: str = "60", seed: str = "0") -> int:
    """Return 1 if something was found; under atheris, the process ends before."""
    is_guided = find_spec("atheris") is not None
    if is_guided:
        atheris = import_module("atheris")
        with atheris.instrument_imports(include=INSTRUMENTED):
            module = import_module("tests.properties.targets")
    else:
        module = import_module("tests.properties.targets")
    targets = module.make_targets()
    fuzzer = Fuzzer(targets if name == "all" else {name: targets[name]})
    if is_guided:
        fuzzer.write_seeds(corpus := CORPUS / name.replace(" ", "-"))
        limits = (f"-max_total_time={seconds}", f"-seed={seed}", "-timeout=300", "-rss_limit_mb=4096")
        atheris.Setup([sys.argv[0], *limits, str(corpus)], fuzzer.run_chosen)
        atheris.Fuzz()
    dice = random.Random(seed)
    for each, target in fuzzer.targets.items():
        end, runs, found = time.monotonic() + float(seconds), 0, len(fuzzer.seen)
        while time.monotonic() < end:
            fuzzer.run(each, module.changed(dice.choice(target.seeds), dice))
            runs += 1
        print(f"{each}: {runs:,} runs, {len(fuzzer.seen) - found} found", flush=True)
    return int(bool(fuzzer.seen))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
