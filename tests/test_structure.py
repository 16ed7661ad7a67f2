"""What DESIGN promises about the shape of the code, held by looking at the code."""

import ast
import importlib
import re
from collections.abc import Collection, Iterator
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAY_IMPORT = {  # every package, lowest first: which of the others it may import
    "embedder": set(),
    "indexer": {"embedder"},
    "rag": {"embedder", "indexer"},
    "web": {"rag"},
}
# a program of a package that the one that becomes it may not import otherwise
STARTED = {("rag.commands.serve", "web.server")}
PUBLIC = {"embedder": {"EmbedderConfig", "Embeddings"}, "indexer": set(), "rag": {"Client"}, "web": set()}
# written so that this file does not hold what it looks for
MACHINE_PATH = re.compile(r"(?<![\w.~$}/-])/(?:work|root|tmp/w|tmp/[a-z]{1,2}/)(?=/|\b)")


def python_files() -> list[Path]:
    return sorted(path for folder in (*MAY_IMPORT, "scripts", "tests") for path in (ROOT / folder).rglob("*.py"))


def repository_files() -> list[Path]:
    """Return all files of text."""
    folders = (".ci", "docs", "scripts", "tests", *MAY_IMPORT)
    found = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]  # of a worktree
    found += [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    return sorted(path for path in found if "__pycache__" not in path.parts and path.suffix != ".png")


def imports(path: Path) -> Iterator[str]:
    """Top-level packages that a file imports anywhere, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield path.relative_to(ROOT).parts[0] if node.level else (node.module or "").partition(".")[0]


def relative(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_one_way(package):
    allowed = MAY_IMPORT[package] | {package}
    ours = {*MAY_IMPORT, "scripts", "tests"}
    wrong = {
        (str(path.relative_to(ROOT)), name)
        for path in (ROOT / package).rglob("*.py")
        for name in imports(path)
        if name in ours - allowed
    }
    assert wrong == set()


def modules() -> dict[str, Path]:
    """Every module of the packages by its dotted name; a package is its `__init__`."""
    found = {}
    for package in MAY_IMPORT:
        for path in (ROOT / package).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


def mentions(path: Path, known: Collection[str]) -> Iterator[str]:
    """Modules of ours that a file imports, only for its types too, or by name, or starts with `-m`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in known else str(node.module) for name in names)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_module":
            yield from (str(arg.value) for arg in node.args if isinstance(arg, ast.Constant) and arg.value in known)
        elif isinstance(node, ast.List):
            values = [item.value if isinstance(item, ast.Constant) else None for item in node.elts]
            yield from (str(name) for flag, name in pairwise(values) if flag == "-m" and name in known)


def arrows() -> set[tuple[str, str]]:
    """Imports between what stands in one folder, files and folders alike."""
    known = modules()
    found = set()
    for name, path in known.items():
        for other in set(mentions(path, known)) - {name}:
            ours, theirs = name.split("."), other.split(".")
            parts = next((n for n, (a, b) in enumerate(zip(ours, theirs, strict=False), 1) if a != b), None)
            if parts is not None and (name, other) not in STARTED:  # not a package and what is in it
                found.add((".".join(ours[:parts]), ".".join(theirs[:parts])))
    return found


def test_in_every_folder_imports_point_one_way():
    graph: dict[str, set[str]] = {}
    for name, other in arrows():
        graph.setdefault(name, set()).add(other)
    assert list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_room_says_what_it_is(package):
    for folder in {path.parent for path in (ROOT / package).rglob("*.py")}:
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))), folder


@pytest.mark.parametrize(("package", "names"), PUBLIC.items())
def test_public_names(package, names):
    module = importlib.import_module(package)
    assert set(getattr(module, "__all__", ())) == names
    for name in names:
        assert getattr(module, name).__name__ == name
    if not names:  # nothing slips out of a package that exports nothing
        tree = ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))
        assert [type(node).__name__ for node in tree.body] == ["Expr"]


def test_no_path_of_the_machine_it_was_written_on():
    found = {
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in repository_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if MACHINE_PATH.search(line)
    }
    assert found == set()


def test_no_pickle():
    wrong = [path for path in python_files() if {"pickle", "joblib", "dill", "cloudpickle"} & set(imports(path))]
    assert relative(wrong) == []


def test_no_folder_has_a_name_that_tools_skip():
    assert {"build", "dist"} & {part for path in python_files() for part in path.relative_to(ROOT).parts} == set()


def test_no_function_has_many_positional_parameters():
    wrong = set()
    for path in (path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                positional = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
                if len(positional) - (positional[:1] in (["self"], ["cls"])) > 7:
                    wrong.add(f"{path.relative_to(ROOT)}: {node.name}")
    assert wrong == set()
