"""`pilotlight insights`."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing

import click

from rag.commands.verb import WHOLE, Result, one_of, verb
from rag.errors import InsightsError, UsageError
from rag.insights.report import Group, Report, check_days, report
from rag.insights.store import InsightsStore, open_to_read
from rag.insights.tables import TABLES, as_csv
from rag.settings import Settings

SHOWN = 20  # questions
_BAR = 30  # characters


@verb("index", "insights_dir", without=("collection",))
@click.option("--days", metavar="N", type=WHOLE, default=30, help="how many days, with today (default: 30)")
@click.option("--collection", metavar="NAME", help="only searches of this collection (default: of all)")
@click.option("--csv", "table", metavar="TABLE", type=one_of(*TABLES), help="print a table: asked, unanswered or days")
@click.option("--delete-day", "day", metavar="DAY", help="delete what was asked on a day, YYYY-MM-DD in UTC")
@click.option("--delete-user", "user", metavar="NAME", help="delete what a key, a user or an address has asked")
def insights(
    settings: Settings, *, days: int, collection: str | None, table: str | None, day: str | None, user: str | None
) -> Result | None:
    """Show what people ask, or delete of it."""
    if sum(each is not None for each in (table, day, user)) > 1:
        raise UsageError("insights takes one of --csv, --delete-day and --delete-user at a time")
    folder = settings.insights_folder
    try:
        if day is not None or user is not None:
            open_to_read(folder).close()  # it must be there
            with closing(InsightsStore(folder)) as store:
                deleted = store.delete_day(day) if day is not None else store.delete_caller(user or "")
            return {"deleted": deleted}, f"deleted {deleted:,} {'search' if deleted == 1 else 'searches'}"
        found = report(folder, check_days(days), collection)
    except (sqlite3.Error, OSError, ValueError) as error:
        raise InsightsError(f"{folder} cannot be used: {error}") from error
    if table is not None:
        print(as_csv(found, table), end="")
        return None
    return found.as_dict(), as_text(found)


def as_text(found: Report) -> str:
    """Lay a report out for a terminal."""
    total = found.total
    if not total.asked:
        return f"nothing was asked since {found.since}"
    lines = [
        f"{total.asked:,} asked since {found.since}, {total.unanswered:,} without a good answer",
        f"half were answered within {total.p50_ms:g} ms, 95 % within {total.p95_ms:g} ms",
    ]
    lines += ["", "Most asked", *_questions(found.asked, "asked")]
    if found.unanswered:
        lines += ["", "Asked without a good answer", *_questions(found.unanswered, "unanswered")]
    most = max(group.asked for _, group in found.days)
    first = next(place for place, (_, group) in enumerate(found.days) if group.asked)
    bars = (
        f"  {day}  {'▇' * round(_BAR * group.asked / most):<{_BAR}}  {group.asked:,}"
        for day, group in found.days[first:]
    )
    return "\n".join([*lines, "", "By day", *bars])


def _questions(groups: Iterable[tuple[str, Group]], count: str) -> list[str]:
    return [f"{getattr(group, count):>7,}  {_line(text)}{_why(group)}" for text, group in list(groups)[:SHOWN]]


def _line(text: str) -> str:
    """A question as one line that does nothing to a terminal."""
    plain = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return plain if len(plain) <= 100 else f"{plain[:99]}…"


def _why(group: Group) -> str:
    told = ", ".join(f"{words} {count:,}" for words, count in group.reasons())
    return f"  ({told})" if told else ""
