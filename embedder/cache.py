"""The private folder that holds compiled packages. A package is native code, so nobody else may write there."""

import os
import stat
from pathlib import Path

from embedder.errors import CacheError


def default_folder() -> Path:
    """Return the cache folder of this user, after the XDG base directory specification."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pilotlight"


def open_private(folder: Path) -> Path:
    """Create the folder with mode 0700 if it is missing, and check that only this user can write to it.

    Raises CacheError naming the folder if someone else owns it or may write to it, or if it is mounted `noexec`.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private(folder)
        if stat.S_IMODE(folder.stat().st_mode) != 0o700:  # asked first, as the folder may be on a read-only disk
            folder.chmod(0o700)
        flags = os.statvfs(folder).f_flag
    except OSError as error:
        raise unusable(folder, error) from error
    if flags & os.ST_NOEXEC:
        raise CacheError(
            f"the package cache {folder} is on a disk mounted noexec, from which no code is run: set cache_dir"
        )
    return folder


def unusable(folder: Path, error: OSError) -> CacheError:
    """Return the error for a cache folder that cannot be read or written."""
    return CacheError(f"the package cache {folder} cannot be used ({error.strerror}): set cache_dir")


def check_private(path: Path) -> None:
    """Raise CacheError unless the file or folder is owned by this user and writable by nobody else."""
    info = path.lstat()
    if stat.S_ISLNK(info.st_mode):
        raise CacheError(f"{path} is a symbolic link: compiled code is not loaded through links; set cache_dir")
    if info.st_uid != os.geteuid():
        raise CacheError(f"{path} is owned by user {info.st_uid}: compiled code is loaded only from your own files")
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CacheError(f"{path} can be written by others (mode {info.st_mode & 0o777:o}): chmod go-w it or remove it")
