"""Session ids in addresses, which servers put there for clients without cookies: they are no part of an address.

A product's own name for a session is enough. Otherwise the name must sound like one, and the value must be a long
random token, so that `sid=12` or `session=autumn-2026` still names a document.
"""

import re

_PRODUCTS = re.compile(
    r"[js]session_?id\w*|phpsess(?:ion)?_?id|aspsession(?:id)?\w*|oscsid|xtcsid|zenid", re.IGNORECASE
)
_LIKELY = re.compile(r"\w*sess\w*|\w{0,10}sid|cftoken|s", re.IGNORECASE)
_COLDFUSION = ("cfid=", "cftoken=")
_PIECE = re.compile(r"[0-9A-Za-z]{16,}")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_RUN = re.compile(r"[0-9]+|[a-z]+|[A-Z]+")
_LEAST_RUNS = 5  # of digits, small letters or capitals in a random piece; words with a year have three
_PARAMETER = re.compile(r"(?:;|%3B)([\w.$-]{1,60})(?:=|%3D)([^;/]{1,500})", re.IGNORECASE)
_COOKIELESS = re.compile(
    r"(?<=/)\((?:[A-Z]\([\w-]{1,300}\)){0,3}S\([\w-]{10,300}\)\)/"
)  # of ASP.NET: /(S(lit3py55t21z5v55vlm25s55))/


def is_session(name: str, value: str) -> bool:
    """Return whether a parameter of an address is a session id."""
    return _PRODUCTS.fullmatch(name) is not None or (_LIKELY.fullmatch(name) is not None and is_random(value))


def is_random(value: str) -> bool:
    """Return whether a value is a long random token rather than a word, a number or a date."""
    if _UUID.fullmatch(value):
        return True
    return any(len(_RUN.findall(piece)) >= _LEAST_RUNS for piece in _PIECE.findall(value))


def without_session(url: str) -> str:
    """Return a normalised address without session ids in its path and query."""
    path, mark, query = url.partition("?")
    if ";" in path or "%3" in path:
        path = _PARAMETER.sub(lambda found: "" if is_session(found[1], found[2]) else found[0], path)
    if "/(" in path:
        path = _COOKIELESS.sub("", path)
    if "=" not in query:
        return path + mark + query
    pairs = query.split("&")
    if all(any(pair.lower().startswith(name) for pair in pairs) for name in _COLDFUSION):
        pairs = [pair for pair in pairs if not pair.lower().startswith(_COLDFUSION)]
    pairs = [pair for pair in pairs if not is_session(*pair.partition("=")[::2])]
    return f"{path}{'?' if pairs else ''}{'&'.join(pairs)}"
