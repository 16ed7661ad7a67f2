"""What the head of an HTML page declares: language, date and the author's own metadata."""

import re
from collections.abc import Iterator

from bs4 import BeautifulSoup
from bs4.element import Tag

from indexer.metadata import Declared, collect, first_day, language_of

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
_STRUCTURED = re.compile(r'"(dateModified|datePublished)"\s*:\s*"([^"]{10,40})"')


def declared(soup: BeautifulSoup) -> Declared:
    """Read the facts of a page; what cannot be read counts as not declared."""
    head = soup.head or soup
    metas = [(_key(tag), str(tag.get("content") or "")) for tag in head.find_all("meta")]
    named = dict(reversed(metas))  # the first of a name wins
    root = soup.html or soup
    languages = (root.get("lang"), root.get("xml:lang"), named.get("content-language", "").partition(",")[0])
    return Declared(
        language=next((code for tag in languages if (code := language_of(str(tag or "")))), None),
        date=first_day([*(named.get(name) for name in _DATES), *_structured(head), *_time(soup)]),
        metadata=collect((key[len(OWN) :], value) for key, value in metas if key.lower().startswith(OWN)),
    )


def _key(meta: Tag) -> str:
    key = str(meta.get("name") or meta.get("property") or meta.get("http-equiv") or "").strip()
    return key if key.lower().startswith(OWN) else key.lower()


def _structured(head: Tag) -> Iterator[str]:
    """Dates of JSON-LD, by pattern: it may be any shape, and is often not even JSON."""
    for script in head.find_all("script", type="application/ld+json"):
        dates = dict(reversed(_STRUCTURED.findall(script.get_text())))
        yield from (dates[name] for name in ("dateModified", "datePublished") if name in dates)


def _time(soup: BeautifulSoup) -> Iterator[str]:
    """The first time of a page's only article, as blogs have it under the heading."""
    articles = soup.find_all("article", limit=2)
    if len(articles) == 1 and isinstance(articles[0], Tag):
        time = articles[0].find("time", datetime=True)
        if isinstance(time, Tag):
            yield str(time["datetime"])
