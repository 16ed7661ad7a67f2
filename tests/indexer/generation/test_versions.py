"""Which addresses are those of versions, how versions are ordered, and which a filter means."""

import pytest

from indexer.filter import Filter
from indexer.generation.editions import edition_at, learn_versions, resolve_versions, version_key
from indexer.generation.writer import signature_of, word_hashes

PAGES = {
    "install": "To install the server, unpack the archive and run the setup program as an administrator of it.",
    "tuning": "Memory is tuned by settings that say how much each session may take while it sorts and joins.",
    "backup": "A backup is a copy of all files of the server, made while it runs, and kept on another machine.",
}
D = "https://d.example/"


def others(number: int) -> str:
    return " ".join(f"w{number * 97 + place * 31}" for place in range(20))


def manual(pattern: str, *versions: str) -> list[tuple[str, str, str]]:
    return [
        (pattern.format(version, page), f"Manual {version}: {page}", text.replace("server", f"server {version}"))
        for version in versions
        for page, text in PAGES.items()
    ]


def learnt(pages: list[tuple[str, str, str]]) -> dict[str, tuple[str, str]]:
    return learn_versions(("s", url, title, signature_of(word_hashes(text))) for url, title, text in pages)


@pytest.mark.parametrize(
    ("pattern", "written", "versions"),
    [
        ("https://d.example/docs/{}/{}.html", "15 16 17", ""),
        ("https://d.example/v{}/{}/", "2.0 2.1", ""),
        ("https://d.example/en/{}/{}.html", "stable latest v3.2", "stable latest 3.2"),
        ("https://d.example/release-{}/{}", "1.2 1.3", ""),
        ("https://d.example/jdk{}/{}.html", "17 21", ""),
        ("https://d.example/libs/{}/{}.html", "1_84_0 1_85_0", "1.84.0 1.85.0"),
        ("https://d.example/{}/{}", "1.x 2.x main", ""),
        ("https://d.example/docs/{}/{}", "2023 2024", ""),
        ("https://d.example/{}/{}", "2.0-SNAPSHOT 2.0.0-rc.1 1.9.2", "2.0-snapshot 2.0.0-rc.1 1.9.2"),
        ("git+https://d.example/x.git/docs/version-{}/{}.md", "1.0 2.0", ""),
        ("https://d.example/{}/show?topic={}", "1.0 2.0", ""),
    ],
)
def test_shapes_of_versions(pattern: str, written: str, versions: str) -> None:
    found = learnt(manual(pattern, *written.split()))
    assert {version for _, version in found.values()} == {*(versions or written).split()}
    edition = edition_at(manual(pattern, written.split()[0])[0][0], "s", found)
    assert edition is not None
    assert edition.version == (versions or written).split()[0]


@pytest.mark.parametrize(
    "pages",
    [
        manual(D + "docs/{}/{}", "17"),  # alone
        manual(D + "{}/{}", "en", "de"),
        manual("http://10.0.0.{}/{}", "1", "2"),
        manual("https://zephyr{}.hosting.example/docs/{}", "3", "99"),  # two owners
        manual("https://v{}.docs.example/{}", "3", "4"),
        [
            (f"{D}{year}/0{month}/p{month}{year}", "News", others(year * month))
            for year in (2023, 2024)
            for month in (1, 2)
        ],
        [(f"{D}{year}/", f"Posts of {year}", "The posts of this year are here below.") for year in (2023, 2024)],
        [(f"{D}page/{number}/", f"Page {number}", others(number)) for number in range(2, 9)],
        [(f"{D}users/{number}/profile", f"User{'abcdefghi'[number]}", PAGES["tuning"]) for number in range(2, 9)],
        [(f"{D}chapter-{number}/exercises.html", "Exercises", others(number * 7)) for number in range(1, 9)],
        [(f"{D}2024-05-{day}/news", "News", PAGES["tuning"]) for day in (10, 11)],
    ],
)
def test_what_is_no_version(pages: list[tuple[str, str, str]]) -> None:
    assert learnt(pages) == {}


def test_versions_are_ordered_part_by_part() -> None:
    versions = "stable latest 17.x 17.10 17.9 17 16 2.0 18beta1 2.0-rc.1 dev".split()
    assert sorted(versions, key=version_key, reverse=True) == versions


@pytest.mark.parametrize(
    ("wanted", "places"),
    [
        ("V17", ["a/17"]),
        ("17.x", ["a/17", "b/17.1"]),
        ("latest", ["a/17", "b/latest"]),
        ("stable", ["a/17", "b/latest"]),
        ("9", []),
    ],
)
def test_a_filter_means_addresses(wanted: str, places: list[str]) -> None:
    versions = {f"s\n{D}{each}": (D + each[0], each[2:]) for each in ("a/16", "a/17", "a/18beta", "b/17.1", "b/latest")}
    filter = Filter.parse({"version": wanted, "language": "en"})
    prefixes = Filter(source=("s",), url_prefix=tuple(D + each for each in places))
    expected = Filter(language=("en",)) & Filter.any_of([prefixes] if places else [])
    assert resolve_versions(filter, versions) == expected
    assert resolve_versions(Filter(source=("s",)) & filter, versions) == Filter(source=("s",)) & expected
