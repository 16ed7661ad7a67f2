"""Read untrusted TOML of limited length and depth, in linear time."""

import re
import tomllib
from typing import Any

_MAX_CHARACTERS = 1_000_000
_MANY_PARTS = re.compile(r"""(?:\.[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*){32}""")


def load_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises ValueError if it is invalid, too long or too deep, or if a name has too many parts."""
    if len(text) > _MAX_CHARACTERS:
        raise ValueError(f"it has over {_MAX_CHARACTERS:,} characters")
    if _MANY_PARTS.search(text):  # the parser takes quadratic time for them
        raise ValueError("a name has over 32 parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is too deep") from None
