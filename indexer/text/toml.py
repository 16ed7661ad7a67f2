"""Read TOML of strangers: in linear time, and of limited length and depth."""

import re
import tomllib
from typing import Any

_LONGEST_TOML = 1_000_000  # characters
_MANY_PARTS = re.compile(r"""(?:\.[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*){32}""")


def load_toml(text: str) -> dict[str, Any]:
    """Read TOML in linear time. Raises ValueError, also for a text or a name that is too long, and for deep values."""
    if len(text) > _LONGEST_TOML:
        raise ValueError(f"it has over {_LONGEST_TOML:,} characters")
    if _MANY_PARTS.search(text):  # for which the parser takes quadratic time
        raise ValueError("a name has over 32 parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is too deep") from None
