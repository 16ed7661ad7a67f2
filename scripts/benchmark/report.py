"""Measurements as a Markdown table."""

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]
OURS = "Pilotlight"

# field of a row: title of its column; a column without a value in any row is left out
_COLUMNS = {
    "name": "what",
    "contestant": "contestant",
    "median_ms": "median ms",
    "p95_ms": "p95 ms",
    "runs": "runs",
    "tokens_per_s": "tokens/s",
    "chunks_per_s": "chunks/s",
    "per_second": "answers/s",
    "p99_ms": "p99 ms",
    "failed": "failed",
    "max_ms": "longest ms",
    "statuses": "statuses",
    "livez_p99_ms": "/livez p99 ms",
    "recovery_s": "recovery s",
    "rss_growth_percent": "RSS growth %",
    "rss_mb": "RSS MB",
    "pss_mb": "PSS MB",
    "bytes_per_chunk": "bytes/chunk",
    "recall": "recall@10",
    "cosine": "lowest cosine",
    "vs_embedding": "× its embedding",
    "vs_best_float": "× best fp32/bf16 peer",
    "vs_best_any": "× best peer",
    "vs_langchain": "× LangChain",
    "ratio": "times faster",
    "note": "note",
}


def as_table(rows: Sequence[Row]) -> str:
    """Lay rows out as a Markdown table, with the columns that any of them fills; ours in bold."""
    columns = [name for name in _COLUMNS if any(name in row for row in rows)]
    lines = ["| " + " | ".join(_COLUMNS[name] for name in columns) + " |", "|---" * len(columns) + "|"]
    for row in rows:
        cells = [str(row.get(name, "")) for name in columns]
        if str(row.get("contestant", "")).startswith(OURS):
            cells = [f"**{cell}**" if name == "contestant" else cell for name, cell in zip(columns, cells, strict=True)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def as_matrix(rows: Sequence[Row]) -> str:
    """Lay the medians out as a Markdown table with a line a contestant and a column a measurement."""
    timed = [row for row in rows if "median_ms" in row]
    names = list(dict.fromkeys(row["name"] for row in timed))
    lines = ["| median ms | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for contestant in dict.fromkeys(row["contestant"] for row in timed):
        found = {row["name"]: row["median_ms"] for row in timed if row["contestant"] == contestant}
        label = f"**{contestant}**" if contestant.startswith(OURS) else contestant
        lines.append(" | ".join([f"| {label}", *(_rounded(found[n]) if n in found else "" for n in names)]) + " |")
    return "\n".join(lines)


def as_text(rows: Sequence[Row], facts: dict[str, Any]) -> str:
    """Return the facts, the medians at a glance where much was measured, and the whole table."""
    lines = [f"- {name.replace('_', ' ')}: {_shown(value)}" for name, value in facts.items()]
    many = len({row["name"] for row in rows if "median_ms" in row}) > 2
    parts = ["\n".join(lines), as_matrix(rows) if many else "", as_table(rows)]
    return "\n\n".join(part for part in parts if part)


def _rounded(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(part)}" for name, part in value.items())
    return str(value)
