"""A comparison laid out for a terminal."""

from collections.abc import Iterator, Sequence
from typing import Any

_SHOWN = 10  # queries that became better, and that became worse
_WIDEST = 60  # characters of a query


def as_text(found: dict[str, Any]) -> str:
    """Lay out the JSON-ready form of a comparison with its two sides."""
    lines = [f"{name.upper()}  {described(found[name])}" for name in ("a", "b")]
    lines += [
        f"{name.upper()} does not have {absent:,} of the documents that are judged relevant"
        for name in ("a", "b")
        if (absent := found[name].get("missing"))
    ]
    lines += ["", f"{'':<12}{'A':>8}{'B':>8}{'B - A':>9}{'p':>9}{'better':>8}{'worse':>7}{'same':>7}"]
    lines += [
        f"{name:<12}{one['a']:>8.4f}{one['b']:>8.4f}{one['difference']:>+9.4f}{one['p']:>9.4f}"
        f"{one['better']:>8,}{one['worse']:>7,}{one['same']:>7,}"
        for name, one in found["measures"].items()
    ]
    queries = found["by_query"]
    lines += _changes("worse in B", [query for query in queries if query["difference"] < 0])
    lines += _changes("better in B", [query for query in reversed(queries) if query["difference"] > 0])
    if report := found.get("report"):
        lines += ["", f"every query is in {report}"]
    return "\n".join(lines)


def described(side: dict[str, Any]) -> str:
    """Say in one line what a side is."""
    facts = [side["generation"]] if side.get("generation", side["side"]) != side["side"] else []
    facts += [f"{side['documents']:,} documents", f"{side['model']} ({side['precision']})", side["mode"]]
    return f"{side['side']}: {', '.join(facts)}"


def places(query: dict[str, Any]) -> str:
    """Say where both sides have the relevant documents of a query that moved, best one first."""
    moved = [one for one in query["relevant"] if one["a"] != one["b"]] or query["relevant"]
    return "; ".join(f"{one['id']} {_rank(one['a'])} → {_rank(one['b'])}" for one in moved[:3])


def _rank(rank: int | None) -> str:
    return "not found" if rank is None else f"{rank}."


def _changes(title: str, queries: Sequence[dict[str, Any]]) -> Iterator[str]:
    if not queries:
        return
    more = f", the {_SHOWN} most of {len(queries):,}" if len(queries) > _SHOWN else ""
    yield from ("", f"{title}{more}")
    for query in queries[:_SHOWN]:
        text = " ".join(query["query"].split())
        yield f"  {query['difference']:+.4f}  {text[:_WIDEST]}{'…' if len(text) > _WIDEST else ''}"
        yield f"           {places(query)}"
