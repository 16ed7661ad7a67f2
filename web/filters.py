"""Filters as they stand in addresses: `?language=en&from=2026-01-01&meta.team=core`."""

from collections.abc import Mapping, Sequence

from rag.query.filters import DAYS, LISTS, METADATA, Filter, FilterError, fields_of

NAMES = (*LISTS, *DAYS, f"{METADATA}NAME")


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
