"""Notes on what was guessed, or left out, while a document was read.

A process reads one document at a time, so one list is enough. The summary of a build counts notes by their text: so a
note names a kind ("an encoding was guessed: windows-1252"), and never the place or the words of one document.
"""

MAX_NOTES = 20  # for one document
_notes: dict[str, None] = {}  # in order of their first appearance


def add(note: str) -> None:
    """Add a note to those of the document that is being read; a repeated one counts once."""
    if len(_notes) < MAX_NOTES:
        _notes[note] = None


def take() -> tuple[str, ...]:
    """Return the notes since the last call, and forget them."""
    taken = tuple(_notes)
    _notes.clear()
    return taken
