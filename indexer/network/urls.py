"""Addresses in one normal form, so that a page is known by one name.

They are parsed and serialised by the URL standard, as browsers do it. What `normalise` changes beyond that never leads
to another page: fragment, user name, tracking parameters, session ids, an empty query, the root dot, needless escapes.
"""

import ipaddress
import re
from functools import lru_cache
from urllib.parse import quote, urlsplit

from ada_url import join_url, normalize_url

_TRACKING = re.compile(r"(utm_\w+|fbclid|gclid|msclkid|mc_cid|mc_eid)(=|$)", re.IGNORECASE)
_ROOT_DOT = re.compile(r"(?<=[^.])\.(?=:|$)")
_USER = re.compile(r"[^:/?#@]*:[/\\]*+[^/?#]*@")
_ESCAPE = re.compile(r"%[0-9a-fA-F]{2}")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_IN_FRAGMENT = "!$&'()*+,;=:@/?-._~"
_LONGEST = 2_000  # characters; longer ones are traps or data, not pages
_DROPPED = str.maketrans("", "", "\t\r\n")  # by the URL standard, wherever they stand

# names of parameters that are session ids whatever their value is, and that are if it is a long random one
_SESSION = re.compile(
    r"[js]session_?id\w*|phpsess(?:ion)?_?id|aspsession(?:id)?\w*|oscsid|xtcsid|zenid|cfid|cftoken", re.IGNORECASE
)
_LIKELY = re.compile(r"\w{0,10}(?:sid|sess|session|session_?id)", re.IGNORECASE)
_RANDOM = re.compile(r"[0-9a-f-]{32,40}|(?=[a-z]*[0-9])(?=[0-9]*[a-z])[0-9a-z]{16,64}", re.IGNORECASE)
_IN_PATH = re.compile(r"(?<=/)\((?:[A-Z]\([\w-]{1,300}\)){0,3}S\([\w-]{10,300}\)\)/")  # ASP.NET: /(S(lit3py55…))/
_PARAMETER = re.compile(r"(?:;|%3B)([\w.$-]{1,60})(?:=|%3D)([^;/]{1,500})", re.IGNORECASE)


def normalise(base: str, href: str, *, keep_session: bool = False) -> str | None:
    """Join a link to its base, which may be empty, and normalise it.

    A session id stays only if it is to be kept, for a server that redirects to the same page with one.

    Returns None for anything that is not an http or https address of a sensible length.
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
    url = f"{scheme}://{host}/{one_spelling(path)}{'?' if query else ''}{query}"
    if not keep_session:
        url = without_session(url)
    return url if len(url) <= _LONGEST else None


def origin(url: str) -> str:
    """Return scheme, host and port of a normalised address."""
    scheme, host, *_ = urlsplit(url)
    return f"{scheme}://{host}"


def on_site(url: str, site: str) -> str:
    """Return a normalised address over https if the site (`scheme://host:port`) is, and has it over http.

    Pages and redirects of a site that moved to https still name it with http.
    """
    is_plain = url.startswith("http://") and site.startswith("https://") and origin(url)[7:] == site[8:]
    return f"https{url[4:]}" if is_plain else url


def has_user(url: str) -> bool:
    """Return whether an address, normalised or not, names a user or a password before its host."""
    return _USER.match(url.translate(_DROPPED)) is not None


@lru_cache(256)
def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a host, by its spelling: names but localhost are not looked up."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def with_anchor(url: str, anchor: str | None) -> str:
    """Append an element id to an address as its fragment."""
    return f"{url}#{quote(anchor, safe=_IN_FRAGMENT)}" if anchor else url


def one_spelling(path: str) -> str:
    """Write needed escapes in upper case, and needless ones as their character."""

    def spell(escape: re.Match[str]) -> str:
        character = chr(int(escape[0][1:], 16))
        return character if character in _UNRESERVED else escape[0].upper()

    return _ESCAPE.sub(spell, path)


def without_session(url: str) -> str:
    """Return a normalised address without session ids in its path and query."""
    path, mark, query = url.partition("?")
    if ";" in path or "%3" in path:
        path = _PARAMETER.sub(lambda found: "" if _is_session(found[1], found[2]) else found[0], path)
    if "/(" in path:
        path = _IN_PATH.sub("", path)
    if "=" in query:
        pairs = [pair for pair in query.split("&") if not _is_session(*pair.partition("=")[::2])]
        mark, query = "?" if pairs else "", "&".join(pairs)
    return path + mark + query


def _is_session(name: str, value: str) -> bool:
    is_likely = _LIKELY.fullmatch(name) and _RANDOM.fullmatch(value)
    return bool(is_likely or _SESSION.fullmatch(name))
