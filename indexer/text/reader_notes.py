"""Notes on guesses and omissions while a document is read.

A process reads one document at a time, so one list is enough. The summary of a build counts notes by their text. So a
note names a kind ("an encoding was guessed: windows-1252"), and never quotes one document.
"""

MAX_NOTES = 20
_notes: dict[str, None] = {}


def add(note: str) -> None:
    """Add a note on the document that is being read, up to `MAX_NOTES` different notes."""
    if len(_notes) < MAX_NOTES:
        _notes[note] = None


def take() -> tuple[str, ...]:
    """Return the notes since the last call, and clear them."""
    result = tuple(_notes)
    _notes.clear()
    return result
