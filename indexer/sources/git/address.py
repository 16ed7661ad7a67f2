"""Addresses of repositories: `git+https://HOST/PATH@REF` and `git+file:///FOLDER@REF`."""

import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import unquote, urlsplit

from indexer.errors import SourceError
from indexer.urls import normalise

SCHEMES = ("git+https", "git+file")
_LONGEST_REF = 250  # characters
# `git check-ref-format`: no option, no range, no pattern, nothing that a shell or a refspec reads
_REF = re.compile(r"(?![-/.])(?!.*(?:\.\.|@\{|//|/\.|\.lock(?:/|$)))[^\x00-\x20\x7f~^:?*\[\\]+(?<![/.])")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def is_repository(source: str) -> bool:
    """Return whether a source is named as a repository."""
    return source.lower().startswith(tuple(f"{scheme}:" for scheme in SCHEMES))


@dataclass(frozen=True, slots=True)
class GitAddress:
    """A repository and what of it is read."""

    source: str  # as it was given
    remote: str  # https address, or path of the folder
    ref: str  # branch, tag or commit; HEAD is what the repository itself says
    is_local: bool

    @classmethod
    def read(cls, source: str) -> Self:
        """Take a source apart. Raises SourceError."""
        scheme, _, rest = source.partition("://")
        if not rest or "?" in rest or "#" in rest:
            raise SourceError(f"{source}: write {scheme.lower()}://…, with @ and a branch, tag or commit at its end")
        host, slash, path = rest.partition("/")
        path, ref = path.rsplit("@", 1) if "@" in path else (path, "HEAD")
        if not _REF.fullmatch(ref) or len(ref) > _LONGEST_REF:
            raise SourceError(f"{source}: what follows the last @ cannot be the name of a branch, tag or commit")
        if scheme.lower() == "git+file":
            folder = unquote(path).rstrip("/")
            if host or not folder or "\0" in folder:
                raise SourceError(f"{source}: write git+file:///FOLDER, with the whole path of the folder")
            return cls(source, f"/{folder}", ref, is_local=True)
        remote = normalise("", f"https://{host}{slash}{path}")
        if remote is None or urlsplit(remote).path == "/":
            raise SourceError(f"{source}: write git+https://HOST/PATH")
        return cls(source, remote, ref, is_local=False)

    @property
    def is_commit(self) -> bool:
        """Whether the ref is a commit, which never changes."""
        return _COMMIT.fullmatch(self.ref) is not None
