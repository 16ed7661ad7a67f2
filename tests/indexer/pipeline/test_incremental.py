"""A build on top of an earlier one: what is not asked for, parsed or embedded again, and what must be."""

import random
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from indexer.pipeline import build as build_module
from indexer.pipeline import draft
from tests.indexer.pipeline.incremental import Versioned, Work, link, zoo
from tests.indexer.server import Reply, Site, redirect


@pytest.mark.parametrize("validator", ["etag", "date", "none"])
def test_an_unchanged_site_is_left_as_it_is(
    work: Work, site: Site, validator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = zoo(site, validator)
    first = work.build(site.url)
    assert (first.published, first.new.count, first.unchanged, first.embedded) == (True, 4, 0, 5)
    assert {group.reason: group.count for group in first.skipped}["a list of links"] == 1
    files = sorted(work.index.rglob("*"))
    site.hits.clear()
    monkeypatch.setattr(build_module, "read_document", None)
    monkeypatch.setattr(build_module, "Chunker", None)
    second = work.build(site.url)
    assert (second.published, second.generation, second.unchanged) == (False, first.generation, 4)
    assert (second.embedded, second.carried, second.documents, second.chunks) == (0, 0, 4, 5)
    assert second.skipped == first.skipped
    assert sorted(site.hits) == ["/", "/cats", "/deep", "/dogs", "/list", "/robots.txt"]
    assert {name: route.sent for name, route in pages.items()} == dict.fromkeys(pages, 2 if validator == "none" else 1)
    assert second.fetched == (5 if validator == "none" else 0)
    assert sorted(work.index.rglob("*")) == files
    assert "nothing has changed" in second.table()


def test_a_change_embeds_its_own_passages_only(work: Work, site: Site) -> None:
    pages = zoo(site, "etag")
    first = work.build(site.url)
    pages["cats"].body = pages["cats"].body.replace("fish", "mice")
    pages["cats"].etag = '"cats2"'
    report = work.build(site.url)
    assert report.published
    assert report.generation != first.generation
    assert report.as_dict()["changed"] == {"count": 1, "examples": [f"{site.url}/cats"]}
    assert (report.new.count, report.gone.count, report.unchanged, report.fetched) == (0, 0, 3, 1)
    assert (report.embedded, report.carried) == (1, 4)
    assert "They eat mice." in str(work.content()[f"{site.url}/cats"])


@pytest.mark.parametrize(
    ("route", "outcome"),
    [
        (Reply(b"", 404), "HTTP 404"),
        (Reply(b"", 410), "HTTP 410"),
        (Reply(b"", 403), "HTTP 403"),
        (redirect("http://127.0.0.1:1/"), "redirect to another site"),
        (Reply(b"PNG", 200, {"Content-Type": "image/png"}), "is not read"),
        ("<meta name=robots content=noindex><p>hidden", "noindex"),
        (Reply(b"<script>1</script>"), "no text"),
    ],
)
def test_pages_that_are_gone(work: Work, site: Site, route: Any, outcome: str) -> None:
    zoo(site, "etag")
    work.build(site.url)
    site.routes["/dogs"] = route
    report = work.build(site.url)
    assert report.as_dict()["gone"] == {"count": 1, "examples": [f"{site.url}/dogs"]}
    assert (report.unchanged, report.embedded, report.carried, report.kept) == (3, 0, 4, [])
    assert outcome in str((report.skipped, report.failed))
    assert work.paths(site) == ["/", "/cats", "/deep"]
    assert not work.build(site.url).published


def test_a_header_that_newly_forbids_comes_with_304(work: Work, site: Site) -> None:
    pages = zoo(site, "etag")
    work.build(site.url)
    pages["dogs"].headers["X-Robots-Tag"] = "noindex"
    assert work.build(site.url).gone.examples == [f"{site.url}/dogs"]
    assert pages["dogs"].sent == 1
    del pages["dogs"].headers["X-Robots-Tag"]
    assert work.build(site.url).new.examples == [f"{site.url}/dogs"]


def test_vectors_stay_in_step_across_blocks(work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made and carried vectors alternate, in blocks that end within documents."""
    monkeypatch.setattr(draft, "_CHUNKS_PER_CALL", 3)
    monkeypatch.setattr(draft, "_MAX_BLOCK_CHUNKS", 7)
    source = tmp_path / "long.txt"
    paragraphs = [f"Paragraph {number} is about topic{number} and about subject{number}." for number in range(60)]
    source.write_text("\n\n".join(paragraphs))
    work.build(source, chunk_tokens=16)
    for number in (1, 13, 14, 15, 16, 40, 59):
        paragraphs[number] = f"Chapter {number} deals with matter{number} instead of subject{number}."
    source.write_text("\n\n".join(paragraphs))
    report = work.build(source, chunk_tokens=16)
    assert 0 < report.embedded < report.carried
    fresh = Work(tmp_path / "fresh")
    fresh.build(source, chunk_tokens=16)
    assert work.content() == fresh.content()


def test_any_history_ends_like_a_fresh_build(work: Work, site: Site, tmp_path: Path) -> None:
    """Random edits, with and without validators; after each build the index is what a build from nothing makes."""
    chance = random.Random(5)
    words = "cat dog fish bird tree river stone cloud lamp chair".split()
    versions = 0

    def text() -> str:
        nonlocal versions
        versions += 1
        sections = [
            f"<h2 id=s{number}>{chance.choice(words)}</h2><p>{' '.join(chance.choices(words, k=12))}."
            for number in range(chance.randint(1, 3))
        ]
        hide = "<meta name=robots content=noindex>" if chance.random() < 0.1 else ""
        title = f"<html lang=en>{hide}<title>{chance.choice(words)}</title>"
        return title + link(*chance.sample(names, 3)) + "".join(sections)

    def change(name: str) -> None:
        kind = chance.choice(["etag", "date", "none"])
        modified = formatdate(1_600_000_000 + versions * 10, usegmt=True)
        etag = f'"{versions}"' if kind == "etag" else None
        site.routes[f"/{name}"] = Versioned(text(), etag, modified if kind == "date" else None)

    names = [f"p{number}" for number in range(12)]
    site.routes["/"] = Versioned(f"<title>Start</title><p>Start.</p>{link(*names[:6])}", '"start"')
    for name in names:
        change(name)
    for step in range(12):
        work.build(site.url)
        fresh = Work(tmp_path / f"fresh-{step}")
        fresh.build(site.url)
        assert work.content() == fresh.content(), f"step {step}"
        for name in chance.sample(names, chance.randint(0, 3)):
            if chance.random() < 0.2:
                site.routes.pop(f"/{name}", None)
            else:
                change(name)


def test_the_summary_counts_notes_and_later_builds_still_do(tmp_path: Path, work: Work) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_bytes("Die Katzen dösen, während draußen Hunde bellen.".encode("latin-1"))
    (docs / "b.txt").write_text("Dogs bark.")
    [noted] = work.build(docs).as_dict()["notes"]
    assert noted["reason"].startswith("an encoding was guessed: ")
    assert (noted["count"], noted["examples"]) == (1, [(docs / "a.txt").as_uri()])
    (docs / "c.txt").write_text("Owls hoot.")
    again = work.build(docs)
    assert (again.as_dict()["notes"], again.unchanged) == ([noted], 2)
    assert f"noted        1\n         1   {noted['reason']}, such as {noted['examples'][0]}" in again.table()
