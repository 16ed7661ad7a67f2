"""The facts that the head of an HTML page declares: language, date and the author's own metadata."""

import re
from collections.abc import Iterator
from itertools import islice

from indexer.read.html.html_tree import Element, HtmlTree
from indexer.read.metadata import Declared, collect, first_day, language_of

OWN = "pilotlight:"  # <meta name="pilotlight:KEY" content="VALUE">
_DATES = (  # names and properties, the surest first: when a page was changed goes before when it was published
    "article:modified_time",
    "og:updated_time",
    "dcterms.modified",
    "last-modified",
    "article:published_time",
    "dcterms.date",
    "dc.date",
    "date",
)
_AT_ONCE = re.compile(r"\s*0*(?:\.\d*)?\s*[;,]\s*url\s*=", re.IGNORECASE)
_STRUCTURED = re.compile(r'"(dateModified|datePublished)"\s*:\s*"([^"]{10,40})"')


def declared(tree: HtmlTree) -> Declared:
    """Read the facts of a page; what cannot be read counts as not declared."""
    head = tree.first("head") or tree.root
    metas = [(_key(tag), tag.get("content")) for tag in head.elements() if tag.name == "meta"]
    named = dict(reversed(metas))  # the first of a name wins
    root = tree.first("html") or tree.root
    languages = (root.get("lang"), root.get("xml:lang"), named.get("content-language", "").partition(",")[0])
    return Declared(
        language=next((code for tag in languages if (code := language_of(tag))), None),
        date=first_day([*(named.get(name) for name in _DATES), *_structured(head), *_time(tree)]),
        metadata=collect((key[len(OWN) :], value) for key, value in metas if key.lower().startswith(OWN)),
    )


def redirects(tree: HtmlTree) -> bool:
    """Return whether a browser goes on to another page at once, so that nobody sees this one."""
    refresh = next((tag.get("content") for tag in tree.named("meta") if tag.get("http-equiv").lower() == "refresh"), "")
    return _AT_ONCE.match(refresh) is not None


def _key(meta: Element) -> str:
    key = (meta.get("name") or meta.get("property") or meta.get("http-equiv")).strip()
    return key if key.lower().startswith(OWN) else key.lower()


def _structured(head: Element) -> Iterator[str]:
    """Dates of JSON-LD, by pattern: it may be any shape, and is often not even JSON."""
    for script in head.elements():
        if script.name == "script" and script.get("type") == "application/ld+json":
            dates = dict(reversed(_STRUCTURED.findall(script.text())))
            yield from (dates[name] for name in ("dateModified", "datePublished") if name in dates)


def _time(tree: HtmlTree) -> Iterator[str]:
    """The first time of a page's only article, as blogs have it under the heading."""
    articles = list(islice(tree.named("article"), 2))
    if len(articles) == 1:
        times = (tag.get("datetime") for tag in articles[0].elements() if tag.name == "time")
        yield from islice((time for time in times if time), 1)
