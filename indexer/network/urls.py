"""Normalise addresses, so that each page has only one address, and parse the names of sources.

Addresses are parsed by the URL standard, as in browsers. `normalise` also removes parts that do not change the page:
fragment, user name, tracking parameters, session ids, an empty query, the final dot of a host, and needless escapes.
"""

import ipaddress
import re
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, Self
from urllib.parse import quote, unquote, urlsplit

from ada_url import join_url, normalize_url

from indexer.errors import SourceError

_TRACKING = re.compile(r"(utm_\w+|fbclid|gclid|msclkid|mc_cid|mc_eid)(=|$)", re.IGNORECASE)
_ROOT_DOT = re.compile(r"(?<=[^.])\.(?=:|$)")
_USER = re.compile(r"[^:/?#@]*:[/\\]*+[^/?#]*@")
_ESCAPE = re.compile(r"%[0-9a-fA-F]{2}")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_IN_FRAGMENT = "!$&'()*+,;=:@/?-._~"
_MAX_LENGTH = 2_000
_DROPPED = str.maketrans("", "", "\t\r\n")

# A parameter is a session id if its name matches _SESSION, or its name matches _LIKELY and its value matches _RANDOM.
_SESSION = re.compile(
    r"[js]session_?id\w*|phpsess(?:ion)?_?id|aspsession(?:id)?\w*|oscsid|xtcsid|zenid|cfid|cftoken", re.IGNORECASE
)
_LIKELY = re.compile(r"\w{0,10}(?:sid|sess|session|session_?id)", re.IGNORECASE)
_RANDOM = re.compile(r"[0-9a-f-]{32,40}|(?=[a-z]*[0-9])(?=[0-9]*[a-z])[0-9a-z]{16,64}", re.IGNORECASE)
_IN_PATH = re.compile(r"(?<=/)\((?:[A-Z]\([\w-]{1,300}\)){0,3}S\([\w-]{10,300}\)\)/")  # ASP.NET: /(S(lit3py55…))/
_PARAMETER = re.compile(r"(?:;|%3B)([\w.$-]{1,60})(?:=|%3D)([^;/]{1,500})", re.IGNORECASE)


def normalise(base: str, href: str, *, keep_session: bool = False) -> str | None:
    """Resolve and normalise a link. Returns None if the address has over 2,000 characters or is not http or https.

    Args:
        base: absolute address of the page with the link, or empty if the link is absolute.
        keep_session: keep session ids, for servers that redirect to the same page with a session id.
    """
    try:
        url = join_url(base, href) if base else normalize_url(href)
    except ValueError:
        return None
    scheme, _, rest = url.partition("#")[0].partition("://")
    if scheme not in ("http", "https"):
        return None
    rest, _, query = rest.partition("?")
    host, _, path = rest.partition("/")
    host = _ROOT_DOT.sub("", host.rpartition("@")[2])
    if "=" in query:
        query = "&".join(pair for pair in query.split("&") if not _TRACKING.match(pair))
    url = f"{scheme}://{host}/{normalise_escapes(path)}{'?' if query else ''}{query}"
    if not keep_session:
        url = without_session(url)
    return url if len(url) <= _MAX_LENGTH else None


def origin(url: str) -> str:
    """Return scheme, host and port of a normalised address."""
    scheme, host, *_ = urlsplit(url)
    return f"{scheme}://{host}"


def on_site(url: str, site: str) -> str:
    """Change http to https in a normalised address if the origin `site` is the same host and port over https."""
    is_plain = url.startswith("http://") and site.startswith("https://") and origin(url)[7:] == site[8:]
    return f"https{url[4:]}" if is_plain else url


def has_user(url: str) -> bool:
    """Return whether an address contains a user name or password. The address need not be normalised."""
    return _USER.match(url.translate(_DROPPED)) is not None


@lru_cache(256)
def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address or `localhost`. Host names are not resolved."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def with_anchor(url: str, anchor: str | None) -> str:
    """Append an element id to an address as its fragment."""
    return f"{url}#{quote(anchor, safe=_IN_FRAGMENT)}" if anchor else url


def normalise_escapes(path: str) -> str:
    """Decode percent escapes of unreserved characters, and convert other escapes to upper case."""

    def spell(escape: re.Match[str]) -> str:
        character = chr(int(escape[0][1:], 16))
        return character if character in _UNRESERVED else escape[0].upper()

    return _ESCAPE.sub(spell, path)


