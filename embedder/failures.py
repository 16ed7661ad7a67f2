"""What kept native code from being built, from what compilers, linkers and torch say of it."""

import errno
import shutil
from pathlib import Path

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
_NO_SPACE_WORDS = (
    "no space left on device",
    "disk quota exceeded",
    "pytorchstreamwriter failed writing",  # torch's zip writer, which keeps the reason to itself
)
_LEAST = 1 << 16  # bytes; with less than that nothing more can be written
_LONGEST = 200  # characters of a reason


def is_disk_full(error: BaseException, folder: Path) -> bool:
    """Whether building in a folder failed for want of space: by what was said, or else by what is left."""
    causes = [error]
    while following := causes[-1].__cause__ or causes[-1].__context__:
        causes.append(following)
    return (
        any(getattr(cause, "errno", None) in _NO_SPACE for cause in causes)
        or any(words in str(cause).lower() for cause in causes for words in _NO_SPACE_WORDS)
        or shutil.disk_usage(folder).free < _LEAST
    )


def reason(error: BaseException) -> str:
    """The line that says most of what went wrong: a compiler's first error, or else the first line there is."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = next((line for line in lines if "error:" in line.lower()), lines[0] if lines else type(error).__name__)
    return said[:_LONGEST]
