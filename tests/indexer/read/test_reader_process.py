import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from indexer.errors import ParseError
from indexer.read import reader_process
from indexer.read.extraction import from_json
from indexer.read.reader_process import ReaderProcess, _IdleProcesses
from indexer.records import SectionBlock
from tests.waiting import wait_for

_HOSTILE = {
    "sleeps": "import time\ndef read(body, charset):\n    time.sleep(600)",
    "spins": "def read(body, charset):\n    while True: pass",
    "crashes": "import ctypes\ndef read(body, charset):\n    ctypes.string_at(0)",
    "eats": "def read(body, charset):\n    return bytearray(1 << 31)",
    "aborts": "import os\ndef read(body, charset):\n    os.abort()",
    "panics": "class Panic(BaseException): pass\ndef read(body, charset):\n    raise Panic",
    "parses": "from indexer.read.office.package import parse_xml\n"
    "def read(body, charset):\n    parse_xml(b'<a>' + b'<b c=\"d\"/>' * 4_000_000 + b'</a>')",
    "raises": "def read(body, charset):\n    raise ZeroDivisionError",
    "needs": "import nowhere",
    "nests": "def read(body, charset):\n    return read(body, charset)",
    "prints": "import os\nfrom indexer.records import Extraction\nfrom indexer.records import Section\n"
    "def read(body, charset):\n    print('x' * 100, flush=True)\n    os.write(1, b'x' * 100)\n"
    "    return Extraction('T', (Section((), None, body.decode()),))",
    "floods": "from indexer.records import Extraction\nfrom indexer.records import Section\n"
    "def read(body, charset):\n    return Extraction('x' * 70_000_000, ())",
}


@pytest.fixture
def box(tmp_path: Path) -> Iterator[ReaderProcess]:
    """A reader process that knows the readers above."""
    for name, code in _HOSTILE.items():
        (tmp_path / f"{name}.py").write_text(code)
    more = f"import indexer.read; indexer.read.__path__.append({str(tmp_path)!r}); import indexer.read.formats; "
    more += f"indexer.read.formats.FUNCTIONS.update({ {name: f'{name}:read' for name in _HOSTILE} }); "
    box = ReaderProcess()
    box.timeout_seconds, box.memory_bytes, box.program = 3.0, 1 << 29, more + box.program
    yield box
    box.close()


def ask(box: ReaderProcess, reader: str, body: bytes = b"text") -> str:
    with closing(box.ask(reader, None, body)) as answers:
        [(answer, _)] = answers
    content = from_json(answer)
    return content.title or "".join(section.text for section in content.sections)


@pytest.mark.parametrize(
    ("reader", "reason"),
    [
        ("spins", r"longer than 0\.5 seconds"),
        ("sleeps", r"longer than 0\.5 seconds"),
        ("crashes", "crashed, or took more than 512 MB"),
        ("eats", "more memory than is allowed"),
        ("aborts", "reading it took more than 512 MB of memory"),
        ("parses", "more memory than is allowed"),
        ("panics", "damaged, or not of its declared type .Panic"),
        ("raises", "damaged, or not of its declared type .ZeroDivisionError"),
        ("nests", "nested too deep"),
        ("needs", r"cannot be loaded \(No module named 'nowhere'\); reinstall pilotlight"),
        ("floods", "more than 64,000,000 bytes of text"),
    ],
)
def test_a_hostile_document_costs_itself(box: ReaderProcess, reader: str, reason: str) -> None:
    assert ask(box, "prints", b"before") == "T"
    box.timeout_seconds = 0.5 if reader in ("spins", "sleeps") else 5.0
    with pytest.raises(ParseError, match=reason):
        ask(box, reader)
    box.timeout_seconds = 5.0
    assert ask(box, "prints", b"after") == "T"


def test_a_process_that_died_meanwhile_is_replaced(box: ReaderProcess) -> None:
    ask(box, "prints")
    assert box._process is not None
    first = box._process.pid
    os.kill(first, signal.SIGKILL)
    box._process.wait()
    assert ask(box, "prints") == "T"
    assert box._process.pid != first


def test_readers_end_with_whoever_asked() -> None:
    code = (
        "import os; from indexer.read.reader_process import ReaderProcess; box = ReaderProcess(); "
        "print(box.start().pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    wait_for(lambda: not Path(f"/proc/{int(done.stdout)}").exists())


def test_an_interrupt_ends_a_process_that_is_being_started(box: ReaderProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    start = reader_process._start

    def interrupted(program: str) -> tuple[subprocess.Popen[bytes], Connection]:
        started = start(program)
        box.interrupt()
        return started

    monkeypatch.setattr(reader_process, "_start", interrupted)
    with pytest.raises(ParseError):
        ask(box, "prints")
    assert box._process is None


def test_no_python_is_a_parse_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere"))
    with pytest.raises(ParseError, match="a reader process cannot be started: No such file"):
        ask(ReaderProcess(), "csv_text")


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"title": "x", "sections": [[["a"], None, 3]], "metadata": {}, "language": None, "date": None},
        {"title": "x", "sections": [], "metadata": [], "language": 3, "date": [3]},
        {"title": "x", "sections": [[["a"], {"b": 1}, "x"]], "metadata": {}, "language": None, "date": None},
    ],
)
def test_garbled_answers_are_refused(answer: dict[str, object]) -> None:
    with pytest.raises(ParseError, match="returned invalid data"):
        from_json(answer)


def test_answers_are_cleaned() -> None:
    content = from_json(
        {
            "title": " T\u200b\nU ",
            "sections": [
                [["a\U000e0041b"] * 50, "p\n1", "\n \n  x \u202e\n\ny\ud800", [[2, "q"]], [[0, 2, None]]],
                [[], None, " \n", [], []],
                [
                    [],
                    None,
                    "plain",
                    [[2, "m\n1"], [1, "n"], [9, "beyond"], ["x", "y"], [3, ""]],
                    [[0, 2, "a\u200b | b"], [1, 3, None], [2, 4, None], [4, 9, None], [4, 4, None], ["x", 5, None]],
                ],
            ],
            "language": "en-GB",
            "date": "nonsense",
            "metadata": {"a": ["x"]},
        }
    )
    assert content.title == "T U"
    section, marked = content.sections
    assert (section.path, section.anchor, section.text) == (("ab",) * 12, "p 1", "  x \n\ny ")
    assert section.marks == section.blocks == ()  # they were of another text
    assert marked.blocks == (SectionBlock(0, 2, "a | b"), SectionBlock(2, 4))
    assert marked.marks == ((1, "n"), (2, "m 1"))
    assert (content.declared.language, content.declared.date) == ("en", None)


def test_a_further_process_is_started_once_documents_waited_as_long_as_that_takes() -> None:
    shelf = _IdleProcesses()
    first = shelf.take(is_patient=True)
    shelf.start_seconds = 600.0
    with ThreadPoolExecutor(1) as waiting:
        second = waiting.submit(shelf.take, is_patient=True)
        assert shelf.take(is_patient=False) is not first
        shelf.give_back(first)
        assert second.result(300) is first
    shelf.start_seconds = 0.0
    assert shelf.take(is_patient=True) is not first
