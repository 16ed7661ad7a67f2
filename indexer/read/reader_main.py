"""The program of a reader process: drop all rights that are not needed, then read documents until the input ends.

Only reader processes import this module, because it loads all readers.
"""

import ctypes
import email
import encodings
import errno
import gc
import os
import pkgutil
import resource
import signal
import struct
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from docutils.parsers.rst import directives
from lxml import etree

from indexer.errors import FetchError, ParseError
from indexer.read.access_list import looks_like_list
from indexer.read.extraction import detect_language, to_json
from indexer.read.formats import ATTACHMENTS, CONTAINER, FUNCTIONS, LISTING, PAGE, SCANS
from indexer.read.reader_process import hide, receive, send
from indexer.records import Extraction, Section
from indexer.text import charsets, reader_notes

_MAX_REQUEST_BYTES = 1 << 31
_GRACE_SECONDS = 5.0
_MAX_SECTIONS_SEARCHED = 20
_readers: dict[str, Callable[..., Any]] = {}
_import_errors: dict[str, str] = {}


def main() -> None:
    """Drop the rights of this process, report the effect, and then answer requests until standard input ends."""
    hide()
    preload()
    gc.freeze()
    gc.set_threshold(100_000)  # collect rarely, because few of a page's objects are in reference cycles
    # Redirect standard output. Otherwise, if a library printed text, the build would read the text as a response.
    with Connection(os.dup(1)) as build, open(os.devnull, "r+b") as nowhere:
        os.dup2(nowhere.fileno(), 0)
        os.dup2(nowhere.fileno(), 1)
        start, _ = receive(build)
        if engine := start["engine"]:
            load_ocr(engine)
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
            score.write("1000")  # the kernel kills this process first if memory is short
        send(build, {"confinement": confine(start["memory"])})
        with suppress(EOFError):
            while True:
                request, body = receive(build, _MAX_REQUEST_BYTES)
                cpu_seconds = request["seconds"] + _GRACE_SECONDS  # limit per message; SIGPROF then ends the process
                signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
                for fields, data in answer(request["reader"], request["argument"], body):
                    send(build, fields, data)
                    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
                if "error" in fields:
                    gc.collect()  # an exception may be in a reference cycle with a large document
        os._exit(0)  # seccomp forbids the system calls of a normal exit


def preload() -> None:
    """Load all modules and files that readers may use, because a confined process cannot open files."""
    detect_language("The first call loads the language model. " * 50)
    import_module("_strptime")
    for reader, path in FUNCTIONS.items():
        module, _, function = path.partition(":")
        try:
            _readers[reader] = getattr(import_module(f"indexer.read.{module}"), function)
        except (ImportError, SyntaxError) as error:
            _import_errors[reader] = str(error)
    charsets.detect_language = detect_language
    charsets.decode(b"caf\xe9", None)
    for _ in answer("restructured", None, b""):
        pass
    for package in (email, encodings, directives):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            with suppress(ImportError):
                import_module(module.name)


def load_ocr(engine: str) -> None:
    """Load the OCR engine. If that fails, each request for a scanned page reports the error."""
    try:
        _readers[SCANS] = import_module("indexer.read.scans").load_reader(engine)
    except (ImportError, SyntaxError, RuntimeError, OSError) as error:
        _import_errors[SCANS] = str(error)


