"""Filters as they stand in addresses: `?language=en&from=2026-01-01&meta.team=core`."""

from collections.abc import Mapping, Sequence

from rag.query.filters import DAYS, LISTS, METADATA, Filter, FilterError, fields_of

NAMES = (*LISTS, *DAYS, f"{METADATA}NAME")
KNOWN = (*LISTS, "date", "metadata")  # fields of a filter in JSON


def is_filter(name: str) -> bool:
    """Return whether a parameter is part of a filter."""
    return name in LISTS or name in DAYS or name.startswith(METADATA)


def may_repeat(name: str) -> bool:
    """Return whether a parameter may be given several times, of which any one is to match."""
    return is_filter(name) and name not in DAYS


def filter_from_parameters(parameters: Mapping[str, Sequence[str]]) -> Filter | None:
    """Read the filter of a query string; None where there is none. Raises FilterError with the parameter as field."""
    try:
        return Filter.parse(fields_of({name: parameters[name] for name in parameters if is_filter(name)})) or None
    except FilterError as error:
        field = error.field.removeprefix("filter.").removeprefix("date.").replace("metadata.", METADATA, 1)
        raise FilterError(field, error.detail) from error


def filter_from_object(value: object) -> Filter | None:
    """Return the filter of a JSON object, in which null is a field left out; None if it allows everything.

    Raises FilterError.
    """
    if isinstance(value, Mapping):
        value = {name: wanted for name, wanted in value.items() if wanted is not None or name not in KNOWN}
        if isinstance(value.get("metadata"), Mapping):
            value["metadata"] = {name: wanted for name, wanted in value["metadata"].items() if wanted is not None}
    return Filter.parse(value) or None
