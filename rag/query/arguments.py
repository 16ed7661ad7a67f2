"""Whether a search can be made as it is asked for, by whoever calls the retriever."""

from typing import TypeGuard

from rag.errors import QueryError
from rag.query.options import EXPANSIONS, FURTHEST, MODES


def check_query(query: object, most: int) -> None:
    """Raise QueryError unless the query is text of 1 to `most` characters."""
    if not isinstance(query, str):
        raise QueryError(f"query must be text, not {type(query).__name__}")
    if not query.strip():
        raise QueryError("query is empty: enter at least one word")
    try:
        query.encode()
    except UnicodeEncodeError:
        raise QueryError("query is not valid Unicode: it contains half of a surrogate pair") from None
    if len(query) > most:
        raise QueryError(f"query has {len(query)} characters: at most {most} are allowed")


def check_options(
    *, k: object, most: int, offset: object, mode: object, per_document: object, diversity: object, expand: object
) -> None:
    """Raise QueryError unless the options of a search are within what is allowed; `most` is for k."""
    if not _whole(k) or not 1 <= k <= most:
        raise QueryError(f"k must be a whole number from 1 to {most}, not {k!r}")
    if not _whole(offset) or not 0 <= offset <= FURTHEST:
        raise QueryError(f"offset must be a whole number from 0 to {FURTHEST}, not {offset!r}")
    if mode not in MODES:
        raise QueryError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    if not _whole(per_document) or per_document < 0:
        raise QueryError(f"per_document must be a whole number, 0 for any number, not {per_document!r}")
    if not isinstance(diversity, int | float) or isinstance(diversity, bool) or not 0 <= diversity <= 1:
        raise QueryError(f"diversity must be a number from 0 to 1, not {diversity!r}")
    if expand not in EXPANSIONS:
        raise QueryError(f"expand must be one of {', '.join(EXPANSIONS)}, not {expand!r}")


def _whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
