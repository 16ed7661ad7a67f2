"""Explains failed builds of native code, from the messages of compilers, linkers and torch."""

import errno
import re
import shutil
from pathlib import Path

from embedder.errors import PackageError, causes_of

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
_NO_SPACE_WORDS = (
    "no space left on device",
    "disk quota exceeded",
    "pytorchstreamwriter failed writing",  # torch's zip writer, which keeps the reason to itself
)
_NO_MEMORY = (
    "killed signal terminated program",  # what g++ says of its compiler
    "cannot allocate memory",
    "can't allocate memory",
    "memoryerror",
    "virtual memory exhausted",
    "out of memory allocating",
    "memory exhausted",
    "std::bad_alloc",
)
# Bytes. With less than that a build failed for want of space, whatever was said: a tool that dies of it, with words of
# its own or without a word, removes what it had written first.
_LEAST = 32 << 20
_LONGEST = 200  # characters of a reason
_ERROR = re.compile(r"\berror:", re.IGNORECASE)  # and not the name of an exception


def explained(error: BaseException, what: str, remedy: str, folder: Path) -> PackageError:
    """Return an error that says in one line why building `what` in a folder failed; `remedy` is for a lack of space."""
    causes = causes_of(error)
    codes = {getattr(cause, "errno", None) for cause in causes}
    said = "\n".join(str(cause) for cause in causes).lower()
    if not codes.isdisjoint(_NO_SPACE) or any(words in said for words in _NO_SPACE_WORDS):
        return PackageError(f"no space left to build {what}: free some, or {remedy}")
    if errno.ENOMEM in codes or any(words in said for words in _NO_MEMORY):
        return PackageError(
            f"not enough memory to build {what}: free some, or choose the engine eager, which takes less"
        )
    if shutil.disk_usage(folder).free < _LEAST:
        return PackageError(f"no space left to build {what} ({_reason(error)}): free some, or {remedy}")
    if isinstance(error, PackageError):
        return PackageError(str(error))
    return PackageError(
        f"cannot build {what} ({_reason(error)}): {remedy} if that is about files, else choose the engine eager"
    )


def _reason(error: BaseException) -> str:
    """Return the most telling line of an error: a compiler's first error, or else the first line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = next((line for line in lines if _ERROR.search(line)), lines[0] if lines else type(error).__name__)
    return said[:_LONGEST]
