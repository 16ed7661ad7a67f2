"""What extensions of Sphinx add to reStructuredText: text stays, whatever the name of a directive or role is."""

import pytest

from indexer import notes
from indexer.read.markup.restructured import read


@pytest.mark.parametrize(
    ("text", "shown", "gone"),
    [
        (".. tabs::\n\n   .. group-tab:: Linux\n\n      Run *apt*.\n\n   .. tab:: Mac\n\n      Run brew.",
         ["Linux", "Run apt.", "Mac", "Run brew."], ["tab", "*"]),
        (".. code-block:: python\n   :caption: main.py\n   :linenos:\n\n   x = 1", ["main.py", "x = 1"], ["linenos"]),
        (".. http:get:: /users/(int:id)\n\n   Gets one.\n\n   :query sort: how",
         ["/users/(int:id)", "Gets one."], [".."]),
        ("Text :myrole:`shown <x>` and `back`:other: and :py:meth:`~a.b`.", ["Text shown and back and b."], [":", "`"]),
        ("Text.\n\n.. toctree::\n   :maxdepth: 2\n\n   intro\n\n.. index:: a; b\n\nMore.",
         ["Text.", "More."], ["intro", "a; b"]),
        (".. note:: Short.\n\n.. warning::\n\n   Long *one*.\n\n.. custom-box::\n\n   Boxed.",
         ["Short.", "Long one.", "Boxed."], ["custom"]),
    ],
)  # fmt: skip
def test_directives_and_roles(text: str, shown: list[str], gone: list[str]) -> None:
    found = "\n".join(section.text for section in read(text.encode(), None).sections)
    place = 0
    for words in shown:
        assert words in found[place:], found
        place = found.index(words, place) + len(words)
    assert not [mark for mark in gone if mark in found], found


def test_what_is_left_out_is_noted() -> None:
    notes.take()
    read(b"Text.\n\n.. toctree::\n\n   intro\n", None)
    assert notes.take() == ("a directive was left out: toctree",)
