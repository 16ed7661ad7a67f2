"""Collect notes on guesses and omissions while a document is parsed.

A process parses one document at a time, so one list is enough. The summary of a build counts equal notes. Therefore a
note names a kind of problem, such as "an encoding was guessed: windows-1252", and does not quote the document.
"""

MAX_NOTES = 20
_notes: dict[str, None] = {}


def add(note: str) -> None:
    """Add a note on the document that is being parsed, unless the document already has `MAX_NOTES` notes."""
    if len(_notes) < MAX_NOTES:
        _notes[note] = None


def take() -> tuple[str, ...]:
    """Return the notes added since the last call, and clear the list."""
    result = tuple(_notes)
    _notes.clear()
    return result
