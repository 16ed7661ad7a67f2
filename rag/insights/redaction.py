"""Takes out of a query what tells of a person or opens a door, before anything is written."""

import re
from collections.abc import Sequence
from pathlib import Path

from rag.errors import SettingsError

# every repetition has a bound, so that no query, however long, takes more than time in proportion to its length
_EMAIL = r"(?<![\w.+'-])[\w.+'-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"
# letters and digits in turn, and longer than words people type; a name such as test_of_a_long_name_v2 is none
_TURNS = r"(?=(?:[A-Za-z_+=-]{0,99}[0-9]{1,99}[A-Za-z]){2})"
_BOTH = r"(?=[A-Za-z]{0,99}[0-9])(?=[0-9]{0,99}[A-Za-z])"
_UUID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
_KEY = rf"(?<![\w-])(?:{_TURNS}[A-Za-z0-9_+=-]{{20,}}|{_BOTH}[A-Za-z0-9]{{20,}}|{_UUID})"
# seven digits or more, as they are written in telephone, account and card numbers; a day is none
_NUMBER = r"(?<!\d)(?!\d{4}-\d\d-\d\d(?!\d|-))\+?\d(?:[ .()/:-]{0,2}\d){6,}"
_SUSPECT = re.compile(r"[@0-9]")  # whatever the three match has one of these
_LONG_WORD = re.compile(r"[A-Za-z0-9_+=-]{20}")
_FEWEST_DIGITS = 7
_BUILT_IN = {"[email]": re.compile(_EMAIL), "[key]": re.compile(_KEY), "[number]": re.compile(_NUMBER)}
OWN = "[redacted]"  # in place of what the operator's patterns match


class Redaction:
    """The built-in patterns, e-mail addresses, keys and long numbers, and an operator's own."""

    def __init__(self, own: Sequence[re.Pattern[str]] = ()) -> None:
        self._own = own

    @classmethod
    def read(cls, path: str) -> "Redaction":
        """Read the operator's patterns: a regular expression a line, `#` before a comment; an empty path has none.

        Raises SettingsError naming the line.
        """
        if not path:
            return cls()
        own = []
        try:
            lines = Path(path).expanduser().read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"--insights-redact: cannot read {path}: {error}") from error
        for number, line in enumerate(lines, start=1):
            if not (text := line.strip()) or text.startswith("#"):
                continue
            try:
                pattern = re.compile(text)
            except re.error as error:
                raise SettingsError(f"--insights-redact: {path} line {number}: {error}") from error
            if pattern.search("") is not None:
                raise SettingsError(f"--insights-redact: {path} line {number}: it matches an empty text")
            own.append(pattern)
        return cls(own)

    def redact(self, text: str) -> str:
        """Return the text with a word in brackets, such as [email], for each part that is not to be kept."""
        for pattern in self._own:
            text = pattern.sub(OWN, text)
        if not _SUSPECT.search(text):
            return text
        may_have = "@" in text, _LONG_WORD.search(text), sum(map(str.isdigit, text)) >= _FEWEST_DIGITS
        for (word, pattern), is_looked_for in zip(_BUILT_IN.items(), may_have, strict=True):
            if is_looked_for:  # or the pattern, which is slower, would look in vain
                text = pattern.sub(word, text)
        return text
