"""Render a folder of Markdown to a small HTML site. Usage: build_docs.py SOURCE TARGET"""

import html
import re
import shutil
import sys
from pathlib import Path

from markdown_it import MarkdownIt

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · Pilotlight</title>
<link rel="stylesheet" href="site.css">
</head>
<body>
<nav>{nav}</nav>
<main>
{body}
</main>
</body>
</html>
"""
_HEADING = re.compile(r"<h([1-4])>(.*?)</h\1>")


def build(source: Path, target: Path) -> int:
    """Render every .md file of `source`; return how many pages were written to `target`."""
    markdown = MarkdownIt("commonmark").enable("table")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(source.glob("*.md"))}
    titles = {path: text.partition("\n")[0].removeprefix("# ") for path, text in pages.items()}
    order = sorted(pages, key=lambda path: (path.stem != "index", path.stem))
    nav = " ".join(f'<a href="{path.stem}.html">{html.escape(titles[path])}</a>' for path in order)
    for path, text in pages.items():
        body = _HEADING.sub(_with_anchor, markdown.render(text))
        body = re.sub(r'href="([\w-]+)\.md(#[\w-]+)?"', r'href="\1.html\2"', body)
        page = _PAGE.format(title=html.escape(titles[path]), nav=nav, body=body)
        (target / f"{path.stem}.html").write_text(page, encoding="utf-8")
    shutil.copy(source / "site.css", target)
    return len(pages)


def _with_anchor(match: re.Match[str]) -> str:
    level, text = match.groups()
    slug = re.sub(r"[^\w-]+", "-", re.sub(r"<[^>]+>", "", text).lower()).strip("-")
    return f'<h{level} id="{slug}">{text}</h{level}>'


if __name__ == "__main__":
    print(f"{build(Path(sys.argv[1]), Path(sys.argv[2]))} pages in {sys.argv[2]}")
