import time
import tracemalloc
from contextlib import closing

import pytest

from indexer.config import CrawlLimits
from indexer.crawl.fetch import Fetcher
from indexer.crawl.robots import Robots, fetch_robots
from indexer.errors import FetchError
from tests.indexer.server import Reply, Site, redirect

LIMITS = CrawlLimits(allow_private=True, timeout=20.0)
AGENT = LIMITS.user_agent


def rules(site: Site) -> Robots:
    with closing(Fetcher(LIMITS)) as fetcher:
        return fetch_robots(fetcher, site.url, AGENT)


def test_rules_are_kept(site: Site) -> None:
    site.routes["/robots.txt"] = Reply(
        b"User-agent: other\nDisallow: /\n\nUser-agent: *\nDisallow: /private/\nCrawl-delay: 2\n",
        200,
        {"Content-Type": "text/plain"},
    )
    robots = rules(site)
    assert robots.allows(f"{site.url}/open")
    assert not robots.allows(f"{site.url}/private/x")
    assert robots.delay == 2.0


def test_our_own_name_is_matched(site: Site) -> None:
    site.routes["/robots.txt"] = "User-agent: *\nDisallow:\n\nUser-agent: Pilotlight\nDisallow: /a\n"
    robots = rules(site)
    assert robots.allows(f"{site.url}/b")
    assert not robots.allows(f"{site.url}/a")


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_client_errors_mean_no_rules(site: Site, status: int) -> None:
    site.routes["/robots.txt"] = Reply(b"", status)
    with closing(Fetcher(LIMITS)) as fetcher:
        assert fetch_robots(fetcher, site.url, AGENT).allows(f"{site.url}/anything")


@pytest.mark.parametrize("status", [500, 503])
def test_server_errors_mean_hands_off(site: Site, status: int) -> None:
    site.routes["/robots.txt"] = Reply(b"", status)
    with pytest.raises(FetchError, match=rf"robots\.txt answers HTTP {status}"):
        rules(site)


def test_only_the_first_500_kib_count(site: Site) -> None:
    padding = "# padding\n" * 60_000
    site.routes["/robots.txt"] = f"User-agent: *\nDisallow: /early\n{padding}Disallow: /late\n"
    robots = rules(site)
    assert not robots.allows(f"{site.url}/early")
    assert robots.allows(f"{site.url}/late")


def test_patterns_of_the_standard() -> None:
    robots = Robots("User-agent: *\nDisallow: /?\nDisallow: /*.pdf$\nDisallow: /a\nAllow: /a/b\n", AGENT)
    allowed = {
        path: robots.allows(f"http://h.test{path}") for path in ("/", "/?q", "/x.pdf", "/x.pdf?y", "/a/b", "/a/c")
    }
    assert allowed == {"/": True, "/?q": False, "/x.pdf": False, "/x.pdf?y": True, "/a/b": True, "/a/c": False}


