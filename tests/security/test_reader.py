"""What code that has taken over a reader of documents may try; each attempt is named by what it would get."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from indexer.config import OcrConfig
from indexer.errors import ParseError
from indexer.read.document_reader import read_document
from indexer.read.extraction import from_json
from indexer.read.ocr import find_engine
from indexer.read.reader_process import ReaderProcess
from rag.commands.doctor import readers
from tests.indexer.conftest import make_page
from tests.security.bombs import pdf_of_image

FOUND = find_engine(OcrConfig())
ENDED = "made a forbidden system call"
# what is tried, as Python with ctypes, a libc, os and the path of a file outside at hand; what becomes of it
ATTEMPTS = {
    "fork": ("os.fork()", ENDED),
    "exec": ("os.execv('/bin/sh', ['/bin/sh', '-c', 'true'])", ENDED),
    "thread": ("import _thread; _thread.start_new_thread(print, ())", ENDED),
    "socket": ("libc.socket(2, 1, 0)", ENDED),
    "socket pair": ("libc.socketpair(1, 1, 0, ctypes.create_string_buffer(8))", ENDED),
    "unlink": ("os.unlink(path)", ENDED),
    "rename": ("os.rename(path, path + '.x')", ENDED),
    "kill": ("os.kill(parent, 9)", ENDED),
    "signal to another": ("libc.syscall(234, parent, parent, 9)", ENDED),
    "signal to another thread": ("libc.syscall(200, parent, 9)", ENDED),
    "ptrace": ("libc.ptrace(16, os.getpid(), 0, 0)", ENDED),
    "other memory": ("libc.process_vm_readv(1, None, 0, None, 0, 0)", ENDED),
    "new namespace": ("libc.unshare(0x10000000)", ENDED),
    "chroot": ("os.chroot('/')", ENDED),
    "executable memory": ("libc.mmap(None, 4096, 7, 0x22, -1, 0)", ENDED),
    "memory made executable": ("libc.mprotect(libc.sbrk(0) & ~4095, 4096, 5)", ENDED),
    "memory file": ("os.memfd_create('x')", ENDED),
    "io_uring": ("libc.syscall(425, 8, None)", ENDED),
    "bpf": ("libc.syscall(321, 0, None, 0)", ENDED),
    "x32": ("libc.syscall(0x40000000 | 39)", ENDED),
    "read a file": ("open(path).read()", "PermissionError"),
    "write a file": ("open(path, 'w')", "PermissionError"),
    "look at a file": ("os.stat(path)", "PermissionError"),
    "environment of the build": ("open(f'/proc/{parent}/environ').read()", "PermissionError"),
    "memory of the build": ("open(f'/proc/{parent}/mem', 'rb')", "PermissionError"),
    "its parent": ("os.getppid()", ENDED),
    "limits of the build": (
        "import resource; resource.prlimit(parent, resource.RLIMIT_CPU, (1, 1))",
        "PermissionError",
    ),
    "signals by a pipe": ("import fcntl; fcntl.fcntl(0, fcntl.F_SETOWN, parent)", "PermissionError"),
    "terminal": ("import fcntl; fcntl.ioctl(0, 0x5412, b'x')", "PermissionError"),
}
_CODE = """
import ctypes, fcntl, os, resource
libc = ctypes.CDLL(None)
libc.sbrk.restype = ctypes.c_long
parent = {build}
ATTEMPTS = {attempts!r}
def read(body, charset):
    path, _, attempt = body.decode().partition("\\n")
    exec(ATTEMPTS[attempt], {{"os": os, "ctypes": ctypes, "libc": libc, "path": path, "parent": parent}})
    raise AssertionError("done")
