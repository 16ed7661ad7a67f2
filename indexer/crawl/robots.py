"""robots.txt of one site (RFC 9309): 4xx means no rules, 5xx and silence mean hands off."""

from functools import partial
from urllib.parse import urlsplit

from protego import Protego

from indexer.crawl.answers import is_missing
from indexer.crawl.fetch import Fetcher
from indexer.errors import FetchError, NotWanted
from indexer.urls import origin

_MOST = 500 * 1024  # bytes read; RFC 9309, 2.5
_LONGEST_DELAY = 60.0  # seconds


class Robots:
    """The rules one site gives to one crawler."""

    def __init__(self, text: str, user_agent: str) -> None:
        self._agent = user_agent.partition("/")[0]  # the product token; the rest of it names nobody
        self._rules = Protego.parse(text)

    @property
    def delay(self) -> float:
        """Seconds the site asks to leave between requests."""
        asked = self._rules.crawl_delay(self._agent) or 0.0
        return min(max(asked, 0.0), _LONGEST_DELAY)

    @property
    def sitemaps(self) -> tuple[str, ...]:
        """Return the sitemaps that the site names, as they are written there, each once."""
        return tuple(dict.fromkeys(self._rules.sitemaps))

    def allows(self, url: str) -> bool:
        """Whether the address may be fetched."""
        return self._rules.can_fetch(url, self._agent)


def fetch_robots(fetcher: Fetcher, site: str, user_agent: str) -> Robots:
    """Read the rules of a site (`scheme://host:port`).

    Raises:
        FetchError: the site cannot be reached, fails on robots.txt, or has it elsewhere, so nothing may be fetched.
    """
    try:
        answer = fetcher.get(
            f"{site}/robots.txt", scope=partial(_stays, site), types=None, cut_at=_MOST, may_be_missing=True
        )
    except FetchError as error:
        if is_missing(error):
            return Robots("", user_agent)
        if error.status is not None and not isinstance(error, NotWanted):
            raise FetchError(f"robots.txt answers {error}, which forbids crawling until the site repairs it") from error
        raise
    return Robots(answer.body.decode("utf-8-sig", "replace"), user_agent)


def _stays(site: str, url: str) -> None:
    here, there = urlsplit(site), urlsplit(url)
    if origin(url) != site and not (there.scheme == "https" and there.netloc == here.netloc):
        raise NotWanted(f"robots.txt redirects to another site ({origin(url)})")
