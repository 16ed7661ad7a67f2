"""Mutation testing: `python -m tests.properties.mutate FILE,... SAMPLE SEED TEST...` prints changes no test notices.

Works on a copy of the checkout. A change swaps a comparison, an operator, `and` and `or`, or a constant, leaves out a
`not`, or returns None. Constants of a module are left alone, as many are limits that are as good with one more; so are
options of classes, such as `frozen`, and unions of types, which fail at the import.
"""

import ast
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


def change(node: ast.AST) -> bool:
    """Change a node, if it is one of those that are changed; return whether it was."""
    match node:
        case ast.Compare(ops=[first, *_]) if type(first) in SWAPS:
            node.ops[0] = SWAPS[type(first)]()
        case ast.BoolOp() | ast.BinOp() if type(node.op) in SWAPS:
            node.op = SWAPS[type(node.op)]()
        case ast.Constant(value=bool()):
            node.value = not node.value
        case ast.Constant(value=int() | float()):
            node.value += 1
        case ast.UnaryOp(op=ast.Not()):
            node.op = ast.UAdd()
            node.operand = ast.Call(ast.Name("bool", ast.Load()), [node.operand], [])
        case ast.Return(value=ast.expr()) if not isinstance(node.value, ast.Constant):
            node.value = ast.Constant(None)
        case _:
            return False
    return True


def mutant(source: str, place: int) -> tuple[int, str, str] | None:
    """Change the node at a place of a module; return its line, what was changed, and the module."""
    tree = ast.parse(source)
    node = next(each for number, each in enumerate(ast.walk(tree)) if number == place)
    before = ast.unparse(node) if isinstance(node, ast.expr | ast.stmt) else ""
    if not change(node):
        return None
    return getattr(node, "lineno", 0), f"{before[:80]}  →  {ast.unparse(node)[:80]}", ast.unparse(tree)


def left_alone(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes of a module that are not changed."""
    for node in ast.walk(tree):
        parts = [*node.keywords, *node.decorator_list] if isinstance(node, ast.ClassDef) else []
        parts += [node] if isinstance(node, ast.Assign) and node in tree.body else []
        yield from (each for part in parts for each in ast.walk(part))
        for annotation in filter(None, (getattr(node, name, None) for name in ("annotation", "returns"))):
            yield from (each for each in ast.walk(annotation) if isinstance(each, ast.BinOp))


def main(names: str, sample: str, seed: str, *tests: str) -> int:
    """Return the number of mutants that survive."""
    root, survivors, places = Path(__file__).resolve().parents[2], 0, []
    sources = {name: (root / name).read_text() for name in names.split(",")}
    for name, source in sources.items():
        tree = ast.parse(source)
        ignored = {*left_alone(tree)}
        places += [(name, place) for place, node in enumerate(ast.walk(tree)) if node not in ignored and change(node)]
    places = random.Random(seed).sample(places, min(int(sample), len(places)))
    chosen = [(name, *found) for name, place in places if (found := mutant(sources[name], place))]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        checkout = shutil.copytree(
            root, Path(folder) / "checkout", ignore=shutil.ignore_patterns(".git", ".venv", ".*_cache", "__pycache__")
        )
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--seed", seed, *tests]
        environment = os.environ | {"PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"}
        for name, line, what, module in sorted(chosen):
            (checkout / name).write_text(module)
            try:
                done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, timeout=300)
                is_killed = done.returncode not in (0, 5)
            except subprocess.TimeoutExpired:
                is_killed = True
            (checkout / name).write_text(sources[name])
            survivors += not is_killed
            print(f"{'killed  ' if is_killed else 'SURVIVED'} {name}:{line}: {what}", flush=True)
    print(f"{names}: {len(chosen) - survivors} of {len(chosen)} killed", flush=True)
    return survivors


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) > 0)