def without_session(url: str) -> str:
    """Return a normalised address without session ids in its path and query."""
    path, mark, query = url.partition("?")
    if ";" in path or "%3" in path:
        path = _PARAMETER.sub(lambda match: "" if _is_session(match[1], match[2]) else match[0], path)
    if "/(" in path:
        path = _IN_PATH.sub("", path)
    if "=" in query:
        pairs = [pair for pair in query.split("&") if not _is_session(*pair.partition("=")[::2])]
        mark, query = "?" if pairs else "", "&".join(pairs)
    return path + mark + query


def _is_session(name: str, value: str) -> bool:
    is_likely = _LIKELY.fullmatch(name) and _RANDOM.fullmatch(value)
    return bool(is_likely or _SESSION.fullmatch(name))


AddressKind = Literal["site", "repository", "bucket"]
SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_KINDS: dict[str, AddressKind] = {
    **dict.fromkeys(("http", "https"), "site"),
    **dict.fromkeys(("git+https", "git+file"), "repository"),
    **dict.fromkeys(("s3", "gs", "az"), "bucket"),
}
_MAX_REF_CHARACTERS = 250
# like `git check-ref-format`, but also excludes options, ranges, patterns and refspecs
_REF = re.compile(r"(?![-/.])(?!.*(?:\.\.|@\{|//|/\.|\.lock(?:/|$)))[^\x00-\x20\x7f~^:?*\[\\]+(?<![/.])")
_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]{1,221}")  # $web and $root are containers of Azure
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def address_kind(source: str) -> AddressKind | None:
    """Return the kind of a source, or None for a path or an unknown scheme."""
    scheme = SCHEME.match(source)
    return _KINDS.get(scheme[1].lower()) if scheme else None


def full_name(source: str) -> str:
    """Return the absolute path if a source is a path, or its unchanged address otherwise."""
    if SCHEME.match(source) or not source.strip():
        return source
    try:
        return str(Path(source).expanduser().absolute())
    except RuntimeError:  # `~name` of an unknown user
        return source


def refuse_secret(source: str) -> None:
    """Raise SourceError if an address has a user name or password. The message does not quote the address."""
    if SCHEME.match(source) and has_user(source):
        raise SourceError(
            "a source has a user name or password in its address, which everybody could read: "
            "configure them under [[credentials]] in a configuration file"
        )


class GitAddress(NamedTuple):
    """`git+https://HOST/PATH@REF` or `git+file:///FOLDER@REF`. REF is a branch, tag or commit, by default HEAD."""

    source: str
    remote: str
    ref: str
    is_local: bool

    @classmethod
    def read(cls, source: str) -> Self:
        """Parse the address of a repository. Raises SourceError if it is invalid."""
        scheme, _, rest = source.partition("://")
        if not rest or "?" in rest or "#" in rest:
            form = "git+https://HOST/PATH or git+file:///FOLDER, optionally followed by @REF, without ? or #"
            raise SourceError(f"{source} is not a Git address: write {form}")
        host, slash, path = rest.partition("/")
        path, ref = path.rsplit("@", 1) if "@" in path else (path, "HEAD")
        if not _REF.fullmatch(ref) or len(ref) > _MAX_REF_CHARACTERS:
            raise SourceError(f"{source}: the text after the last @ is not a valid name of a branch, tag or commit")
        if scheme.lower() == "git+file":
            folder = unquote(path).rstrip("/")
            if host or not folder or "\0" in folder:
                raise SourceError(f"{source}: write git+file:///FOLDER, with the absolute path of the folder")
            return cls(source, f"/{folder}", ref, is_local=True)
        remote = normalise("", f"https://{host}{slash}{path}")
        if remote is None or urlsplit(remote).path == "/":
            raise SourceError(f"{source} is not a Git address: write git+https://HOST/PATH")
        return cls(source, remote, ref, is_local=False)


class BucketAddress(NamedTuple):
    """`s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`."""

    source: str
    scheme: str
    bucket: str
    prefix: str

    @classmethod
    def read(cls, source: str) -> Self:
        """Parse the address of a bucket. Raises SourceError if it is invalid."""
        scheme, _, rest = source.partition("://")
        scheme = scheme.partition(":")[0].lower()
        bucket, _, path = rest.partition("/")
        if not _BUCKET.fullmatch(bucket) or "?" in path or "#" in path:
            name = "CONTAINER" if scheme == "az" else "BUCKET"
            raise SourceError(f"{source} is not valid: write {scheme}://{name}/PREFIX, with %3F for ? and %23 for #")
        prefix = unquote(path).strip("/")
        if _CONTROL.search(prefix) or any(step in ("", ".", "..") for step in prefix.split("/") if prefix):
            raise SourceError(f"{source}: its prefix must have no empty segment, no . or .. and no control character")
        return cls(source, scheme, bucket, prefix)
