"""What holds the browser: no network, and nothing of it that outlives the build. Runs in the browser's process.

By system calls of the C library, as in `indexer.read.confinement`, which has no use for them.
"""

import ctypes
import os
import resource
import signal
from contextlib import suppress
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_PARENT = 1  # field of /proc/PID/stat after the name, the state being 0


def leave_network() -> bool:
    """Move this process, and all that it will start, to a network without any interface; False if it may not.

    To be called before there are threads.
    """
    libc, user, group = ctypes.CDLL(None), os.geteuid(), os.getegid()
    if libc.unshare(_NEW_NET) == 0:
        return True
    if libc.unshare(_NEW_USER | _NEW_NET) != 0:
        return False
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return True


def adopt() -> None:
    """Have all processes started below this one stay below it, whoever started them; dump no core."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # the build can go on without it


def kill_all_below() -> None:
    """Kill every process below this one, until there is none."""
    while below := _below(os.getpid()):
        for process in below:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        with suppress(ChildProcessError):  # reaped by another thread
            os.waitpid(-1, 0)


def _below(process: int) -> set[int]:
    """All living descendants of a process."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # gone meanwhile
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
            if fields[0] not in "ZX":
                parents[int(path.parent.name)] = int(fields[_PARENT])
    found: set[int] = set()
    while more := {child for child, parent in parents.items() if parent == process or parent in found} - found:
        found |= more
    return found
