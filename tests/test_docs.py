"""The documentation against the program: settings, flags, command lines, links and examples."""

import ast
import importlib
import importlib.util
import re
import shlex
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token
from prometheus_client.parser import text_string_to_metric_families

from embedder import Embeddings
from embedder.errors import PilotlightError
from indexer.pipeline.progress import BuildReport
from indexer.read.markup.markdown import render
from rag import Client
from rag.commands.cli import VERBS
from rag.query.results import Answer, Hit
from rag.settings import SETTINGS, load
from tests.building import build_index
from tests.command_lines import read
from web.metrics import Metrics

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
TEXTS = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
PACKAGES = ("embedder", "indexer", "rag", "web")
SHELLS = {"sh", "console"}
# read by completion, by scripts/run, by mcp, for a store, and with torch by the embedder; no settings
SCRIPT_VARIABLES = {f"PILOTLIGHT_{name}" for name in ("COMPLETE", "DOCS_PORT", "ISA", "KEY", "MILVUS_TOKEN")}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tokens_of(path: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8"))


def fences(path: Path, languages: set[str]) -> list[str]:
    return [token.content for token in tokens_of(path) if token.type == "fence" and token.info in languages]


def code_spans(text: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", text))


# The reference


def test_the_reference_is_what_the_program_says():
    spec = importlib.util.spec_from_file_location("write_reference", ROOT / "scripts" / "write_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (DOCS / "reference.md").read_text(encoding="utf-8") == module.page(), "run scripts/write_reference.py"


# Command lines


def command_lines() -> list[tuple[str, list[str]]]:
    """Every quoted run of `pilotlight` or of the rebuild script, with what follows the command."""
    found = []
    for path in TEXTS[:-1]:  # the changelog tells of commands that are gone
        for block in fences(path, SHELLS):
            for line in block.replace("\\\n", " ").splitlines():
                found += [(name_of(path), arguments) for arguments in _runs(line.removeprefix("$ "))]
        for token in tokens_of(path):
            for span in token.children or ():
                if span.type == "code_inline" and span.content.startswith("pilotlight "):
                    found += [(name_of(path), arguments) for arguments in _runs(span.content)]
    return found


def _runs(line: str) -> list[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    runs: list[list[str]] = []
    command: list[str] = []
    for word in [*lexer, ";"]:
        if word[0] not in ";&|<>":
            command.append(word)
            continue
        for place, part in enumerate(command):
            is_run = part == "pilotlight" or part.endswith("/bin/pilotlight")
            if is_run and not (place and command[place - 1].startswith(("-", "cd"))):
                runs.append(command[place + 1 :])
            elif Path(part).name == "rebuild_index.py":
                runs.append(["index", *command[place + 1 :]])
        command = []
    return runs


def test_there_are_command_lines_to_check():
    assert len(command_lines()) > 20


@pytest.mark.parametrize(("page", "arguments"), command_lines(), ids=lambda value: str(value)[:60])
def test_command_line_is_understood(page, arguments):
    if arguments in (["--version"], ["COMMAND"], ["COMMAND", "--help"]):
        return
    if len(arguments) == 1 and arguments[0] in VERBS:
        return  # the name of a verb rather than a whole command
    try:
        parsed = read(arguments)
    except PilotlightError as error:
        pytest.fail(f"{page}: {error}")
    load({setting.name: parsed[setting.name] for setting in SETTINGS if parsed.get(setting.name) is not None}, {})


def test_variables_exist():
    known = {setting.variable for setting in SETTINGS} | SCRIPT_VARIABLES
    for path in TEXTS:
        quoted = set(re.findall(r"PILOTLIGHT_[A-Z_]+\b", path.read_text(encoding="utf-8")))
        assert quoted <= known, name_of(path)


def test_json_fields_are_described():
    report = BuildReport().as_dict()
    assert set(report) <= code_spans((DOCS / "reference.md").read_text(encoding="utf-8"))
    fields = {*Answer.__struct_fields__, *Hit.__struct_fields__}
    assert fields <= code_spans((DOCS / "searching.md").read_text(encoding="utf-8"))


def test_metrics_are_the_table():
    metrics = Metrics(lambda: {"ready": True})
    metrics.note("requests_refused", "queue", "")
    exposed = {family.name: family for family in text_string_to_metric_families(metrics.text().decode())}
    page = (DOCS / "running.md").read_text(encoding="utf-8")
    table = dict(re.findall(r"^\| `(pilotlight_\w+?)(?:_total)?` \| ([^|]*)\|", page, re.MULTILINE))
    assert set(table) == set(exposed)
    for name, labels in table.items():
        used = {label for sample in exposed[name].samples for label in sample.labels} - {"le"}
        assert used <= code_spans(labels), name


def test_alerts_are_about_metrics_there_are():
    [rules] = [block for block in fences(DOCS / "running.md", {"yaml"}) if "alert:" in block]
    groups = yaml.safe_load(rules)["groups"]
    named = {name for rule in groups[0]["rules"] for name in re.findall(r"pilotlight_\w+", rule["expr"])}
    page = (DOCS / "running.md").read_text(encoding="utf-8")
    assert {name.removesuffix("_bucket") for name in named} <= code_spans(page)


# Pages


def test_readme_links_to_every_page():
    linked = re.findall(r"\(docs/([\w-]+)\.md\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert set(linked) == {path.stem for path in PAGES}


def test_documentation_is_short():
    words = {path.stem: len(path.read_text(encoding="utf-8").split()) for path in [ROOT / "README.md", *PAGES]}
    assert len(words) <= 14
    assert sum(words.values()) <= 32_000


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_links_lead_somewhere(path):
    for token in tokens_of(path):
        for span in token.children or ():
            target = str(span.attrGet("href")) if span.type == "link_open" else ""
            if not target or "://" in target:
                continue
            name, _, anchor = target.partition("#")
            page = path.parent / name if name else path
            assert page.is_file(), target
            if anchor:
                assert anchor in sections(page), target


@cache
def sections(page: Path) -> dict[str, str]:
    """Return the text of each section of a page, heading included, by its anchor."""
    parts = re.split(r'<h\d[^>]*id="([^"]+)"[^>]*>', render(page.read_text(encoding="utf-8")).html)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def stems(text: str) -> set[str]:
    return {word[:5] for word in re.findall(r"[a-z0-9]{3,}", text.lower())} - {"the", "and", "how", "for"}


@pytest.mark.parametrize("path", TEXTS[:-1], ids=name_of)
def test_links_say_what_they_lead_to(path):
    """A word of the link has to be in the section that it leads to, or in the title of the page."""
    for token in tokens_of(path):
        spans = token.children or []
        for start, span in enumerate(spans):
            target = str(span.attrGet("href")) if span.type == "link_open" else "://"
            name, _, anchor = target.partition("#")
            page = path.parent / name if name else path
            if "://" in target or page.suffix != ".md":
                continue
            end = next(at for at in range(start, len(spans)) if spans[at].type == "link_close")
            text = " ".join(span.content for span in spans[start:end])
            title = f"{page.stem} {page.read_text(encoding='utf-8').splitlines()[0]}"
            assert stems(text) & stems(f"{title} {sections(page).get(anchor)}"), f"[{text}]({target})"


def test_settings_that_pages_name_exist():
    known = {setting.name for setting in SETTINGS}
    named = re.compile(
        r"\bsettings? ((?:`[a-z_]+`(?:, | and | or )?)+)|((?:`[a-z_]+`(?:, | and )?)+) (?:is a|are) settings?\b"
    )
    for path in PAGES:
        for match in named.finditer(" ".join(path.read_text(encoding="utf-8").split())):
            assert code_spans(match[1] or match[2]) <= known, f"{name_of(path)}: {match[0]}"


def test_changelog_has_this_version_and_its_date():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first = re.search(r"^## (\S+) \((\d{4}-\d{2}-\d{2})\)$", changelog, re.MULTILINE)
    assert first is not None
    assert first[1] == version


# Examples


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_names_of_python_examples_exist(path):
    for block in fences(path, {"python"}):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES:
                module = importlib.import_module(str(node.module))
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = {"client": Client, "embeddings": Embeddings}.get(getattr(node.func.value, "id", ""))
                assert owner is None or hasattr(owner, node.func.attr), node.func.attr


def test_reading_an_index_by_hand_works(tmp_path, monkeypatch, capsys):
    source = tmp_path / "notes"
    source.mkdir()
    (source / "cats.md").write_text(
        "# Cats\n\n" + "Cats purr when they are content. " * 5 + "\n\n## Food\n\n" + "Cats eat fish. " * 8
    )
    (source / "dogs.md").write_text("# Dogs\n\nDogs bark at strangers.\n")
    build_index(tmp_path / "pilotlight-index", source)
    monkeypatch.chdir(tmp_path)
    [example] = fences(DOCS / "index-format.md", {"python"})
    exec(compile(example, "index-format.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("{'chunks': 3, 'dimension': 64, 'documents': 2}")
    assert lines[1].startswith("1.000  Cats: 'Cats purr when they are content.")
    assert len(lines) == 4


def test_contributing_answers_three_questions_a_room():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = {}
    for room, questions, files in re.findall(r"^\| `([a-z_/]+)/` \| (.+;.+;.+) \| (`.+`) \|$", text, re.MULTILINE):
        rooms[room] = re.findall(r"`([^`]+)`", files)
        assert len(rooms[room]) == questions.count(";") + 1 == 3, room
    folders = {path.parent for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    parents = {str(folder.relative_to(ROOT)) for folder in folders if len(list(folder.glob("*.py"))) > 1}
    assert parents <= rooms.keys()
    assert [
        f"{room}/{name}" for room, names in rooms.items() for name in names if not (ROOT / room / name).exists()
    ] == []
