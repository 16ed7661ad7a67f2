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
@click.option("--stdin", "from_stdin", is_flag=True, help="read the key from standard input instead of generating one")
def keys(
    settings: Settings, *, action: str, name: str | None, role: str, origins: tuple[str, ...], from_stdin: bool
) -> Result:
    """Make, list or remove keys of the server."""
    from rag.errors import KeysError
    from rag.serving.api_keys import KeyFile

    file = KeyFile(settings.keys_file)
    if action == "list":
        found = [_facts(key) for key in file.read()]
        lines = [
            f"{key['name']:<24}  {key['role']:<5}  {key['created']}  {' '.join(key['origins'])}".rstrip()
            for key in found
        ]
        return {"keys": found}, "\n".join(lines) or "there are no keys"
    if name is None:
        raise KeysError(f"keys {action} needs the NAME of a key")
    if action == "remove":
        key = file.remove(name)
        return _facts(key), f"removed key {key.name}"
    given = sys.stdin.readline().rstrip("\r\n") if from_stdin else None
    shown = file.add(name, role, given, origins)
    made = next(key for key in file.read() if key.name == name)
    text = f"{shown}\nkey {name} ({role}) is in {file.path}; it will not be shown again"
    return {**_facts(made), "key": shown}, text


def _facts(key: "Key") -> dict[str, Any]:
    return {"name": key.name, "role": key.role, "created": key.created, "origins": list(key.origins)}
