"""All that a build wants of a page, found in one go; runs in the process that reads documents."""

from collections.abc import Generator, Mapping
from typing import Any

from indexer.decoding import decode
from indexer.read.gzipped import MAGIC, unpacked
from indexer.read.html import template
from indexer.read.html.main_content import is_drawn as drawn_by_scripts
from indexer.read.links.page_links import find

Part = tuple[dict[str, Any], bytes]


def parts(body: bytes, wanted: Mapping[str, Any]) -> Generator[Part, None, tuple[str, str | None] | None]:
    """Yield the parts of a page, JSON-ready, in messages of their own, but for its text.

    These are its `links`, then whether it `is_drawn` by scripts, then its `blocks`. Nothing comes after the links of a
    page that only leads on or is not to be indexed, nor after the news that scripts draw it.

    Args:
        body: the page.
        wanted: fields of `indexer.read.page.Wanted`, and the page's `charset` and `reader`.

    Returns:
        The reader of the text and its argument, or None where the text is not to be read.

    Raises:
        ParseError, lxml.etree.LxmlError, ValueError: the links cannot be read, or whether scripts draw the page.
    """
    charset, is_markdown = wanted["charset"], wanted["reader"] != "html"
    if wanted["links"]:
        links = find(body, f"{'markdown' if is_markdown else 'html'}:{charset or ''}")
        yield {"links": links}, b""
        if links["refresh"] or links["leads_on"] or not {"noindex", "none"}.isdisjoint(links["directives"]):
            return None
    elif body.startswith(MAGIC):
        body = unpacked(body)
    if wanted["is_drawn"]:
        is_drawn = drawn_by_scripts(decode(body, charset, markup=True))
        yield {"is_drawn": is_drawn}, b""
        if is_drawn:
            return None
    if wanted["blocks"]:
        try:
            blocks = template.find(body, charset)
        except Exception:  # noqa: BLE001 - who reads the text says what is wrong with it
            blocks = None
        yield {"blocks": blocks}, b""
    if not wanted["text"]:
        return None
    site = wanted["template"]
    return wanted["reader"], f"{charset or ''}\n{site}" if site else charset
