"""`pilotlight keys`."""

import sys
from typing import TYPE_CHECKING, Any

import click

from rag.commands.verb import Result, one_of, verb
from rag.settings import Settings

if TYPE_CHECKING:
    from rag.serving.api_keys import Key


@verb("index", "keys", without=("collection",))
@click.argument("action", type=one_of("add", "list", "remove"), help="add, list or remove")
@click.argument("name", required=False, help="name of the key, such as who uses it")
@click.option(
    "--role", metavar="ROLE", default="read", help="what it allows: read (default), or write, which includes read"
)
@click.option(
    "--origin",
    "origins",
    metavar="ORIGIN",
    multiple=True,
    help="site whose pages show the key, such as https://docs.example.org: it is good for searches from there alone; "
    "may be repeated",
)
@click.option(
    "--collection",
    "collections",
    metavar="NAME",
    multiple=True,
    help="collection that the key is for: nothing else is there for it; may be repeated",
)
@click.option(
    "--filter",
    "filters",
    metavar="KEY=VALUE",
    multiple=True,
    help="which documents the key may see, such as meta.team=payments or path=/docs, with the role read; may be "
    "repeated",
)
@click.option("--stdin", "from_stdin", is_flag=True, help="read the key from standard input instead of generating one")
def keys(
    settings: Settings,
    *,
    action: str,
    name: str | None,
    role: str,
    origins: tuple[str, ...],
    collections: tuple[str, ...],
    filters: tuple[str, ...],
    from_stdin: bool,
) -> Result:
    """Make, list or remove keys of the server."""
    from rag.commands.search.search import read_filter
    from rag.errors import KeysError
    from rag.query.filters import parameters_of
    from rag.serving.api_keys import KeyFile
    from rag.serving.scope import Scope

    file = KeyFile(settings.keys_file)
    if action == "list":
        keys = file.read()
        lines = []
        for key in keys:
            parts = [f"{name}={value}" for name, value in parameters_of(key.scope.filter)]
            said = " ".join([*key.origins, *sorted(key.scope.collections or ()), *parts])
            lines.append(f"{key.name:<24}  {key.role:<5}  {key.created}  {said}".rstrip())
        return {"keys": [_facts(key) for key in keys]}, "\n".join(lines) or "there are no keys"
    if name is None:
        raise KeysError(f"keys {action} needs the NAME of a key")
    if action == "remove":
        key = file.remove(name)
        return _facts(key), f"removed key {key.name}"
    given = sys.stdin.readline().rstrip("\r\n") if from_stdin else None
    scope = Scope(frozenset(collections) or None, read_filter(filters))
    shown = file.add(name, role, given, origins, scope)
    made = next(key for key in file.read() if key.name == name)
    text = f"{shown}\nkey {name} ({role}) is in {file.path}; it will not be shown again"
    return {**_facts(made), "key": shown}, text


def _facts(key: "Key") -> dict[str, Any]:
    from rag.serving.api_keys import scope_fields

    fields = {"name": key.name, "role": key.role, "created": key.created, "origins": list(key.origins)}
    return fields | scope_fields(key.scope)
