"""Confinement of a reader process before it sees the first document: as much as the kernel offers here.

By system calls of the C library, which `py-landlock` and the like would only wrap: nothing here has a rule to parse.
"""

import ctypes
import os
import resource
import struct
from contextlib import suppress

from indexer.read.isolation import seccomp

_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_NEW_IPC, _NEW_USER, _NEW_NET = 0x08000000, 0x10000000, 0x40000000
_CAPABILITIES = 0x20080522  # version of what capset takes: two words of each set
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CREATE_RULESET, _RESTRICT_SELF = 444, 446  # Landlock, alike on all processors
_ABI = 1  # flag: ask for the version
_FILE_RIGHTS = ((1, 13), (2, 14), (3, 15), (5, 16))  # from a version on: rights over files that it knows
_NET_FROM, _NET_RIGHTS = 4, 0b11  # bind and connect, TCP
_SCOPES_FROM, _SCOPES = 6, 0b11  # abstract sockets of others, signals to others
_EMPTY = "/proc/self/fdinfo"  # a folder in which there is nothing but numbers


def hide() -> None:
    """Let no other process of this user read the memory or the environment of this one."""
    _libc().prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


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
    namespaces = "user, network, IPC" if _libc().unshare(_NEW_USER | _NEW_NET | _NEW_IPC) == 0 else ""
    root = ""
    with suppress(OSError):  # may not
        os.chroot(_EMPTY)
        root = "empty"
    os.chdir("/")
    capabilities = "none" if _drop_capabilities() else ""
    _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    version = _landlock()
    return {
        "namespaces": namespaces,
        "root folder": root,
        "capabilities": capabilities,
        "landlock": f"version {version}" if version else "",
        "seccomp": "only those on a list" if seccomp.restrict() else "",
    }


def _drop_capabilities() -> bool:
    number = _CAPSET.get(os.uname().machine)
    if number is None:
        return False
    head = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITIES, 0))
    return bool(_libc().syscall(number, head, ctypes.create_string_buffer(24)) == 0)


def _landlock() -> int:
    """Forbid every file, connection and signal to others that the kernel can; its version, or 0 where it has none."""
    libc = _libc()
    version: int = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ABI)
    if version < 1:
        return 0
    files = (1 << max(count for least, count in _FILE_RIGHTS if version >= least)) - 1
    net = _NET_RIGHTS if version >= _NET_FROM else 0
    scopes = _SCOPES if version >= _SCOPES_FROM else 0
    rules = struct.pack("QQQ", files, net, scopes)
    size = 24 if scopes else 16 if net else 8
    ruleset = libc.syscall(_CREATE_RULESET, rules, ctypes.c_size_t(size), 0)
    if ruleset < 0:
        return 0
    try:
        return version if libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0 else 0
    finally:
        os.close(ruleset)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
