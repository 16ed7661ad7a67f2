"""Addresses of files that are not pages themselves, such as those of a repository: where a person can see them."""

import re
from urllib.parse import quote

from indexer.errors import ConfigError
from indexer.urls import has_user, normalise

_FIELD = re.compile(r"\{([^{}]*)\}")
_FIELDS = frozenset({"path", "ref", "commit", "line"})
_LINE = re.compile(r"L(\d+)")  # anchors of programs, see `indexer.read.files.text`


class LinkTemplate:
    """An address with `{path}`, and `{ref}`, `{commit}` and `#…{line}` if it has them."""

    def __init__(self, text: str) -> None:
        """Take it apart. Raises ConfigError."""
        self._address, _, self.fragment = text.partition("#")
        example = _FIELD.sub("x", self._address)
        fields = set(_FIELD.findall(text))
        if fields - _FIELDS or "{" in example or "}" in example:
            raise ConfigError(f"link_template knows {{path}}, {{ref}}, {{commit}} and {{line}}, unlike {text[:200]!r}")
        if normalise("", example) is None or has_user(example):
            raise ConfigError(f"link_template must be an http or https address, not {text[:200]!r}")
        if "{path}" not in self._address or "{line}" in self._address:
            raise ConfigError("link_template needs {path} before #, and has {line} only after it")
        if "#" in text and "{line}" not in self.fragment:
            raise ConfigError("link_template may have #, followed by {line}, such as #L{line}, and nothing else")

    def url(self, path: bytes, ref: str = "", commit: str = "") -> str:
        """Return the address of a file, without a line."""
        given = {"path": quote(path), "ref": quote(ref), "commit": commit}
        return _FIELD.sub(lambda field: given[field[1]], self._address)

    def is_of(self, url: str, path: bytes, ref: str = "") -> bool:
        """Return whether an address is one of a file, at whatever commit."""
        pattern = re.escape(self.url(path, ref, "\0")).replace(re.escape("\0"), "[0-9a-f]+")
        return re.fullmatch(pattern, url) is not None


def line_anchor(fragment: str, anchor: str | None) -> str | None:
    """Write an anchor of a line as a template's fragment has it."""
    line = _LINE.fullmatch(anchor or "")
    return fragment.replace("{line}", line[1]) if line and fragment else anchor
