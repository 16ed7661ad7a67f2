"""Parse and check the names of sources: sites, repositories, buckets, folders and files."""

import re
from pathlib import Path
from typing import Literal, NamedTuple, Self
from urllib.parse import unquote, urlsplit

from indexer.errors import SourceError
from indexer.network.urls import has_user, normalise

AddressKind = Literal["site", "repository", "bucket"]
SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_KINDS: dict[str, AddressKind] = {
    **dict.fromkeys(("http", "https"), "site"),
    **dict.fromkeys(("git+https", "git+file"), "repository"),
    **dict.fromkeys(("s3", "gs", "az"), "bucket"),
}
_MAX_REF_CHARACTERS = 250
# like `git check-ref-format`, without options, ranges, patterns, and characters of shells and refspecs
_REF = re.compile(r"(?![-/.])(?!.*(?:\.\.|@\{|//|/\.|\.lock(?:/|$)))[^\x00-\x20\x7f~^:?*\[\\]+(?<![/.])")
_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]{1,221}")  # $web and $root are containers of Azure
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def address_kind(source: str) -> AddressKind | None:
    """Return the kind of a source, or None for a path or an unknown scheme."""
    scheme = SCHEME.match(source)
    return _KINDS.get(scheme[1].lower()) if scheme else None


def full_name(source: str) -> str:
    """Return a source with an absolute path. Addresses stay unchanged."""
    if SCHEME.match(source) or not source.strip():
        return source
    try:
        return str(Path(source).expanduser().absolute())
    except RuntimeError:  # unknown user
        return source


def refuse_secret(source: str) -> None:
    """Raise SourceError for an address with a user name or password, without quoting it."""
    if SCHEME.match(source) and has_user(source):
        raise SourceError(
            "a source has a user name or password in its address, which everybody could read: "
            "describe them under [[credentials]] in a configuration file"
        )


class GitAddress(NamedTuple):
    """`git+https://HOST/PATH@REF` or `git+file:///FOLDER@REF`; the ref is a branch, tag or commit, by default HEAD."""

    source: str
    remote: str
    ref: str
    is_local: bool

    @classmethod
    def read(cls, source: str) -> Self:
        """Parse a source. Raises SourceError."""
        scheme, _, rest = source.partition("://")
        if not rest or "?" in rest or "#" in rest:
            raise SourceError(f"{source}: write {scheme.lower()}://…, with @ and a branch, tag or commit at its end")
        host, slash, path = rest.partition("/")
        path, ref = path.rsplit("@", 1) if "@" in path else (path, "HEAD")
        if not _REF.fullmatch(ref) or len(ref) > _MAX_REF_CHARACTERS:
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


class BucketAddress(NamedTuple):
    """`s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`."""

    source: str
    scheme: str
    bucket: str
    prefix: str

    @classmethod
    def read(cls, source: str) -> Self:
        """Parse a source. Raises SourceError."""
        scheme, _, rest = source.partition("://")
        scheme = scheme.partition(":")[0].lower()
        bucket, _, path = rest.partition("/")
        if not _BUCKET.fullmatch(bucket) or "?" in path or "#" in path:
            name = "CONTAINER" if scheme == "az" else "BUCKET"
            raise SourceError(f"{source}: write {scheme}://{name}/PREFIX, with %3F and %23 for ? and #")
        prefix = unquote(path).strip("/")
        if _CONTROL.search(prefix) or any(step in ("", ".", "..") for step in prefix.split("/") if prefix):
            raise SourceError(f"{source}: a prefix has no empty steps, no . or .., and no control characters")
        return cls(source, scheme, bucket, prefix)
