"""robots.txt of one site (RFC 9309): 4xx means no rules, 5xx and silence mean hands off.

The lines for this crawler are selected here; Protego reads only those, so many groups take no more than the file.
"""

import re
from urllib.parse import urlsplit

from protego import Protego

from indexer.crawl.answers import is_missing, product_token
from indexer.crawl.fetch import Fetcher, Request
from indexer.errors import FetchError, NotWanted
from indexer.urls import origin

_MAX_BYTES = 500 * 1024  # bytes read; RFC 9309, 2.5
_MAX_DELAY = 60.0  # seconds
_AGENT = re.compile(r"user[ -]?agent(?:\s*:|\s)(.*)", re.IGNORECASE)
_RULE = re.compile(  # which ends a list of agents; with the misspellings that Protego knows
    r"(?:diss?all?ow|diasllow|disallaw|allow|crawl[ -]delay|request[ -]rate|visit[ -]time)(?=[\s:])", re.IGNORECASE
)
_SITEMAP = re.compile(r"site-?maps?(?=[\s:])", re.IGNORECASE)


class Robots:
    """The rules one site gives to one crawler."""

    def __init__(self, text: str, user_agent: str) -> None:
        rules = Protego.parse(_for_everybody(text, user_agent))
        self._rules = rules
        self.delay = min(max(rules.crawl_delay("*") or 0.0, 0.0), _MAX_DELAY)  # seconds between requests
        self.sitemaps = tuple(dict.fromkeys(rules.sitemaps))  # as they are written there

    def allows(self, url: str) -> bool:
        """Return whether the address may be fetched."""
        return self._rules.can_fetch(url, "*")


def fetch_robots(fetcher: Fetcher, site: str, user_agent: str) -> Robots:
    """Read the rules of a site (`scheme://host:port`).

    Raises:
        FetchError: the site cannot be reached, fails on robots.txt, or has it elsewhere, so nothing may be fetched.
    """

    def check_redirect(url: str) -> None:
        here, there = urlsplit(site), urlsplit(url)
        if origin(url) != site and not (there.scheme == "https" and there.netloc == here.netloc):
            raise NotWanted(f"robots.txt redirects to another site ({origin(url)})")

    try:
        request = Request(scope=check_redirect, types=None, cut_at=_MAX_BYTES)
        answer = fetcher.get(f"{site}/robots.txt", request)
    except FetchError as error:
        if is_missing(error):
            return Robots("", user_agent)
        if error.status is not None and not isinstance(error, NotWanted):
            raise FetchError(f"robots.txt answers {error}, which forbids crawling until the site repairs it") from error
        raise
    text = answer.body.decode("utf-8-sig", "replace")
    if len(answer.body) == _MAX_BYTES:  # the beginning of a rule forbids more than the rule
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
    return Robots(text, user_agent)


def _for_everybody(text: str, user_agent: str) -> str:
    """Return the sitemaps of a robots.txt, and a group for everybody with the rules for one user agent.

    The rules are those of all groups that name it or, if none does, of all groups for `*`. Empty and unknown lines do
    not end a group.
    """
    name = product_token(user_agent)
    ours, others, sitemaps = list[str](), list[str](), list[str]()
    agents = set[str | None]()
    is_named = in_agents = False
    for line in text.splitlines():
        line = line.partition("#")[0].strip()
        if agent := _AGENT.match(line):
            agents = agents if in_agents else set()
            in_agents = True
            agents |= {product_token(part) for part in re.split("[,&]", agent[1])} - {None}
            is_named |= name in agents
        elif _RULE.match(line):
            in_agents = False
            if name in agents:
                ours.append(line)
            elif "*" in agents:
                others.append(line)
        elif _SITEMAP.match(line):
            sitemaps.append(line)
    return "\n".join([*sitemaps, "User-agent: *", *(ours if is_named else others)])
