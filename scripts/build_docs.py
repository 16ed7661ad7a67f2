"""Render a folder of Markdown to a small HTML site that needs nothing from elsewhere.

Usage: build_docs.py SOURCE TARGET [SEARCH]. SOURCE needs an index.md, whose links give the order of the pages, and a
site.css; drawings (.svg) in it are copied. SEARCH is the address of a Pilotlight server whose search box the pages get.
"""

import html
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from indexer.read.markup.markdown import render

_ICON = Path(__file__).resolve().parents[1] / "web" / "static" / "icon.svg"
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" type="image/svg+xml" href="icon.svg">
<link rel="stylesheet" href="site.css">{search}
</head>
<body>
<nav aria-label="Pages">
<a class="home" href="index.html"><img src="icon.svg" alt="" width="24" height="24">Pilotlight</a>
{nav}
</nav>
<main>
{body}
<footer>{before}{after}</footer>
</main>
</body>
</html>
"""
# all that a page needs for the search box; docs/search-box.md says what else the tag may have
_SEARCH = """
<script src="{server}/embed.js" data-placeholder="Search the documentation" defer></script>"""
_LINK = re.compile(r'href="([\w-]+)\.md(#[^"]*)?"')
_PAGE_IN_INDEX = re.compile(r"\]\(([\w-]+)\.md")
_HEADING = re.compile(r'<h([1-6]) id="([^"]*)">(.*?)</h\1>', re.DOTALL)
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Rendered:
    name: str  # file name without suffix
    title: str  # HTML
    body: str  # HTML
    parts: tuple[tuple[str, str], ...]  # id and HTML of every second-level heading


def build(source: Path, target: Path, search: str = "") -> int:
    """Render every .md file of `source` into `target`; return the number of pages.

    With `search`, the address of a server, every page gets its search box, and needs that server for it.
    Pages of an earlier run are replaced; other files in `target` stay. Raises OSError if a file cannot be read.
    """
    groups = _groups(source)
    pages = [_render(source / f"{name}.md") for _, names in groups for name in names]
    target.mkdir(parents=True, exist_ok=True)
    for stale in target.glob("*.html"):
        stale.unlink()
    for number, page in enumerate(pages):
        text = _PAGE.format(
            title=_plain(page.title) if page.name == "index" else f"{_plain(page.title)} · Pilotlight",
            nav="\n".join(_group(title, [one for one in pages if one.name in names], page) for title, names in groups),
            search=_SEARCH.format(server=html.escape(search.rstrip("/"))) if search else "",
            body=page.body,
            before=_neighbour("prev", pages[number - 1]) if number else "",
            after=_neighbour("next", pages[number + 1]) if number + 1 < len(pages) else "",
        )
        (target / f"{page.name}.html").write_text(text, encoding="utf-8")
    for file in (source / "site.css", *source.glob("*.svg")):
        shutil.copy(file, target / file.name)
    shutil.copy(_ICON, target / "icon.svg")
    return len(pages)


def _groups(source: Path) -> list[tuple[str, list[str]]]:
    """The pages below the headings under which the index links to them; the index itself before, the others after."""
    present = sorted(path.stem for path in source.glob("*.md"))
    first, *parts = (source / "index.md").read_text(encoding="utf-8").split("\n## ")
    placed = {"index"}
    groups = [("", ["index", *_linked(first, present, placed)])]
    groups += [(part.partition("\n")[0], _linked(part, present, placed)) for part in parts]
    groups.append(("More", [name for name in present if name not in placed]))
    return [(title, names) for title, names in groups if names]


def _linked(text: str, present: list[str], placed: set[str]) -> list[str]:
    names = [name for name in dict.fromkeys(_PAGE_IN_INDEX.findall(text)) if name in present and name not in placed]
    placed.update(names)
    return names


def _render(path: Path) -> _Rendered:
    body = _LINK.sub(r'href="\1.html\2"', render(path.read_text(encoding="utf-8")).html)
    headings = [(level, anchor, text) for level, anchor, text in _HEADING.findall(body)]
    body = _HEADING.sub(_with_permalink, body)
    body = body.replace("<pre>", '<pre tabindex="0">')  # what scrolls has to be reached without a mouse
    body = body.replace("<th></th>", "<td></td>")  # the corner of a table is nothing's heading
    body = _TABLE.sub(r'<div class="wide" tabindex="0">\g<0></div>', body)
    return _Rendered(
        name=path.stem,
        title=next((text for level, _, text in headings if level == "1"), html.escape(path.stem)),
        body=body,
        parts=tuple((anchor, text) for level, anchor, text in headings if level == "2"),
    )


def _with_permalink(match: re.Match[str]) -> str:
    level, anchor, text = match.groups()
    if level == "1":
        return match[0]
    link = f'<a class="headerlink" href="#{anchor}" aria-label="Link to this section">#</a>'
    return f'<h{level} id="{anchor}">{text}{link}</h{level}>'


def _group(title: str, pages: list[_Rendered], current: _Rendered) -> str:
    entries = "\n".join(_entry(page, is_current=page is current) for page in pages)
    return f"<p>{html.escape(title)}</p>\n<ul>\n{entries}\n</ul>" if title else f"<ul>\n{entries}\n</ul>"


def _entry(page: _Rendered, *, is_current: bool) -> str:
    title = "Overview" if page.name == "index" else page.title
    if not is_current:
        return f'<li><a href="{page.name}.html">{title}</a></li>'
    parts = "".join(f'<li><a href="#{anchor}">{_plain(text)}</a></li>' for anchor, text in page.parts)
    inner = f"<ul>{parts}</ul>" if parts else ""
    return f'<li><a href="{page.name}.html" aria-current="page">{title}</a>{inner}</li>'


def _neighbour(relation: str, page: _Rendered) -> str:
    return f'<a rel="{relation}" href="{page.name}.html">{page.title}</a>'


def _plain(markup: str) -> str:
    return re.sub(r"<[^>]+>", "", markup)


if __name__ == "__main__":
    print(f"{build(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:4])} pages in {sys.argv[2]}")
