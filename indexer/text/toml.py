"""Read TOML of strangers: in linear time, and of limited length and depth."""

import re
import tomllib
from typing import Any

_MAX_LENGTH = 1_000_000  # characters
_MANY_PARTS = re.compile(r"""(?:\.[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*){32}""")


def load_toml(text: str) -> dict[str, Any]:
    """Parse TOML in linear time. Raises ValueError; also if a text or a name is too long, or values too deep."""
    if len(text) > _MAX_LENGTH:
        raise ValueError(f"it has over {_MAX_LENGTH:,} characters")
    if _MANY_PARTS.search(text):  # the parser takes quadratic time
        raise ValueError("a name has over 32 parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is too deep") from None
