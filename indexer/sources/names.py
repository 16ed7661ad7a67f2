"""Sources as users name them: addresses, folders and files."""

import re
from pathlib import Path
from typing import Literal

from indexer.errors import SourceError
from indexer.read.formats import content_type_of
from indexer.urls import has_user

AddressKind = Literal["site", "repository", "bucket"]
SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_HOST = re.compile(r"(?P<name>localhost|[a-z0-9-]+(\.[a-z0-9-]+)+)(?P<port>:\d+)?(?P<path>/.*)?$", re.IGNORECASE)
_KINDS: dict[str, AddressKind] = {  # of sources at an address
    "http": "site",
    "https": "site",
    "git+https": "repository",
    "git+file": "repository",
    "s3": "bucket",
    "gs": "bucket",
    "az": "bucket",
}


def address_kind(source: str) -> AddressKind | None:
    """Return the kind of a source that is named by its address; None for a path, and for what is no source."""
    scheme = SCHEME.match(source)
    return _KINDS.get(scheme[1].lower()) if scheme else None


def full_name(source: str) -> str:
    """A source as it can be read again from anywhere: paths are made absolute, addresses stay as they are."""
    if SCHEME.match(source) or not source.strip():
        return source
    try:
        return str(Path(source).expanduser().absolute())
    except RuntimeError:  # no such user
        return source


def refuse_secret(source: str) -> None:
    """Raise SourceError, which does not quote it, for an address with a user name or password in it."""
    if SCHEME.match(source) and has_user(source):
        raise SourceError(
            "a source has a user name or password in its address, where everybody could read it: "
            "describe them under [[credentials]] in a configuration file"
        )


def refuse_bare_host(source: str) -> None:
    """Raise SourceError for what is no file or folder, and reads like the address of a site without its scheme."""
    found = _HOST.match(source)
    if found is None or Path(source).exists() or (not found["path"] and content_type_of(source)):
        return
    scheme = "http" if found["port"] or found["name"] in ("localhost", "127.0.0.1") else "https"
    raise SourceError(f"there is no file or folder {source}; for the site, write {scheme}://{source}")
