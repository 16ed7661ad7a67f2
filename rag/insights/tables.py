"""The tables of a report as CSV: spreadsheets take no question for a formula, and terminals none for an order."""

import csv
import io
from collections.abc import Iterable

from indexer.decoding import one_line
from rag.insights.report import REASONS, Group, Report

TABLES = ("asked", "unanswered", "days")
COUNTS = ("asked", "unanswered", *REASONS, "opened", "good", "callers")
COLUMNS = (*COUNTS, "cosine", "p50_ms", "p95_ms")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")  # those of Chinese and Japanese keyboards too


def as_csv(found: Report, table: str) -> str:
    """Return one of TABLES, with a heading line."""
    groups: Iterable[tuple[str, Group]] = getattr(found, table)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["day" if table == "days" else "question", *COLUMNS])
    for key, group in groups:
        values = group.as_dict()
        writer.writerow([harmless(one_line(key)), *("" if values[name] is None else values[name] for name in COLUMNS)])
    return out.getvalue()


def harmless(text: str) -> str:
    """Return a text that no spreadsheet runs: an apostrophe goes before what would begin a formula."""
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) or text.startswith(_FORMULA) else text