"""
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of Linux alone")


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReaderProcess]:
    """A reader process with a reader that does what the document says."""
    folder = tmp_path_factory.mktemp("reader")
    code = _CODE.format(build=os.getpid(), attempts={name: attempt for name, (attempt, _) in ATTEMPTS.items()})
    (folder / "taken.py").write_text(code)
    more = f"import indexer.read; indexer.read.__path__.append({str(folder)!r}); import indexer.read.formats; "
    more += "indexer.read.formats.FUNCTIONS['taken'] = 'taken:read'; "
    box = ReaderProcess()
    box.timeout_seconds, box.program = 20.0, more + box.program
    yield box
    box.close()


def read(box: ReaderProcess, reader: str, body: bytes, argument: str | None = None) -> list[dict[str, object]]:
    with closing(box.ask(reader, argument, body)) as answers:
        return [answer for answer, _ in answers]


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_nothing_is_got(box: ReaderProcess, attempt: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    with pytest.raises(ParseError, match=ATTEMPTS[attempt][1]):
        read(box, "taken", f"{secret}\n{attempt}".encode())
    assert secret.read_text() == "secret"
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


@pytest.mark.skipif(bool(FOUND.obstacle), reason=FOUND.obstacle)
def test_a_reader_with_ocr_is_held_like_others(box: ReaderProcess, tmp_path: Path) -> None:
    box.start()
    before = box.confinement
    box.use(FOUND.engine)
    for attempt in ("thread", "exec", "read a file", "executable memory"):
        with pytest.raises(ParseError, match=ATTEMPTS[attempt][1]):
            read(box, "taken", f"{tmp_path}/x\n{attempt}".encode())
    assert box.start()
    assert box.confinement == before
    document = read_document(make_page(pdf_of_image(50), "application/pdf"), box, FOUND)
    assert document.scans.pages == 1
    box.use("")


def test_the_next_document_is_read(box: ReaderProcess) -> None:
    with pytest.raises(ParseError, match=ENDED):
        read(box, "taken", b"\nfork")
    [answer] = read(box, "plain", b"healthy text")
    assert from_json(answer).sections[0].text == "healthy text"


def test_what_the_kernel_says_of_a_reader(box: ReaderProcess) -> None:
    process = box.start()
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if ":\t" in line
    )
    assert status["Seccomp"] == "2", "a filter"
    assert status["NoNewPrivs"] == "1"
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == int(status["CapInh"], 16) == 0
    assert box.confinement["seccomp"]
    assert box.confinement["capabilities"] == "none"
    handles = {os.readlink(path) for path in Path(f"/proc/{process.pid}/fd").iterdir()}
    sockets = handles - {os.devnull}  # one, whose other end is the build
    assert len(sockets) == 1, handles
    assert sockets.pop().startswith("socket:"), handles
    assert Path(f"/proc/{process.pid}/environ").read_bytes() == b""
    for space in ("user", "net", "ipc") if box.confinement["namespaces"] else ():
        own, other = (os.readlink(f"/proc/{who}/ns/{space}") for who in ("self", process.pid))
        assert own != other, space


def test_the_build_can_be_read_by_no_other_process_of_its_user(box: ReaderProcess) -> None:
    box.close()
    box.start()
    assert ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) == 0, "PR_GET_DUMPABLE"


def test_all_that_readers_use_is_loaded_before_they_are_confined() -> None:
    code = (
        "import sys; from indexer.read import reader_main; reader_main.preload(); known = set(sys.modules); "
        "from tests.indexer.read.test_hostile import SEEDS; known |= set(sys.modules); "
        "from indexer.read.formats import content_type_of, reader_of; "
        "[list(reader_main.answer(reader_of(content_type_of(name)), '1000', body)) for name, body in SEEDS.items()]; "
        "sys.exit(' '.join(set(sys.modules) - known) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_doctor_says_what_is_in_force(box: ReaderProcess) -> None:
    warnings: list[str] = []
    found = readers(warnings)
    box.start()
    assert found == {name: means or None for name, means in box.confinement.items()}
    missing = [name for name, means in found.items() if means is None]
    assert all(name in warnings[0] for name in missing)
    assert len(warnings) == bool(missing)
