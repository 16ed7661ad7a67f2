"""Access lists: who may read a document, as its front matter, a file beside it, or its sender says.

A list that cannot be read is one of nobody: a slip of the pen must not make a document public.
"""

import tomllib
from collections.abc import Mapping
from typing import Any

from indexer.decoding import visible
from indexer.filter import folded
from indexer.records import Readers

FILE = ".access.toml"  # of all in a folder; with the name of a file before it, of that file
NOBODY: tuple[str, ...] = ()
MOST_NAMES = 256  # of one list
LONGEST = 256  # characters of a name
_KINDS = {"users": "user", "groups": "group"}
_SHAPE = 'users = ["ann"], groups = ["staff"], or everybody = true'


def readers_of(given: object) -> Readers:
    """Return the names of a list, such as `group:staff`; None for everybody. Raises ValueError, which says why not."""
    if not isinstance(given, Mapping):
        raise ValueError(f"an access list is no table; it has {_SHAPE}")
    if unknown := [name for name in given if name not in (*_KINDS, "everybody")]:
        raise ValueError(f"an access list has {str(unknown[0])[:40]!r}; it has {_SHAPE}")
    if "everybody" in given:
        if len(given) == 1 and given["everybody"] in (True, "true"):
            return None
        raise ValueError(f"everybody must be true, and stand alone in an access list; it has {_SHAPE}")
    names = set()
    for kind, texts in given.items():
        if not isinstance(texts, str | list):
            raise ValueError("users and groups of an access list must be names or lists of names")
        for text in [texts] if isinstance(texts, str) else texts:
            name = folded(visible(text)) if isinstance(text, str) else ""
            if not 0 < len(name) <= LONGEST:
                raise ValueError(f"an access list has a name that is empty, too long or no text: {str(text)[:40]!r}")
            names.add(f"{_KINDS[kind]}:{name}")
    if len(names) > MOST_NAMES:
        raise ValueError(f"an access list has at most {MOST_NAMES} names")
    return tuple(sorted(names))


def read_list(body: bytes) -> Readers:
    """Read the file of a list, as `readers_of` does. Raises ValueError."""
    try:
        return readers_of(tomllib.loads(body.decode("utf-8-sig")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"is not valid TOML ({error})") from None
    except RecursionError:
        raise ValueError("is not valid TOML (too deep)") from None


def checked_names(names: Any) -> Readers:
    """Return names that a reader process gave; of nobody if they are none."""
    if names is None:
        return None
    try:
        by_kind: dict[str, list[str]] = {}
        for kind, _, name in (str(each).partition(":") for each in names):
            by_kind.setdefault(f"{kind}s", []).append(name)
        return readers_of(by_kind)
    except (TypeError, ValueError):
        return NOBODY
