"""Pages as tools make them: those whose text scripts have yet to draw, and those that have it.

The second half of each list was written before the rules were tried on it, and changed none of them.
"""

import pytest

from indexer.read.html.html_tree import parse_html
from indexer.read.html.main_content import is_drawn

APP = '<script src="/static/app.js"></script>'
MODULE = '<script type="module" crossorigin src="/assets/index-3f.js"></script>'
HEAD = f"<!doctype html><html lang=en><head><meta charset=utf-8><title>Docs</title>{MODULE}</head><body>"
NAV = "<nav><a href=/>Home</a> <a href=/guide>The guide, in all its parts</a></nav>"
WORDS = "Lamps have a wick, which draws the oil upwards; trim it when it burns with a yellow flame. "
PIXEL = '<noscript><img height=1 width=1 style="display:none" src="https://t.test/tr?id=1"></noscript>'
NOTE = "<noscript>Please enable JavaScript to view the comments.</noscript>"

DRAWN = {
    "react": f"{HEAD}<noscript>You need to enable JavaScript to run this app.</noscript><div id=root></div>",
    "words around an empty main part": f"{HEAD}<div><p>{WORDS * 9}</div><div role=main><div></div></div>{APP}",
    "blazor": f"{HEAD}<div id=app>Loading...</div><div id=blazor-error-ui>An unhandled error has occurred. "
    f"<a href='' class=reload>Reload</a></div>{APP}",
    "svelte": f"{HEAD}<div style='display: contents'><script>import('/_app/start.js')</script></div>",
}
WRITTEN = {
    "server-side": f"{HEAD}{NAV}<div id=root><main><h1>Lamps</h1><p>{WORDS * 6}</p></main></div>{APP}",
    "short with a pixel": f"{HEAD}<article><h1>Lamps</h1><p>{WORDS * 2}</p></article>{PIXEL}{APP}",
    "without scripts": "<h1>Lamps</h1><div id=root></div>",
    # not looked at while the rules were made
    "links": f"{HEAD}<h1>All pages</h1><ul>{'<li><a href=/lamp>A lamp of brass</a>' * 30}</ul>{APP}",
    "moved": f"{HEAD}<h1>Moved</h1><p>This handbook has moved to another place, where all of its pages are kept up to "
    f"date by their writers: <a href=/new>the new handbook</a>.</p>{APP}",
}


@pytest.mark.parametrize("name", DRAWN)
def test_pages_that_scripts_draw(name: str) -> None:
    assert is_drawn(parse_html(DRAWN[name]))


@pytest.mark.parametrize("name", WRITTEN)
def test_pages_that_are_written(name: str) -> None:
    assert not is_drawn(parse_html(WRITTEN[name]))
