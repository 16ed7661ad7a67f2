"""The rules of a robots.txt (RFC 9309), and how a site's own is fetched."""

import re
from collections.abc import Iterable
from urllib.parse import quote, urlsplit

from indexer.config import matches
from indexer.crawl.fetch import Fetcher, PageRequest
from indexer.crawl.http_response import product_token
from indexer.errors import FetchError, NotWanted
from indexer.network.urls import one_spelling, origin

_MAX_ROBOTS = 500 * 1024  # bytes read of a robots.txt; RFC 9309, 2.5
_MAX_DELAY = 60.0  # seconds
_MAX_WILDCARDS = 300  # of rules that are tried for each address; further ones hold for all that begins like them
_LINE = re.compile(r"(user[ -]agent|crawl[ -]delay|[\w-]+)\s*:?\s*(.*)", re.IGNORECASE)
_DISALLOW = frozenset("disallow dissallow dissalow disalow diasllow disallaw".split())  # as it is spelt
_OTHER_RULES = frozenset({"crawl-delay", "request-rate", "visit-time"})  # which end a list of agents, too
_IN_PATTERN = "!$%&'()*+,-./:;=?@[\\]^_|~"  # characters that need no escape


class Robots:
    """The rules that a robots.txt (RFC 9309) gives to one crawler, in memory and time that are linear in its length."""

    def __init__(self, text: str, user_agent: str) -> None:
        rules, sitemaps = _rules_for(product_token(user_agent), text)
        self.sitemaps = tuple(sitemaps)  # as they are written there
        self.delay = 0.0  # seconds between requests
        self._plain: dict[str, bool] = {}  # by the beginning of a path, whether it is allowed
        self._wild: list[tuple[int, bool, str]] = []  # length, whether it allows, pattern
        room = _MAX_WILDCARDS
        for key, value in rules:
            if key == "crawl-delay" and re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value):
                self.delay = max(self.delay, min(float(value), _MAX_DELAY))
            if key in _OTHER_RULES or not value:
                continue
            pattern, allows = re.sub(r"\*+", "*", one_spelling(quote(value, safe=_IN_PATTERN))), key == "allow"
            wildcards = pattern.count("*") + pattern.endswith("$")
            room -= wildcards
            if not wildcards:
                self._plain[pattern] = allows or self._plain.get(pattern, False)
            elif room >= 0:
                self._wild.append((len(pattern), allows, pattern))
            elif not allows:
                self._plain.setdefault(pattern.removesuffix("$").partition("*")[0], False)
        self._lengths = sorted({*map(len, self._plain)}, reverse=True)
        self._wild.sort(reverse=True)

    def allows(self, url: str) -> bool:
        """Return whether the address may be fetched: the longest rule holds, and of two the one that allows."""
        parts = urlsplit(url)
        path = one_spelling(f"{parts.path}?{parts.query}" if parts.query else parts.path)
        length = next((n for n in self._lengths if n <= len(path) and path[:n] in self._plain), 0)
        is_allowed = self._plain[path[:length]] if length else True
        for longest, allows, pattern in self._wild:
            if longest < length:
                break
            if (longest > length or allows) and matches(pattern, path):
                return allows
        return is_allowed


def _rules_for(name: str | None, text: str) -> tuple[list[tuple[str, str]], Iterable[str]]:
    """Return the rules of all groups that name a crawler or, if none does, of all groups for `*`; and the sitemaps."""
    groups: dict[str | None, list[tuple[str, str]]] = {}
    sitemaps: dict[str, None] = {}
    current, in_agents = set[str | None](), False  # which of `groups` the rules belong to
    for line in text.splitlines():
        if (found := _LINE.match(line.partition("#")[0].strip())) is None:
            continue
        key, value = found[1].lower().replace(" ", "-"), found[2]
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
    """Read the rules of a site (`scheme://host:port`).

    Raises FetchError: it cannot be reached, fails on robots.txt, or has it elsewhere, so nothing may be fetched.
    """

    def check_redirect(url: str) -> None:
        here, there = urlsplit(site), urlsplit(url)
        is_elsewhere = there.path != here.path + "/robots.txt" or (here.scheme, there.scheme) == ("https", "http")
        if origin(url) != site and is_elsewhere and not (there.scheme == "https" and there.netloc == here.netloc):
            raise NotWanted(f"robots.txt redirects to another site ({origin(url)})")

    try:
        request = PageRequest(scope=check_redirect, types=None, cut_at=_MAX_ROBOTS)
        answer = fetcher.get(f"{site}/robots.txt", request)
    except FetchError as error:
        if error.status is not None and 400 <= error.status < 500:
            return Robots("", user_agent)
        if error.status is not None and not isinstance(error, NotWanted):
            raise FetchError(f"robots.txt answers {error}, which forbids crawling until the site repairs it") from error
        raise
    text = answer.body.decode("utf-8-sig", "replace")
    if len(answer.body) == _MAX_ROBOTS:  # the beginning of a rule forbids more than the rule
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
    return Robots(text, user_agent)
