"""Render the documentation as a small, self-contained HTML site.

Usage: build_docs.py TARGET [SEARCH]. The start page is README.md. The other pages are those in docs/ that README.md
links to, in the same order. SEARCH is the URL of a Pilotlight server, whose search box is added to the pages.
"""

import html
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from indexer.read.markup.markdown import render

ROOT = Path(__file__).resolve().parents[1]
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
<ul>
{nav}
</ul>
</nav>
<main>
{body}
<footer>{footer}</footer>
</main>
</body>
</html>
"""
_SEARCH = """
<script src="{server}/embed.js" data-placeholder="Search the documentation" defer></script>"""
_PAGE_IN_README = re.compile(r"\]\(docs/([\w-]+)\.md\)")
_LINK_TO_PAGE = re.compile(r'href="(?:docs/)?([\w-]+)\.md(#[^"]*)?"')
_LINK_TO_FILE = re.compile(r'<a href="(?:[A-Z]+\.html|[A-Z]+)"[^>]*>(.*?)</a>')
_HEADING = re.compile(r'<h([1-6]) id="([^"]*)">(.*?)</h\1>', re.DOTALL)
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class DocsPage:
    """A rendered page: file name without suffix, title and body in HTML, and a mapping from ids to `h2` headings."""

    name: str
    title: str
    body: str
    headings: dict[str, str]


def write_site(target: Path, search: str = "") -> int:
    """Render README.md and the pages that it links to into `target`. Returns the number of pages. Raises OSError.

    Other HTML files in `target` are deleted. `search` is the URL of the server for the search box, or "" for no box.
    """
    names = dict.fromkeys(_PAGE_IN_README.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    pages = [_render("index", ROOT / "README.md"), *(_render(name, ROOT / "docs" / f"{name}.md") for name in names)]
    target.mkdir(parents=True, exist_ok=True)
    for stale in target.glob("*.html"):
        stale.unlink()
    for number, page in enumerate(pages):
        text = _PAGE.format(
            title=_plain(page.title) if page.name == "index" else f"{_plain(page.title)} · Pilotlight",
            nav="\n".join(_entry(each, is_current=each is page) for each in pages),
            search=_SEARCH.format(server=html.escape(search.rstrip("/"))) if search else "",
            body=page.body,
            footer="".join(
                f'<a rel="{relation}" href="{pages[near].name}.html">{pages[near].title}</a>'
                for relation, near in (("prev", number - 1), ("next", number + 1))
                if 0 <= near < len(pages)
            ),
        )
        (target / f"{page.name}.html").write_text(text, encoding="utf-8")
    for file in (file for kind in ("css", "svg", "png") for file in (ROOT / "docs").glob(f"*.{kind}")):
        shutil.copy(file, target / file.name)
    shutil.copy(ROOT / "web" / "static" / "icon.svg", target / "icon.svg")
    return len(pages)


def _render(name: str, path: Path) -> DocsPage:
    body = _LINK_TO_PAGE.sub(r'href="\1.html\2"', render(path.read_text(encoding="utf-8")).html)
    body = _LINK_TO_FILE.sub(r"\1", body).replace('src="docs/', 'src="')
    headings = _HEADING.findall(body)
    link = r'<a class="headerlink" href="#\2" aria-label="Link to this section">#</a>'
    body = re.sub(r'<h([2-6]) id="([^"]*)">(.*?)</h\1>', rf'<h\1 id="\2">\3{link}</h\1>', body, flags=re.DOTALL)
    body = body.replace("<pre>", '<pre tabindex="0">')  # a scrolling box must be reachable by keyboard
    body = body.replace("<th></th>", "<td></td>")  # the empty corner of a table is not a heading
    body = _TABLE.sub(r'<div class="wide" tabindex="0">\g<0></div>', body)
    title = next((text for level, _, text in headings if level == "1"), html.escape(path.stem))
    return DocsPage(name, title, body, {anchor: text for level, anchor, text in headings if level == "2"})


def _entry(page: DocsPage, *, is_current: bool) -> str:
    title = "Overview" if page.name == "index" else page.title
    if not is_current:
        return f'<li><a href="{page.name}.html">{title}</a></li>'
    items = "".join(f'<li><a href="#{anchor}">{_plain(text)}</a></li>' for anchor, text in page.headings.items())
    inner = f"<ul>{items}</ul>" if items else ""
    return f'<li><a href="{page.name}.html" aria-current="page">{title}</a>{inner}</li>'


def _plain(markup: str) -> str:
    return re.sub(r"<[^>]+>", "", markup)


if __name__ == "__main__":
    print(f"{write_site(Path(sys.argv[1]), *sys.argv[2:3])} pages in {sys.argv[1]}")
