"""Addresses in one normal form, so that a page is known by one name."""

import ipaddress
import re
from urllib.parse import parse_qsl, quote, urlencode, urljoin, urlsplit, urlunsplit

_PORTS = {"http": 80, "https": 443}
_TRACKING = re.compile(r"^(utm_\w+|fbclid|gclid|msclkid|mc_cid|mc_eid)$", re.IGNORECASE)
_ESCAPE = re.compile(r"%[0-9a-fA-F]{2}")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_IN_FRAGMENT = "!$&'()*+,;=:@/?-._~"
_LONGEST = 2_000  # characters; longer ones are traps or data, not pages
_DROPPED = str.maketrans("", "", "\t\r\n")  # by urlsplit, wherever they stand


def normalise(base: str, href: str) -> str | None:
    """Join a link to its base and normalise it, without fragment, user name or tracking parameters.

    Returns None for anything that is not an http or https address of a sensible length.
    """
    try:
        parts = urlsplit(urljoin(base, href.strip()))
        port = parts.port
        host = _host(parts.hostname or "")
    except (ValueError, UnicodeError):
        return None
    if parts.scheme not in _PORTS or not host:
        return None
    if port is not None and port != _PORTS[parts.scheme]:
        host = f"{host}:{port}"
    path = _without_dots(_escaped(parts.path)) or "/"
    url = urlunsplit((parts.scheme, host, path, _query(parts.query), ""))
    return url if len(url) <= _LONGEST else None


def origin(url: str) -> str:
    """Return scheme, host and port of a normalised address."""
    scheme, host, *_ = urlsplit(url)
    return f"{scheme}://{host}"


def has_user(url: str) -> bool:
    """Return whether an address, normalised or not, names a user or a password before its host."""
    return "@" in re.split("[/?#]", url.translate(_DROPPED).partition("://")[2], maxsplit=1)[0]


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a host, by its spelling: names but localhost are not looked up."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def with_anchor(url: str, anchor: str | None) -> str:
    """Append an element id to an address as its fragment."""
    return f"{url}#{quote(anchor, safe=_IN_FRAGMENT)}" if anchor else url


def _host(host: str) -> str:
    if ":" in host:
        return f"[{host}]"
    host = host.rstrip(".")
    if host.isascii():
        return host if re.fullmatch(r"[\w.-]+", host) else ""
    return host.encode("idna").decode("ascii")


def _escaped(path: str) -> str:
    """One spelling for each path: needed escapes in upper case, needless ones undone."""

    def one(match: re.Match[str]) -> str:
        character = chr(int(match[0][1:], 16))
        return character if character in _UNRESERVED else match[0].upper()

    return _ESCAPE.sub(one, quote(path, safe="/%!$&'()*+,;=:@~"))


def _without_dots(path: str) -> str:
    """RFC 3986, 5.2.4."""
    if "/." not in path:
        return path
    kept: list[str] = []
    segments = path.split("/")
    for segment in segments[1:]:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def _query(query: str) -> str:
    if not query:
        return ""
    if "=" in query and any(_TRACKING.match(name) for name, _ in parse_qsl(query, keep_blank_values=True)):
        pairs = parse_qsl(query, keep_blank_values=True)
        return urlencode([(name, value) for name, value in pairs if not _TRACKING.match(name)])
    return quote(query, safe="/%!$&'()*+,;=:@~?-._[]|")