@pytest.mark.parametrize(
    "group",
    [
        "User-agent: pilotlight/0.1\nDisallow: /x",
        "User-agent: Pilotlight Crawler\nDisallow: /x",
        "USER-AGENT:PILOTLIGHT\nDISALLOW:/x",
        "User-agent: pilotlight\n\n\nDisallow: /x",
        "User-agent: pilotlight\nNoindex: /y\nDisallow: /x",
        "User-agent: a\nUser-agent: pilotlight\nUser-agent: b\nDisallow: /x",
        "User-agent: pilotlight\nCrawler: yes\nUser-agent: b\nDisallow: /x",
        "User-agent: pilotlight\nSitemap: http://h.test/s.xml\nDisallow: /x",
        "User-agent: pilotlight\nDisallow: /a\n\nUser-agent: b\nAllow: /\n\nUser-agent: Pilotlight/2\nDisallow: /x",
        "&\nUser-agent: *\nDisallow:\n&&\nUser-agent: pilotlight # us\n&\nDisallow: /x # this",
        "User-agent: *\rDisallow:\r\rUser-agent: pilotlight\rDisallow: /x\r",
        "User-agent: pilot\nAllow: /x\n\nUser-agent: *\nDisallow: /x",
        "User-agent: pilotlightbot\nAllow: /\n\nUser-agent: *\nDisallow: /x",
        # written after the rule
        "User-agent: PilotLight*\nDisallow: /x",
        "user-agent:\tPILOTLIGHT/1.0 (crawler)\ndisallow:\t/x\t",
        "User-agent: GPTBot, Pilotlight\nDisallow: /x",
        "User agent: Pilotlight\nDissallow: /x",
        "<!-- robots -->\nUser-agent: pilotlight\n<br>\nUser-agent: other\n\nAllow: /y\nDisallow: /*x",
        "User-agent: pilotlight\nDisallow: /%78\nAllow: /$",
        "User-agent: *\nAllow: /\nUser-agent: Pilotlight\nContent-Signal: search=yes,ai-train=no\nDisallow: /x/1",
        "User-agent: pilotlight\nHost: h.test\nClean-param: ref /x\nDisallow: /*1$",
        "User-agent: *\nDisallow: /a\n\nUser-agent: b\nDisallow: /y\n\nUser-agent: *\nDisallow: /x",
    ],
)
def test_rules_that_are_for_this_crawler(group: str) -> None:
    robots = Robots(group, AGENT)
    assert not robots.allows("http://h.test/x/1")
    assert robots.allows("http://h.test/y")


@pytest.mark.parametrize(
    "group",
    [
        "User-agent: pilot\nDisallow: /",
        "User-agent: light\nDisallow: /",
        "User-agent: pilotlight-images\nDisallow: /",
        "User-agent: Mozilla/5.0 (compatible; Pilotlight/0.1)\nDisallow: /",
        "Disallow: /\nUser-agent: pilotlight\nDisallow: /z",
        "User-agent: *\nDisallow: /\n\nUser-agent: pilotlight\nDisallow:",
        "User-agent: *\nDisallow: /\nUser-agent: pilotlight",
        "User-agent: pilotlight\nUser-agent:\nAllow: /\n\nUser-agent:\nDisallow: /",
        "User-agent: *\nCrawl-delay: 1\n\nUser-agent: evil\nDisallow: /",
        "User-agent: **\nDisallow: /",
    ],
)
def test_rules_that_are_for_others(group: str) -> None:
    assert Robots(group, AGENT).allows("http://h.test/x")


def test_many_groups_of_many_rules_take_little_memory() -> None:
    group = "".join(f"User-agent: a{number}\n" for number in range(2_000))
    rules = "".join(f"Disallow: /{number}/*x$\n" for number in range(2_000))
    tracemalloc.start()
    robots = Robots(f"{group}{rules}User-agent: *\nDisallow: /x", AGENT)
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()
    assert not robots.allows("http://h.test/x")


def test_a_rule_that_is_cut_off_does_not_count(site: Site) -> None:
    head = "User-agent: *\nDisallow: /early\n"
    site.routes["/robots.txt"] = head + "#" * (500 * 1024 - len(head) - 12) + "\nDisallow: /late\n"
    robots = rules(site)
    assert robots.allows(f"{site.url}/x")
    assert not robots.allows(f"{site.url}/early")


def test_a_rule_of_many_stars_is_answered_at_once() -> None:
    robots = Robots("User-agent: *\nDisallow: /" + "*a" * 200 + "b\n", AGENT)
    began = time.monotonic()
    assert robots.allows("http://h.test/" + "a" * 1900)
    assert time.monotonic() - began < 1


def test_more_than_five_redirects_mean_hands_off(site: Site) -> None:
    for number in range(7):
        site.routes[f"/{number}"] = redirect(f"/{number + 1}")
    site.routes["/robots.txt"] = redirect("/0")
    with pytest.raises(FetchError, match="more than 5 redirects"):
        rules(site)
