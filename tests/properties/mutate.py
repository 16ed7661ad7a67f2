"""Mutation testing: `python -m tests.properties.mutate FILE SAMPLE SEED TEST...` prints changes that no test notices.

Works on a copy of the checkout. A change swaps a comparison, an operator, `and` and `or`, or a constant, leaves out a
`not`, or returns None.
"""

import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.BitOr: ast.BitAnd,
}  # fmt: skip


def mutants(tree: ast.Module) -> Iterator[tuple[int, str, ast.Module]]:
    """Yield the line, the change and the changed module of every mutant."""
    for place, node in enumerate(ast.walk(tree)):
        changed = copy.deepcopy(tree)
        [target] = [each for number, each in enumerate(ast.walk(changed)) if number == place]
        before = ast.unparse(node) if isinstance(node, ast.expr | ast.stmt) else ""
        match target:
            case ast.Compare(ops=[first, *_]) if type(first) in SWAPS:
                target.ops[0] = SWAPS[type(first)]()
            case ast.BoolOp() | ast.BinOp() if type(target.op) in SWAPS:
                target.op = SWAPS[type(target.op)]()
            case ast.Constant(value=bool()):
                target.value = not target.value
            case ast.Constant(value=int() | float()):
                target.value += 1
            case ast.UnaryOp(op=ast.Not()):
                target.op = ast.UAdd()
            case ast.Return(value=ast.expr()) if not isinstance(target.value, ast.Constant):
                target.value = ast.Constant(None)
            case _:
                continue
        yield getattr(node, "lineno", 0), f"{before[:80]}  →  {ast.unparse(target)[:80]}", changed


def main(name: str, sample: str, seed: str, *tests: str) -> int:
    """Return the number of mutants that survive."""
    root, survivors = Path(__file__).resolve().parents[2], 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        checkout = shutil.copytree(
            root, Path(folder) / "checkout", ignore=shutil.ignore_patterns(".git", ".venv", ".*_cache", "__pycache__")
        )
        found = [*mutants(ast.parse((root / name).read_text()))]
        chosen = random.Random(seed).sample(found, min(int(sample), len(found)))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--seed", seed, *tests]
        environment = os.environ | {"PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"}
        for line, change, tree in sorted(chosen, key=lambda each: each[0]):
            (checkout / name).write_text(ast.unparse(tree))
            try:
                done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, timeout=300)
                is_killed = done.returncode not in (0, 5)
            except subprocess.TimeoutExpired:
                is_killed = True
            survivors += not is_killed
            print(f"{'killed  ' if is_killed else 'SURVIVED'} {name}:{line}: {change}", flush=True)
    print(f"{name}: {len(chosen) - survivors} of {len(chosen)} killed ({len(found)} mutants)", flush=True)
    return survivors


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) > 0)
