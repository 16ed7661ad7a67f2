import time
import tracemalloc
from contextlib import closing

import pytest

from indexer.config import CrawlLimits
from indexer.crawl.fetch import Fetcher
from indexer.crawl.site_files import Robots, fetch_robots
from indexer.errors import FetchError
from tests.indexer.server import Reply, Site

LIMITS = CrawlLimits(allow_private=True, timeout=300.0)
AGENT = LIMITS.user_agent


def rules(site: Site) -> Robots:
    with closing(Fetcher(LIMITS)) as fetcher:
        return fetch_robots(fetcher, site.url, AGENT)


@pytest.mark.parametrize("status", [401, 404, 500, 503])
def test_client_errors_mean_no_rules_and_server_errors_hands_off(site: Site, status: int) -> None:
    site.routes["/robots.txt"] = Reply(b"", status)
    with closing(Fetcher(LIMITS)) as fetcher:
        if status >= 500:
            with pytest.raises(FetchError, match=rf"robots\.txt returns HTTP {status}"):
                fetch_robots(fetcher, site.url, AGENT)
            return
        assert fetch_robots(fetcher, site.url, AGENT).allows(f"{site.url}/anything")


@pytest.mark.parametrize(
    ("rules", "allowed", "refused"),
    [
        ("Disallow: /?\nDisallow: /*.pdf$\nDisallow: /a\nAllow: /a/b", "/ /x.pdf?y /a/b", "/?q /x.pdf /a/c"),
        ("Disallow: /\nAllow: /*\nAllow: /%2Fabc", "/ /a", ""),
        ("Disallow: /*\nAllow: /\nAllow: /abc", "/abc", "/ /a"),
        ("Disallow: /a\nAllow: /a", "/a", ""),
        ("Disallow: /\u00fc\nDisallow: /%7eb\nDisallow: a", "/a", "/%C3%BC /~b"),
    ],
)
def test_the_longest_rule_holds(rules: str, allowed: str, refused: str) -> None:
    robots = Robots(f"User-agent: *\n{rules}\n", AGENT)
    assert [path for path in allowed.split() if not robots.allows(f"http://h.test{path}")] == []
    assert [path for path in refused.split() if robots.allows(f"http://h.test{path}")] == []


@pytest.mark.parametrize(
    ("group", "is_for_us"),
    [
        ("User-agent: pilotlight/0.1\nDisallow: /x", True),
        ("USER-AGENT:PILOTLIGHT\nDISALLOW:/x", True),
        ("User-agent: a\nUser-agent: pilotlight\n\nUser-agent: b\nNoindex: /y\nDisallow: /x", True),
        ("User-agent: pilotlight\nCrawler: yes\nUser-agent: b\nDisallow: /x", True),
        ("User-agent: pilotlight\nSitemap: http://h.test/s.xml\nDisallow: /x", True),
        (
            "User-agent: pilotlight\nDisallow: /a\n\nUser-agent: b\nAllow: /\n\nUser-agent: Pilotlight/2\nDisallow: /x",
            True,
        ),
        ("&\nUser-agent: *\nDisallow:\n&&\nUser-agent: pilotlight # us\n&\nDisallow: /x # this", True),
        ("User-agent: *\rDisallow:\r\rUser-agent: pilotlight\rDisallow: /x\r", True),
        ("User-agent: pilot\nAllow: /x\n\nUser-agent: *\nDisallow: /x", True),
        ("User-agent: pilotlightbot\nAllow: /\n\nUser-agent: *\nDisallow: /x", True),
        ("User-agent: PilotLight*\nDisallow: /x", True),
        ("User-agent: GPTBot, Pilotlight\nDisallow: /x", True),
        ("User agent: Pilotlight\nDissallow: /x", True),
        ("User-agent: pilotlight\nDisallow: /%78\nAllow: /$", True),
        ("User-agent: *\nAllow: /\nUser-agent: Pilotlight\nContent-Signal: search=yes\nDisallow: /x/1", True),
        ("User-agent: *\nDisallow: /a\n\nUser-agent: b\nDisallow: /y\n\nUser-agent: *\nDisallow: /x", True),
        ("User-agent: pilot\nDisallow: /", False),
        ("User-agent: pilotlight-images\nDisallow: /", False),
        ("User-agent: Mozilla/5.0 (compatible; Pilotlight/0.1)\nDisallow: /", False),
        ("Disallow: /\nUser-agent: pilotlight\nDisallow: /z", False),
        ("User-agent: *\nDisallow: /\n\nUser-agent: pilotlight\nDisallow:", False),
        ("User-agent: *\nDisallow: /\nUser-agent: pilotlight", False),
        ("User-agent: pilotlight\nUser-agent:\nAllow: /\n\nUser-agent:\nDisallow: /", False),
        ("User-agent: *\nCrawl-delay: 1\n\nUser-agent: evil\nDisallow: /", False),
        ("User-agent: **\nDisallow: /", False),
    ],
)
def test_whom_rules_are_for(group: str, is_for_us: bool) -> None:
    robots = Robots(group, AGENT)
    assert robots.allows("http://h.test/x/1") is not is_for_us
    assert robots.allows("http://h.test/y")


def groups(agents: int, rules: str) -> str:
    return "".join(f"User-agent: a{number}\n" for number in range(agents)) + f"User-agent: *\n{rules}"


@pytest.mark.parametrize(
    "text",
    [
        groups(2_000, "".join(f"Disallow: /{number}/*x$\n" for number in range(2_000))),
        groups(0, "".join(f"Disallow:/{number}\n" for number in range(30_000))),
        groups(0, "".join(f"Disallow:/{'a' * number}\n" for number in range(950))),
        groups(0, "".join(f"Disallow:/*{number}\n" for number in range(25_000))),
        groups(0, f"Disallow: /{'*a' * 200}b\nDisallow: /{'*a' * 200_000}b\nDisallow: /{'*' * 50_000}\n"),
        groups(35_000, ""),
        f"User-agent: {'a,' * 250_000}",
        f"User-agent{' ' * 500_000}",
    ],
    ids="agents rules lengths wildcards stars groups names blanks".split(),
)
def test_large_ones_take_little_memory_and_time(text: str) -> None:
    tracemalloc.start()
    began = time.process_time()
    robots = Robots(text, AGENT)
    assert tracemalloc.get_traced_memory()[1] < 40_000_000
    tracemalloc.stop()
    assert time.process_time() - began < 10
    began = time.process_time()
    for _ in range(100):
        robots.allows("http://h.test/" + "a" * 1_900)
    assert time.process_time() - began < 1


def test_rules_with_more_wildcards_than_are_tried_forbid_what_begins_like_them() -> None:
    many = "".join(f"Disallow: /x/*{number}\n" for number in range(700))
    robots = Robots(f"User-agent: *\n{many}Disallow: /y*z\nAllow: /y*\n", AGENT)
    assert [robots.allows(f"http://h.test/{path}") for path in ("x/7", "x/a", "y", "z")] == [False, False, False, True]


def test_a_rule_that_is_cut_off_does_not_count(site: Site) -> None:
    head = "User-agent: *\nDisallow: /early\n"
    site.routes["/robots.txt"] = head + "#" * (500 * 1024 - len(head) - 12) + "\nDisallow: /late\n"
    robots = rules(site)
    assert robots.allows(f"{site.url}/x")
    assert not robots.allows(f"{site.url}/early")
