"""Filters as they stand in addresses and on the command line: `language=en`, `from=2026-01-01`, `meta.team=core`.

Also hands on what the packages above, which may not look below, need of filters.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from indexer.errors import FilterError
from indexer.filter import LISTS, MOST_CHARACTERS, MOST_VALUES, Filter

if TYPE_CHECKING:
    from indexer.generation.manifest import Manifest

__all__ = [
    "DAYS",
    "KEYS",
    "LISTS",
    "METADATA",
    "MOST_CHARACTERS",
    "MOST_VALUES",
    "Filter",
    "FilterError",
    "fields_of",
    "in_force",
    "key_of",
    "parameters_of",
]

DAYS = ("from", "to")
METADATA = "meta."  # before a name
KEYS = (*LISTS, *DAYS, f"{METADATA}NAME")


def in_force(only: Filter | None, manifest: "Manifest") -> Filter | None:
    """Return a filter without its readers where no document of a generation has an access list; None for all."""
    if only is None or manifest.is_restricted:
        return only
    bare = only.without_readers()
    return bare if bare.conditions() else None


def fields_of(parameters: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return what `Filter.parse` takes; names that are of no filter are left for it to refuse."""
    days = {name: values[-1] for name, values in parameters.items() if name in DAYS}
    metadata = {
        name.removeprefix(METADATA): list(values) for name, values in parameters.items() if name.startswith(METADATA)
    }
    fields: dict[str, Any] = {
        name: list(values) for name, values in parameters.items() if name not in DAYS and not name.startswith(METADATA)
    }
    return fields | ({"date": days} if days else {}) | ({"metadata": metadata} if metadata else {})


def parameters_of(wanted: Filter | None) -> list[tuple[str, str]]:
    """Return a filter as the parameters of an address, which `fields_of` reads once they are grouped by name."""
    if wanted is None:
        return []
    pairs = [(name, value) for name in LISTS for value in getattr(wanted, name)]
    pairs += [(name, day) for name, day in zip(DAYS, (wanted.date_from, wanted.date_to), strict=True) if day]
    return pairs + [(METADATA + name, value) for name, values in wanted.metadata for value in values]


def key_of(field: str) -> str:
    """Name that stands in an address or on the command line for the `field` of a FilterError."""
    name = field.removeprefix("filter.").removeprefix("date.")
    return name.replace("metadata.", METADATA, 1) if name.startswith("metadata.") else name
