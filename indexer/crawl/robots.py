"""The rules of a robots.txt (RFC 9309)."""

import re
from collections.abc import Iterable
from urllib.parse import quote, urlsplit

from indexer.config import matches
from indexer.crawl.fetch import Fetcher, PageRequest
from indexer.crawl.http_response import product_token
from indexer.errors import FetchError, NotWanted
from indexer.network.urls import normalise_escapes, origin

_MAX_BYTES = 500 * 1024  # RFC 9309, 2.5
_MAX_DELAY_SECONDS = 60.0
_MAX_WILDCARDS = 300
_LINE = re.compile(r"(user[ -]agent|crawl[ -]delay|[\w-]+)\s*:?\s*(.*)", re.IGNORECASE)
_DISALLOW = frozenset("disallow dissallow dissalow disalow diasllow disallaw".split())  # usual misspellings
_OTHER_RULES = frozenset({"crawl-delay", "request-rate", "visit-time"})
_UNESCAPED = "!$%&'()*+,-./:;=?@[\\]^_|~"


class Robots:
    """The rules of a robots.txt for one crawler. Memory and time are linear in its length."""

    def __init__(self, text: str, user_agent: str) -> None:
        rules, sitemaps = _rules_for(product_token(user_agent), text)
        self.sitemaps = tuple(sitemaps)
        self.delay = 0.0
        self._allowed_by_prefix: dict[str, bool] = {}
        self._patterns: list[tuple[int, bool, str]] = []  # length, whether it allows, pattern
        wildcards_left = _MAX_WILDCARDS
        for key, value in rules:
            if key == "crawl-delay" and re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value):
                self.delay = max(self.delay, min(float(value), _MAX_DELAY_SECONDS))
            if key in _OTHER_RULES or not value:
                continue
            pattern, allows = re.sub(r"\*+", "*", normalise_escapes(quote(value, safe=_UNESCAPED))), key == "allow"
            wildcards = pattern.count("*") + pattern.endswith("$")
            wildcards_left -= wildcards
            if not wildcards:
                self._allowed_by_prefix[pattern] = allows or self._allowed_by_prefix.get(pattern, False)
            elif wildcards_left >= 0:
                self._patterns.append((len(pattern), allows, pattern))
            elif not allows:  # too slow to match, so a shorter rule forbids more
                self._allowed_by_prefix.setdefault(pattern.removesuffix("$").partition("*")[0], False)
        self._lengths = sorted({*map(len, self._allowed_by_prefix)}, reverse=True)
        self._patterns.sort(reverse=True)

    def allows(self, url: str) -> bool:
        """Return whether an address may be fetched: the longest matching rule decides, and `allow` wins a tie."""
        url_parts = urlsplit(url)
        path = normalise_escapes(f"{url_parts.path}?{url_parts.query}" if url_parts.query else url_parts.path)
        length = next((n for n in self._lengths if n <= len(path) and path[:n] in self._allowed_by_prefix), 0)
        is_allowed = self._allowed_by_prefix[path[:length]] if length else True
        for pattern_length, allows, pattern in self._patterns:
            if pattern_length < length:
                break
            if (pattern_length > length or allows) and matches(pattern, path):
                return allows
        return is_allowed


def _rules_for(name: str | None, text: str) -> tuple[list[tuple[str, str]], Iterable[str]]:
    """Return the rules for a crawler, or the rules for `*` if there are none, and the addresses of sitemaps."""
    groups: dict[str | None, list[tuple[str, str]]] = {}
    sitemaps: dict[str, None] = {}
    current, in_agents = set[str | None](), False
    for line in text.splitlines():
        if (match := _LINE.match(line.partition("#")[0].strip())) is None:
            continue
        key, value = match[1].lower().replace(" ", "-"), match[2]
        if key == "user-agent":
            current = current if in_agents else set()
            in_agents = True
            current |= {name, "*"}.intersection(map(product_token, re.split("[,&]", value)))
            groups |= {agent: groups.get(agent, []) for agent in current}
        elif key == "allow" or key in _DISALLOW or key in _OTHER_RULES:
            in_agents = False
            for agent in current:
                groups[agent].append((key, value))
        elif key in ("sitemap", "site-map", "sitemaps"):
            sitemaps[value] = None
    return groups.get(name, groups.get("*", [])), sitemaps


def fetch_robots(fetcher: Fetcher, site: str, user_agent: str) -> Robots:
    """Fetch the rules of a site (`scheme://host:port`).

    Raises FetchError: the site may not be crawled, as its robots.txt is unavailable or redirects to another site.
    """

    def check_redirect(url: str) -> None:
        source, target = urlsplit(site), urlsplit(url)
        is_upgrade = target.scheme == "https" and target.netloc == source.netloc
        is_same_file = target.path == "/robots.txt" and (target.scheme == "https" or source.scheme == "http")
        if origin(url) != site and not (is_upgrade or is_same_file):
            raise NotWanted(f"robots.txt redirects to another site ({origin(url)})")

    try:
        response = fetcher.get(f"{site}/robots.txt", PageRequest(check_redirect, types=None, max_length=_MAX_BYTES))
    except FetchError as error:
        if error.status is not None and 400 <= error.status < 500:
            return Robots("", user_agent)
        if error.status is not None and not isinstance(error, NotWanted):
            raise FetchError(f"robots.txt answers {error}, which forbids crawling until the site repairs it") from error
        raise
    text = response.body.decode("utf-8-sig", "replace")
    if len(response.body) == _MAX_BYTES:  # a truncated rule would forbid more
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
    return Robots(text, user_agent)
