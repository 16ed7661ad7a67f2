"""Read the file of the setting `synonyms`."""

import re
from pathlib import Path

from indexer.errors import SynonymsError
from indexer.generation.lexical.lexical_query import MAX_SYNONYM_WORDS, Synonyms, folded_words

MAX_SYNONYMS = 64
_COMMA, _ARROW = re.compile(r"(?<!\\),"), re.compile(r"(?<!\\)=>")


def read_synonyms(path: str) -> Synonyms:
    """Read a file of synonyms. Raises SynonymsError, which names the file and the line of an invalid rule."""
    file = Path(path).expanduser()
    try:
        return parse_synonyms(file.read_text(encoding="utf-8-sig"), str(file))
    except OSError as error:
        raise SynonymsError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SynonymsError(f"{file}: it is not UTF-8 ({error.reason} at byte {error.start:,})") from error


def parse_synonyms(text: str, name: str) -> Synonyms:
    """Parse the text of a file of synonyms. Raises SynonymsError, whose message begins with `name` and the line."""
    rules: dict[tuple[str, ...], dict[str, None]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        rule, where = line.partition("#")[0].strip(), f"{name} line {number}"
        if not rule:
            continue
        sides = [_members(side, where) for side in _ARROW.split(rule)]
        if len(sides) > 2:
            raise SynonymsError(f"{where}: a rule has one =>, not {len(sides) - 1}")
        if len(sides) == 1 and len(sides[0]) == 1:
            raise SynonymsError(f"{where}: {sides[0][0]!r} has no synonym: write a, b or a => b")
        if max(map(len, sides)) > MAX_SYNONYMS:
            raise SynonymsError(f"{where}: a rule has at most {MAX_SYNONYMS} words or phrases on a side")
        for member in sides[0]:
            synonyms = rules.setdefault(folded_words(member), {})
            synonyms |= dict.fromkeys((member, *sides[-1])[len(sides) - 1 :])
            if len(synonyms) > MAX_SYNONYMS:
                raise SynonymsError(f"{where}: {member!r} has more than {MAX_SYNONYMS} synonyms")
    return {words: [*synonyms] for words, synonyms in rules.items()}


def _members(side: str, where: str) -> list[str]:
    members = [" ".join(re.sub(r"\\(.)", r"\1", member).split()) for member in _COMMA.split(side)]
    for member in members:
        if not 1 <= len(folded_words(member)) <= MAX_SYNONYM_WORDS:
            raise SynonymsError(f"{where}: {member!r} must have one to {MAX_SYNONYM_WORDS} words")
    return members
