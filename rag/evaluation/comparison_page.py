"""A comparison as a page that needs nothing else: the plot as SVG, the figures and every query as tables."""

import html
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from indexer.number_format import counted
from rag.errors import SettingsError
from rag.evaluation.comparison_text import described, places

_WIDTH, _HEIGHT = 720, 260  # of the plot, in the units of its view box
_MOST_BARS = 2_000  # further queries are left out of the plot, evenly: it is no wider than a screen

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>A and B compared on {count:,} queries · Pilotlight</title>
<style>
:root {{
  color-scheme: light dark;
  --paper: light-dark(#fcfbf8, #141417); --ink: light-dark(#1d1c1a, #e9e6e0); --soft: light-dark(#67635b, #a09c94);
  --line: light-dark(#e4e0d8, #323238); --worse: light-dark(#b4462f, #e58a73); --better: light-dark(#2f6fb4, #7fb0ea);
}}
body {{
  max-width: 60rem; margin: 0 auto; padding: 2rem 1.5rem 5rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.6 system-ui, sans-serif; overflow-wrap: anywhere;
}}
h1 {{ font-size: 1.5rem; line-height: 1.3; }} h2 {{ margin-top: 2.5rem; font-size: 1.125rem; }}
dt {{ float: left; width: 1.5rem; font-weight: 650; }} dd {{ margin: 0 0 .25rem 1.5rem; }}
.wide {{ overflow-x: auto; }} table {{ width: 100%; border-collapse: collapse; }}
th, td {{ padding: .375rem .75rem .375rem 0; text-align: left; vertical-align: top; }}
thead, tbody tr {{ border-bottom: 1px solid var(--line); }}
.number {{ padding-left: .75rem; text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
.better {{ color: var(--better); }} .worse {{ color: var(--worse); }}
figure {{ margin: 1rem 0; }} figcaption, .soft {{ color: var(--soft); font-size: .875rem; }}
svg {{ display: block; width: 100%; height: auto; }} svg text {{ font-size: 12px; fill: var(--soft); }}
.axis {{ stroke: var(--line); }} rect.better {{ fill: var(--better); }} rect.worse {{ fill: var(--worse); }}
</style>
<main>
<h1>A and B compared on {count:,} queries</h1>
<dl>{sides}</dl>
<h2>Figures</h2>
<div class="wide" tabindex="0" role="region" aria-label="Figures">{measures}</div>
<p class="soft">p is how often chance alone would make the mean difference as large: a two-sided paired randomisation
test over the queries.</p>
<h2>Difference of nDCG@10 by query</h2>
{plot}
<h2>Queries</h2>
<div class="wide" tabindex="0" role="region" aria-label="Queries">{queries}</div>
</main>
</html>
"""


def write_page(path: Path, found: dict[str, Any]) -> None:
    """Write the JSON-ready form of a comparison with its two sides as HTML. Raises SettingsError if it cannot be."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        new.write_text(page(found), encoding="utf-8")
        os.replace(new, path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise SettingsError(f"--report cannot be written: {path}: {error.strerror or error}") from error


def page(found: dict[str, Any]) -> str:
    """Return the page."""
    return _PAGE.format(
        count=found["queries"],
        sides="".join(f"<dt>{name.upper()}</dt><dd>{_escaped(_side(found[name]))}</dd>" for name in ("a", "b")),
        measures=_table(
            ("measure", "A", "B", "B − A", "p", "better", "worse", "same"),
            [
                (
                    name,
                    *(_figure(one[side]) for side in ("a", "b")),
                    _signed(one["difference"]),
                    _figure(one["p"]),
                    *(f"{one[what]:,}" for what in ("better", "worse", "same")),
                )
                for name, one in found["measures"].items()
            ],
            texts=1,
        ),
        plot=plot([query["difference"] for query in found["by_query"]]),
        queries=_table(
            ("query", "relevant documents, rank in A → in B", "A", "B", "B − A"),
            [
                (
                    query["query"],
                    places(query),
                    _figure(query["a"]["ndcg@10"]),
                    _figure(query["b"]["ndcg@10"]),
                    _signed(query["difference"]),
                )
                for query in found["by_query"]
            ],
            texts=2,
        ),
    )


def plot(differences: Sequence[float]) -> str:
    """Draw a bar for each query, from what B lost most by to what it gained most by; those that stayed have none."""
    worse, better = sum(each < 0 for each in differences), sum(each > 0 for each in differences)
    said = f"B answers {worse:,} of {counted(len(differences), 'query')} worse and {better:,} better"
    step = -(-len(differences) // _MOST_BARS)
    shown = differences[::step]
    width, middle = (_WIDTH - 40) / max(1, len(shown)), _HEIGHT / 2
    bars = []
    for place, each in enumerate(shown):
        if each:
            height = abs(each) * (middle - 10)
            top, kind = (middle - height, "better") if each > 0 else (middle, "worse")
            x, wide = 40 + place * width, max(0.5, width * 0.9)
            bars.append(f'<rect class="{kind}" x="{x:.2f}" y="{top:.2f}" width="{wide:.2f}" height="{height:.2f}"/>')
    marks = "".join(
        f'<line class="axis" x1="40" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/><text x="34" y="{y + 4:.1f}" '
        f'text-anchor="end">{label}</text>'
        for label, y in (("+1", 10), ("0", middle), ("−1", _HEIGHT - 10))
    )
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{said}">{marks}{"".join(bars)}</svg>'
        f"<figcaption>{said}. Above the line is what B answers better; each bar is a query, in the order of the table "
        "below.</figcaption></figure>"
    )


def _side(side: dict[str, Any]) -> str:
    absent = side.get("missing")
    return described(side) + (f"; lacks {absent:,} documents that are judged relevant" if absent else "")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int) -> str:
    """Lay out rows whose first columns are texts, and whose others are numbers."""
    kinds = ["" if place < texts else ' class="number"' for place in range(len(heads))]
    head = "".join(f'<th scope="col"{kind}>{_escaped(name)}</th>' for kind, name in zip(kinds, heads, strict=True))
    body = "".join(
        "<tr>"
        + f'<th scope="row">{_escaped(row[0])}</th>'
        + "".join(f"<td{kind}>{_cell(cell, kind)}</td>" for kind, cell in zip(kinds[1:], row[1:], strict=True))
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str, kind: str) -> str:
    if kind and text[0] in "+−" and text.strip("+−0.") != "":
        return f'<span class="{"better" if text[0] == "+" else "worse"}">{_escaped(text)}</span>'
    return _escaped(text)


def _figure(value: float) -> str:
    return f"{value:.4f}"


def _signed(value: float) -> str:
    return f"{value:+.4f}".replace("-", "−")


def _escaped(text: str) -> str:
    return html.escape(text)
