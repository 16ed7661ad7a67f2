"""Names that older versions had and this one refuses, each with what takes its place, as `removed.toml` has them."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from rag.errors import SettingsError

_TABLES: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("removed.toml").read_text("utf-8"))
COMMANDS, ROUTES, FLAGS, CREDENTIAL_KEYS = (_TABLES[name] for name in ("commands", "routes", "flags", "credentials"))
SETTINGS, SOURCE_KEYS = (
    {name: instead for instead, names in _TABLES[of].items() for name in names.split()} for of in ("settings", "source")
)


def refuse_variables(environ: Mapping[str, str]) -> None:
    """Raise SettingsError for the first environment variable of a setting that was removed."""
    for name, instead in SETTINGS.items():
        if f"PILOTLIGHT_{name.upper()}" in environ:
            raise SettingsError(f"PILOTLIGHT_{name.upper()} was removed: {instead}")


def refuse_address(index: str) -> None:
    """Raise SettingsError for an index that is given by its address: such indexes were removed."""
    scheme, mark, _ = index.partition("://")
    if mark:  # what follows may have a secret
        raise SettingsError(f"--index {scheme[:20]}://…: indexes at an address were removed: {COMMANDS['push']}")


def refuse_names(names: Iterable[str], where: str, removed: Mapping[str, str] = SETTINGS) -> None:
    """Raise SettingsError for the first name in a configuration file that was removed; `where` names the file."""
    for name in names:
        if name in removed:
            raise SettingsError(f"{where}: {name} was removed: {removed[name]}")


def flag_hint(flag: str) -> str:
    """Return what takes the place of a flag that was removed; empty for any other."""
    return {**SETTINGS, **FLAGS}.get(flag.removeprefix("--").replace("-", "_"), "")
