"""Addresses of objects: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` and `az://CONTAINER/PREFIX`."""

import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, unquote

from indexer.errors import SourceError

SCHEMES = ("s3", "gs", "az")
_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]{1,221}")  # $web and $root are containers of Azure
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def is_bucket(source: str) -> bool:
    """Return whether a source is named as objects of a bucket."""
    return source.lower().startswith(tuple(f"{scheme}:" for scheme in SCHEMES))


@dataclass(frozen=True, slots=True)
class BucketAddress:
    """A bucket, and which of its objects are read: one, or all below a prefix."""

    source: str  # as it was given
    scheme: str  # s3, gs or az
    bucket: str  # or container
    prefix: str  # without / at its ends; empty for all objects

    @classmethod
    def read(cls, source: str) -> Self:
        """Take a source apart. Raises SourceError."""
        scheme, _, rest = source.partition("://")
        bucket, _, path = rest.partition("/")
        scheme = scheme.lower()
        if not rest or not _BUCKET.fullmatch(bucket) or "?" in path or "#" in path:
            what = "CONTAINER" if scheme == "az" else "BUCKET"
            scheme = source.lower().partition(":")[0]
            raise SourceError(f"{source}: write {scheme}://{what}/PREFIX, with %3F and %23 for ? and #")
        prefix = unquote(path).strip("/")
        if _CONTROL.search(prefix) or any(step in ("", ".", "..") for step in prefix.split("/") if prefix):
            raise SourceError(f"{source}: a prefix has no empty steps, no . or .., and no control characters")
        return cls(source, scheme, bucket, prefix)

    @property
    def root(self) -> str:
        """What comes before the name of an object in its address."""
        return f"{self.scheme}://{self.bucket}"

    def name_of(self, path: str) -> str:
        """Return the address of an object, or of all below a prefix."""
        return f"{self.root}/{quote(path)}"
