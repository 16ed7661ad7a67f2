"""`pilotlight keys`."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import click

from rag.commands.verb import Result, one_of, verb
from rag.settings import Settings

if TYPE_CHECKING:
    from rag.serving.api_keys import Key
    from rag.serving.scope import Part, Scope


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
    help="which documents the key may see, such as meta.team=payments or path=/docs; may be repeated; not with the "
    "role write",
)
@click.option(
    "--scope",
    "scopes",
    metavar="SCOPE",
    multiple=True,
    help="what the key may see besides, such as 'collection=wiki&meta.team=ops'; may be repeated",
)
@click.option(
    "--user",
    "users",
    metavar="NAME",
    multiple=True,
    help="user in whose name the key sees documents with an access list; may be repeated",
)
@click.option("--group", "groups", metavar="NAME", multiple=True, help="the same for a group; may be repeated")
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
    scopes: tuple[str, ...],
    users: tuple[str, ...],
    groups: tuple[str, ...],
    from_stdin: bool,
) -> Result:
    """Make, list or remove keys of the server."""
    from rag.commands.search.search import read_filter
    from rag.errors import KeysError
    from rag.serving.api_keys import KeyFile
    from rag.serving.scope import Part, Scope, reader_names

    file = KeyFile(settings.keys_file)
    if action == "list":
        keys = file.read()
        lines = []
        for key in keys:
            said = " ".join([*key.origins, *_said(key.scope)])
            lines.append(f"{key.name:<24}  {key.role:<5}  {key.created}  {said}".rstrip())
        return {"keys": [_facts(key) for key in keys]}, "\n".join(lines) or "there are no keys"
    if name is None:
        raise KeysError(f"keys {action} needs the NAME of a key")
    if action == "remove":
        key = file.remove(name)
        return _facts(key), f"removed key {key.name}"
    given = sys.stdin.readline().rstrip("\r\n") if from_stdin else None
    wanted = read_filter(filters)
    first = [Part(frozenset(collections) or None, wanted)] if collections or wanted or not scopes else []
    readers = reader_names(users, groups) if users or groups else None
    scope = Scope(tuple(replace(part, readers=readers) for part in (*first, *map(_part, scopes))))
    shown = file.add(name, role, given, origins, scope)
    made = next(key for key in file.read() if key.name == name)
    text = f"{shown}\nkey {name} ({role}) is in {file.path}; it will not be shown again"
    return {**_facts(made), "key": shown}, text


def _part(text: str) -> "Part":
    """Read a --scope. Raises KeysError or FilterError."""
    from rag.commands.search.search import read_filter
    from rag.errors import KeysError
    from rag.serving.scope import Part

    try:
        pairs = parse_qsl(text or "&", keep_blank_values=True, strict_parsing=True)
    except ValueError as error:  # an empty one would be everything
        raise KeysError(f"--scope {text[:80]!r} must be like collection=wiki&meta.team=ops") from error
    collections = frozenset(value for name, value in pairs if name == "collection")
    return Part(collections or None, read_filter([f"{name}={value}" for name, value in pairs if name != "collection"]))


def _said(scope: "Scope") -> Iterator[str]:
    """Yield the parts of a scope as options name them, with `or` between two."""
    from rag.query.filters import parameters_of

    for place, part in enumerate(scope.parts):
        yield from ["or"] if place else []
        yield from sorted(part.collections or ())
        yield from (f"{name}={value}" for name, value in parameters_of(part.filter))
        yield from sorted(part.readers or ())


def _facts(key: "Key") -> dict[str, Any]:
    from rag.serving.api_keys import scope_fields

    fields = {"name": key.name, "role": key.role, "created": key.created, "origins": list(key.origins)}
    return fields | scope_fields(key.scope)
