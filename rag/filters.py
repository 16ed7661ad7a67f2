"""Filters, for the packages above that may not look below."""

from indexer.errors import FilterError
from indexer.filter import LISTS, Filter

__all__ = ["LISTS", "Filter", "FilterError"]
