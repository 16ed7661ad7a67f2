"""The speed of Arm's tiles in their inner loops, computed by llvm-mca: in scripts/, `python -m benchmark.arm_loops`.

Needs g++-aarch64-linux-gnu and llvm-19. Each loop is taken from the assembly that the compiler makes of a kernel, so
the figures are of the code as it is. Caches and memory are not in them.
"""

import re
import subprocess

from embedder.engines import library

PROCESSORS = ("neoverse-v1", "neoverse-v2", "neoverse-n2", "neoverse-n1")
MULTIPLY_ADDS = {"bfmmla": 16, "usmmla": 32, "sdot": 16, "fmla": 4}  # of one instruction
_LOOPS = {"neon_mmla": ("bfmmla", "usmmla", "fmla"), "neon_dot": ("sdot",)}
_TALLEST = {"bfmmla": 24, "usmmla": 24, "sdot": 48, "fmla": 24}  # instructions in the loop of the tallest tile
_ROUNDS = 500
_BACK = re.compile(r"b\.?(?:ne|lt|gt|le|ge|eq|hi|ls|cc|cs|mi|pl)\s+(\.L\d+)")


def loops(assembly: str) -> list[list[str]]:
    """Return the instructions of each innermost loop."""
    found: list[list[str]] = []
    label, block = "", list[str]()
    for line in map(str.strip, assembly.splitlines()):
        if begin := re.match(r"(\.L\d+):", line):
            label, block = begin[1], []
        elif line and not line.startswith((".", "//")) and not line.endswith(":"):
            block.append(line)
            back = _BACK.match(line)
            if back and back[1] == label:
                found.append(block)
    return found


def rate(loop: list[str], multiply_adds: int, processor: str) -> float | None:
    """Return multiply-adds a cycle, or None where the processor does not have the instructions."""
    line = ["llvm-mca-19", "-mtriple=aarch64", f"-mcpu={processor}", f"-iterations={_ROUNDS}"]
    done = subprocess.run(line, input="\n".join(loop), text=True, capture_output=True, check=False)
    cycles = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
    return multiply_adds * _ROUNDS / int(cycles[1]) if cycles else None


def main() -> None:
    """Print a row for each instruction."""
    print("| instruction |", " | ".join(PROCESSORS), "|")
    print("|---" * (len(PROCESSORS) + 1) + "|")
    for isa, instructions in _LOOPS.items():
        line = ["aarch64-linux-gnu-g++", "-O2", "-std=c++17", "-fPIC", "-fno-math-errno", "-S", "-o", "-"]
        line += [*library.ISAS["aarch64"][isa].split(), str(library.SOURCES / f"isa_{isa}.cpp")]
        assembly = subprocess.run(line, text=True, capture_output=True, check=True).stdout
        for instruction in instructions:
            for loop in loops(assembly):
                count = sum(text.startswith(instruction + "\t") for text in loop)
                if count == _TALLEST[instruction]:
                    rates = [rate(loop, count * MULTIPLY_ADDS[instruction], name) for name in PROCESSORS]
                    print(f"| {instruction} |", " | ".join(f"{x:.1f}" if x else "" for x in rates), "|")
                    break


if __name__ == "__main__":
    main()
