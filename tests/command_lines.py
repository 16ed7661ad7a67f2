"""Parse command lines without running them."""

from collections.abc import Sequence
from typing import Any

import click

from rag.commands.cli import load_verb, pilotlight


def read(line: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of a command line by name, None if not set. Raises as the command line does."""
    with click.Context(pilotlight, info_name="pilotlight") as parent:
        return load_verb(line[0]).make_context(line[0], list(line[1:]), parent=parent).params