def answer(reader: str, argument: Any, body: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield the results of a reader as messages (fields, body). The last message has the field `done` or `error`."""
    read = _readers.get(reader)
    if read is None:
        yield {"error": f"its reader cannot be loaded ({_import_errors.get(reader)}); reinstall pilotlight"}, b""
        return
    reader_notes.take()  # discard the notes on the previous document, if reading it failed
    last: dict[str, Any] = {}
    try:
        if reader in (CONTAINER, ATTACHMENTS):
            max_bytes, _, no_images = (argument or "0").partition("\n")
            for member in read(body, int(max_bytes), no_images):
                fields = asdict(member)
                yield fields, fields.pop("body")
        elif reader == PAGE:
            content = yield from read(body, argument)
            if content is not None:
                yield to_json(_note_access_list(content)) | {"done": True}, b""
                return
        elif reader in (LISTING, SCANS):
            last = read(body, argument)
        else:
            last = to_json(_note_access_list(read(body, argument)))
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001 - libraries may raise any error, such as a panic in Rust code
        yield {"error": _failure_reason(error)}, b""
    else:
        yield last | {"done": True}, b""


def _note_access_list(content: Extraction) -> Extraction:
    """Return the content unchanged. Add a reader note if its text looks like an access list, which has no effect."""
    sections = content.sections[:_MAX_SECTIONS_SEARCHED]
    texts = list(filter(str.strip, map(_outside_code, sections))) or [section.text for section in sections]
    if content.declared.access is None and looks_like_list("\n".join(texts)):
        reader_notes.add("text that looks like an access list: a list is valid only in front matter and .access.toml")
    return content


def _outside_code(section: Section) -> str:
    texts, end = [], 0
    for start, stop, head in section.blocks:
        if head is None:
            texts.append(section.text[end:start])
            end = stop
    return "".join([*texts, section.text[end:]])


def _failure_reason(error: BaseException) -> str:
    cause: BaseException | None = error
    visited: list[BaseException] = []  # causes may form a cycle
    while cause is not None and cause not in visited:
        # lxml reports a lack of memory as a syntax error
        is_xml = isinstance(cause, etree.XMLSyntaxError) and cause.code == etree.ErrorTypes.ERR_NO_MEMORY
        if is_xml or isinstance(cause, MemoryError):
            return "reading it takes more memory than is allowed"
        visited.append(cause)
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, ParseError | FetchError):
        return str(error)
    if isinstance(error, RecursionError):
        return "elements nested too deeply"
    return f"damaged, or not of its declared type ({type(error).__name__})"


# These system calls are made directly, because packages such as `py-landlock` would only wrap them.
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_NEW_IPC, _NEW_USER, _NEW_NET = 0x08000000, 0x10000000, 0x40000000
_CAPABILITY_VERSION_3 = 0x20080522
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_CREATE_RULESET_VERSION = 1
_FILE_RIGHTS = ((1, 13), (2, 14), (3, 15), (5, 16))  # (version of Landlock, number of file rights in this version)
_NET_VERSION, _NET_RIGHTS = 4, 0b11  # first version of Landlock that restricts TCP; the rights to bind and connect
_SCOPES_VERSION, _SCOPES = 6, 0b11  # first version of Landlock that restricts abstract sockets and signals
_ROOT_FOLDER = "/proc/self/fdinfo"  # contains no files that a reader could misuse
_LIBC = ctypes.CDLL(None, use_errno=True)


def confine(memory: int) -> dict[str, str]:
    """Drop the rights that a reader does not need. Call this function after all files and modules are loaded.

    Args:
        memory: limit of the address space in bytes.

    Returns: for each security mechanism of the kernel, the restriction in effect, or "" if it is unavailable.
    """
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    for limit in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(limit, (0, 0))
    hide()
    has_namespaces = _LIBC.unshare(_NEW_USER | _NEW_NET | _NEW_IPC) == 0
    root = ""
    with suppress(OSError):
        os.chroot(_ROOT_FOLDER)
        root = "empty"
    os.chdir("/")
    capset = _CAPSET.get(os.uname().machine)
    head = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITY_VERSION_3, 0))
    sets = ctypes.create_string_buffer(24)
    has_none = capset is not None and _LIBC.syscall(capset, head, sets) == 0
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # `unshare` resets this, so it is set afterwards
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    version = _apply_landlock()
    return {
        "namespaces": "user, network, IPC" if has_namespaces else "",
        "root folder": root,
        "capabilities": "none" if has_none else "",
        "landlock": f"version {version}" if version else "",
        "seccomp": "only those on a list" if _restrict_calls() else "",
    }


def _apply_landlock() -> int:
    """Forbid access to files, connections and signals. Return the version of Landlock, or 0 if it is unavailable."""
    version: int = _LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _CREATE_RULESET_VERSION)
    if version < 1:
        return 0
    files = (1 << max(count for least, count in _FILE_RIGHTS if version >= least)) - 1
    net = _NET_RIGHTS if version >= _NET_VERSION else 0
    scopes = _SCOPES if version >= _SCOPES_VERSION else 0
    size = ctypes.c_size_t(24 if scopes else 16 if net else 8)
    ruleset = _LIBC.syscall(_CREATE_RULESET, struct.pack("QQQ", files, net, scopes), size, 0)
    if ruleset < 0:
        return 0
    try:
        return version if _LIBC.syscall(_RESTRICT_SELF, ruleset, 0) == 0 else 0
    finally:
        os.close(ruleset)


_CALLS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("system_calls.toml").read_text("utf-8"))
# numbers of system calls on x86_64 and on aarch64
_SIGNALS = ((200, 130), (234, 131))  # tkill and tgkill, allowed only for this process, because `abort` calls them
_MAPPING = ((9, 222), (10, 226))  # mmap and mprotect, allowed only without the right to execute
_STATUS = (262, 79)  # newfstatat, allowed only for open files
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # (index in the pairs above, AUDIT_ARCH)
_PROT_EXEC, _AT_EMPTY_PATH = 4, 0x1000
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EACCES
_LOAD, _EQUAL, _HAS, _RETURN = 0x20, 0x15, 0x45, 0x06  # operations of BPF
_NUMBER, _ARCHITECTURE, _FIRST, _THIRD, _FOURTH = 0, 4, 16, 32, 40  # offsets in `seccomp_data`
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_Instruction = tuple[int, int, int, int]  # (operation, number of instructions to skip if true, if false, value)


def _restrict_calls() -> bool:
    """Allow only the system calls in `system_calls.toml`. Return False if the kernel has no seccomp filter."""
    architecture = _ARCHITECTURES.get(os.uname().machine)
    if architecture is None:
        return False
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in _filter_instructions(*architecture))
    instructions = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HP", len(code) // 8, ctypes.addressof(instructions))
    return bool(_LIBC.prctl(_PR_SET_SECCOMP, _MODE_FILTER, program, 0, 0) == 0)


def _filter_instructions(column: int, architecture: int) -> Iterator[_Instruction]:
    yield _LOAD, 0, 0, _ARCHITECTURE
    yield _EQUAL, 1, 0, architecture
    yield _RETURN, 0, 0, _KILL
    yield _LOAD, 0, 0, _NUMBER
    for calls, action in (("allowed", _ALLOW), ("refused", _FAIL)):
        for numbers in _CALLS[calls].values():
            if (number := numbers[column]) >= 0:
                yield _EQUAL, 0, 1, number
                yield _RETURN, 0, 0, action
    checked = (  # (call, argument, test, value, action if true, action if false)
        *((call[column], _FIRST, _EQUAL, os.getpid(), _ALLOW, _KILL) for call in _SIGNALS),
        *((call[column], _THIRD, _HAS, _PROT_EXEC, _KILL, _ALLOW) for call in _MAPPING),
        (_STATUS[column], _FOURTH, _EQUAL, _AT_EMPTY_PATH, _ALLOW, _FAIL),
    )
    for call, argument, test, value, if_true, if_false in checked:
        yield _EQUAL, 0, 4, call
        yield _LOAD, 0, 0, argument
        yield test, 0, 1, value
        yield _RETURN, 0, 0, if_true
        yield _RETURN, 0, 0, if_false
    yield _RETURN, 0, 0, _KILL
