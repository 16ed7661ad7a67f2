"""Confinement of a reader process before it sees the first document: as much as the kernel offers here.

By system calls of the C library, which `py-landlock` and the like would only wrap: nothing here has a rule to parse.
"""

import ctypes
import errno
import os
import platform
import resource
import signal
import struct
from collections.abc import Iterator
from contextlib import suppress

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_NEW_IPC, _NEW_USER, _NEW_NET = 0x08000000, 0x10000000, 0x40000000
_CAPABILITIES = 0x20080522  # version of what capset takes: two words of each set
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CREATE_RULESET, _RESTRICT_SELF = 444, 446  # Landlock, alike on all processors
_ABI = 1  # flag: ask for the version
_FILE_RIGHTS = ((1, 13), (2, 14), (3, 15), (5, 16))  # from a version on: rights over files that it knows
_NET_FROM, _NET_RIGHTS = 4, 0b11  # bind and connect, TCP
_SCOPES_FROM, _SCOPES = 6, 0b11  # abstract sockets of others, signals to others
_EMPTY = "/proc/self/fdinfo"  # a folder in which there is nothing but numbers


_LIBC = ctypes.CDLL(None, use_errno=True)


def hide() -> None:
    """Let no other process of this user read the memory or the environment of this one."""
    _LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def confine(memory: int) -> dict[str, str]:
    """Take from this process what a reader has no use for; what it needs must be loaded and open.

    Args:
        memory: bytes of address space that it may have.

    Returns: by name, how each means is in force; empty where the system has none of it.
    """
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    for limit in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(limit, (0, 0))
    hide()
    has_namespaces = _LIBC.unshare(_NEW_USER | _NEW_NET | _NEW_IPC) == 0
    root = ""
    with suppress(OSError):  # may not
        os.chroot(_EMPTY)
        root = "empty"
    os.chdir("/")
    capset = _CAPSET.get(os.uname().machine)
    head, sets = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITIES, 0)), ctypes.create_string_buffer(24)
    has_none = capset is not None and _LIBC.syscall(capset, head, sets) == 0
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # not before, as other rights unset it
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    version = _landlock()
    return {
        "namespaces": "user, network, IPC" if has_namespaces else "",
        "root folder": root,
        "capabilities": "none" if has_none else "",
        "landlock": f"version {version}" if version else "",
        "seccomp": "only those on a list" if restrict_calls() else "",
    }


def _landlock() -> int:
    """Forbid every file, connection and signal to others that the kernel can; its version, or 0 where it has none."""
    version: int = _LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ABI)
    if version < 1:
        return 0
    files = (1 << max(count for least, count in _FILE_RIGHTS if version >= least)) - 1
    net = _NET_RIGHTS if version >= _NET_FROM else 0
    scopes = _SCOPES if version >= _SCOPES_FROM else 0
    size = ctypes.c_size_t(24 if scopes else 16 if net else 8)
    ruleset = _LIBC.syscall(_CREATE_RULESET, struct.pack("QQQ", files, net, scopes), size, 0)
    if ruleset < 0:
        return 0
    try:
        return version if _LIBC.syscall(_RESTRICT_SELF, ruleset, 0) == 0 else 0
    finally:
        os.close(ruleset)


# By name: the number on x86_64 (none where it has no such call), and on aarch64.
_ALLOWED: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "close": (3, 57), "fstat": (5, 80),
    "lseek": (8, 62), "poll": (7, None), "ppoll": (271, 73), "munmap": (11, 215), "mremap": (25, 216),
    "brk": (12, 214), "madvise": (28, 233), "futex": (202, 98), "sched_yield": (24, 124), "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "sigaltstack": (131, 132), "restart_syscall": (219, 128),
    "setitimer": (38, 103), "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "clock_gettime": (228, 113),
    "clock_getres": (229, 114), "gettimeofday": (96, 169), "time": (201, None), "getrandom": (318, 278),
    "getpid": (39, 172), "gettid": (186, 178), "getrusage": (98, 165), "sysinfo": (99, 179), "uname": (63, 160),
    "membarrier": (324, 283), "rseq": (334, 293), "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip
# What libraries try in good faith, and do without: it fails, and nothing is done.
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    "open": (2, None), "openat": (257, 56), "openat2": (437, 437), "stat": (4, None), "lstat": (6, None),
    "statx": (332, 291), "statfs": (137, 43), "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439),
    "readlink": (89, None), "readlinkat": (267, 78), "getdents64": (217, 61), "getcwd": (79, 17), "ioctl": (16, 29),
    "fcntl": (72, 25), "prlimit64": (302, 261), "sched_getaffinity": (204, 123), "sched_setaffinity": (203, 122),
    "mbind": (237, 235), "get_mempolicy": (239, 236), "set_mempolicy": (238, 237),
}  # fmt: skip
_SIGNALS = ((200, 130), (234, 131))  # tkill, tgkill: to itself alone, as `abort` does where memory runs out
_MAPPING = ((9, 222), (10, 226))  # mmap, mprotect: not for memory that can be executed
_STATUS = (262, 79)  # newfstatat: of an open file, as the C library asks for it, not of a path
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, number in the kernel
_PROT_EXEC, _AT_EMPTY_PATH = 4, 0x1000
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EACCES
_LOAD, _EQUAL, _HAS, _RETURN = 0x20, 0x15, 0x45, 0x06  # instructions
_NUMBER, _ARCHITECTURE, _FIRST, _THIRD, _FOURTH = 0, 4, 16, 32, 40  # offsets in what a filter sees; of arguments
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_Instruction = tuple[int, int, int, int]  # what, instructions to pass over if true, and if not, value


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def restrict_calls(machine: str = "") -> bool:
    """Hold this thread, and all that it starts, to the list; False where the kernel or the processor knows no filter.

    `no_new_privs` must be set.
    """
    known = _ARCHITECTURES.get(machine or platform.machine())
    if known is None:
        return False
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in _filter(*known))
    instructions = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.addressof(instructions))
    return bool(_LIBC.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0) == 0)


def _filter(column: int, architecture: int) -> Iterator[_Instruction]:
    yield _LOAD, 0, 0, _ARCHITECTURE
    yield _EQUAL, 1, 0, architecture
    yield _RETURN, 0, 0, _KILL
    yield _LOAD, 0, 0, _NUMBER
    for calls, outcome in ((_ALLOWED, _ALLOW), (_REFUSED, _FAIL)):
        for numbers in calls.values():
            if (number := numbers[column]) is not None:
                yield _EQUAL, 0, 1, number
                yield _RETURN, 0, 0, outcome
    checked = (  # calls, argument, how it is tested and with what, then, and else
        *((call[column], _FIRST, _EQUAL, os.getpid(), _ALLOW, _KILL) for call in _SIGNALS),
        *((call[column], _THIRD, _HAS, _PROT_EXEC, _KILL, _ALLOW) for call in _MAPPING),
        (_STATUS[column], _FOURTH, _EQUAL, _AT_EMPTY_PATH, _ALLOW, _FAIL),
    )
    for call, argument, test, value, outcome, other in checked:
        yield _EQUAL, 0, 4, call
        yield _LOAD, 0, 0, argument
        yield test, 0, 1, value
        yield _RETURN, 0, 0, outcome
        yield _RETURN, 0, 0, other
    yield _RETURN, 0, 0, _KILL
