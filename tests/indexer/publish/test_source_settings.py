"""Settings of a source's own stay with it, through every build, until others are given."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indexer.config import BuildConfig, CrawlLimits, inherit_limits, limits_of
from indexer.errors import ConfigError
from indexer.generation.manifest import Manifest, current_id, read_manifest
from indexer.publish.archive import export_archive, import_archive
from tests.indexer.pipeline.incremental import Work, zoo
from tests.indexer.server import Site

PLAIN = CrawlLimits(timeout=1.0)  # as of another day, on which nothing is given
OPEN = {"allow_private": True}


def manifest_of(index: Path) -> Manifest:
    return read_manifest(index / "generations" / current_id(index))


def given(site: Site, **own: Any) -> CrawlLimits:
    return replace(PLAIN, own={site.url: {**OPEN, **own}})


def test_a_rebuild_reads_a_site_as_it_was_read(work: Work, site: Site) -> None:
    zoo(site, "etag")
    work.build(site.url, limits=given(site, include=("/cats",)))
    assert work.paths(site) == ["/cats"]
    assert not work.build(site.url, limits=PLAIN).published
    work.build(site.url, limits=PLAIN, full=True)
    assert work.paths(site) == ["/cats"]


def test_what_is_given_again_changes_and_the_rest_stays(work: Work, site: Site) -> None:
    zoo(site, "etag")
    work.build(site.url, limits=given(site, include=("/cats", "/dogs"), max_pages=30))
    work.build(site.url, limits=replace(PLAIN, own={site.url: {"include": ("/dogs",)}}))
    assert limits_of(manifest_of(work.index).settings).get(site.url, {}) == {
        "max_pages": 30,
        "include": ["/dogs"],
        "allow_private": True,
    }
    work.build(site.url, limits=replace(PLAIN, own={site.url: {"max_pages": None, "include": ()}}))
    assert work.paths(site) == ["/", "/cats", "/deep", "/dogs"]


def test_each_source_has_its_own(work: Work, site: Site, docs: Path) -> None:
    zoo(site, "etag")
    work.build(site.url, limits=given(site, include=("/cats",)))
    work.build(site.url, docs, limits=replace(PLAIN, own={str(docs): {"max_bytes": 300, "include": ("/x",)}}))
    assert [path for path in work.paths(site) if path.startswith("/")] == ["/cats"]
    assert limits_of(manifest_of(work.index).settings).get(str(docs), {}) == {"max_bytes": 300}, (
        "the rest is not for folders"
    )
    work.remove(site.url)
    assert limits_of(manifest_of(work.index).settings).get(site.url, {}) == {}
    assert limits_of(manifest_of(work.index).settings).get(str(docs), {}) == {"max_bytes": 300}


def test_leave_to_reach_private_addresses_is_not_imported(work: Work, site: Site, tmp_path: Path) -> None:
    zoo(site, "etag")
    work.build(site.url, limits=given(site, include=("/cats",)))
    export_archive(work.index, tmp_path / "a.tar")
    import_archive(tmp_path / "other", tmp_path / "a.tar", keep_generations=2)
    assert limits_of(manifest_of(tmp_path / "other").settings).get(site.url, {}) == {"include": ["/cats"]}
    import_archive(tmp_path / "other", tmp_path / "a.tar", keep_generations=2)  # as it is there already
    import_archive(work.index, tmp_path / "a.tar", keep_generations=2)
    assert limits_of(manifest_of(work.index).settings).get(site.url, {})["allow_private"] is True, (
        "which was given here"
    )


@pytest.mark.parametrize(
    "own", [{"color": 1}, {"max_pages": "9"}, {"include": "docs"}, {"include": 5}, {"allow_private": ["x"]}]
)
def test_what_makes_no_sense_is_refused(work: Work, docs: Path, own: dict[str, Any]) -> None:
    work.build(docs)
    live = manifest_of(work.index)
    altered = replace(live, settings={"crawl": {"own": {"http://a.test/": own}}})
    with pytest.raises(ConfigError):
        CrawlLimits(own={"http://a.test/": own})
    if "color" not in own:  # of a later version's index, what is not known is left alone
        with pytest.raises(ConfigError):
            inherit_limits(BuildConfig(), ["http://a.test/"], altered)
