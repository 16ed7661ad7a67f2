"""Changes between generations and versions, over sites that are indexed twice."""

import json

import pytest

from indexer.filter import Filter
from indexer.publish.publish import roll_back
from rag.changes.snapshots import changes_as_text, count_changes, find_changes
from rag.commands.cli import main
from rag.errors import FieldError
from rag.messages import Changes
from rag.serving.live import LiveRetriever
from tests.rag.conftest import Site
from tests.waiting import wait_for

PAGES = 8


def page(number: int, day: str = "2026-11-01", views: int = 7) -> str:
    return (
        f"# Page {number}\n\nIntro of page {number} is here with words.\n\n## One {number}\n\n"
        f"The default of knob{number} is {number}3 MB in all. It is a fine knob to turn{number}.\n\n"
        f"## Two {number}\n\nAnother section {number} that says many things about ships{number}.\n\n"
        f"Last updated: {day}\n\nViewed {views * (number + 1)} times\n"
    )


@pytest.fixture
def manual(site: Site) -> Site:
    """A site of pages that was indexed, of which only stamps and counters have changed since."""
    for path in site.source.iterdir():
        path.unlink()
    for number in range(PAGES):
        (site.source / f"p{number}.md").write_text(page(number), encoding="utf-8")
    site.build()
    for number in range(PAGES):
        (site.source / f"p{number}.md").write_text(page(number, "2026-12-24", 11), encoding="utf-8")
    return site


def edit(site: Site, number: int, old: str, new: str) -> None:
    path = site.source / f"p{number}.md"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def changed(site: Site, since: str | None = None, until: str | None = None) -> Changes:
    site.build()
    return find_changes(site.index, "default", since, until)


def kinds(changes: Changes) -> list[tuple[str, str, str]]:
    return [(each.title, section.kind, section.section) for each in changes.documents for section in each.sections]


def test_stamps_and_counters_are_no_change(manual):
    changes = changed(manual)
    assert changes.documents == []
    assert changes.noise == PAGES
    assert changes.counts == {"documents": 0}
    assert changes_as_text(changes).splitlines()[0].endswith(": no section in 0 documents")


def test_a_date_in_a_sentence_is_noise_if_many_documents_have_the_sentence(manual):
    def write(day: int, month: str, due: str) -> None:
        for number in range(PAGES):
            stamp = f"\nThis page was last edited on {number + day} {month} 2026, at 10:{number + day}.\n"
            (manual.source / f"p{number}.md").write_text(page(number) + stamp, encoding="utf-8")
        edit(manual, 2, "a fine knob", f"due on {due}")

    write(1, "May", "3 May 2027")
    manual.build()
    write(12, "October", "4 June 2027")
    assert kinds(changed(manual)) == [("Page 2", "rewritten", "One 2")]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("43 MB", "44 MB", ("Page 4", "rewritten", "One 4")),
        ("a fine knob", "never a fine knob", ("Page 4", "rewritten", "One 4")),
        (" It is a fine knob to turn4.", "", ("Page 4", "rewritten", "One 4")),
        ("in all.", "in all. A new sentence is here.", ("Page 4", "rewritten", "One 4")),
        ("## One 4", "## Uno", ("Page 4", "renamed", "Uno")),
        ("## Two 4", "## New\n\nIt is new here.\n\n## Two 4", ("Page 4", "added", "New")),
    ],
)
def test_kinds_of_changes(manual, old, new, found):
    edit(manual, 4, old, new)
    changes = changed(manual)
    assert kinds(changes) == [found]
    assert count_changes(manual.index) == {found[1]: 1}


def test_short_sections_of_options_and_spaces_in_headings(manual):
    edit(manual, 4, "## Two 4", "### maxAge\n\nIt is 5 days.\n\n### minSize\n\nIt is 3 bytes.\n\n## Two 4 <T>")
    manual.build()
    edit(manual, 4, "3 bytes", "4 bytes")
    edit(manual, 4, "Two 4 <T>", "Two 4 < T>")
    [(title, kind, section)] = kinds(changed(manual))
    assert (title, kind, section.split(" › ")[-1]) == ("Page 4", "rewritten", "minSize")


def test_a_section_that_is_on_another_page_now_was_moved(manual):
    section = page(2).split("## Two")[1].split("Last")[0]
    edit(manual, 2, f"## Two{section}", "")
    edit(manual, 3, "## Two", f"## Two{section}## Two")
    assert kinds(changed(manual)) == [("Page 3", "moved", "Two 2")]


def test_documents_that_come_and_go_or_get_another_address_or_title(manual):
    (manual.source / "p1.md").unlink()
    (manual.source / "p5.md").rename(manual.source / "leaf.md")
    edit(manual, 6, "# Page 6", "# Leaf 6")
    (manual.source / "new.md").write_text("# New\n\nNobody has read this before.\n", encoding="utf-8")
    changes = changed(manual)
    assert {(each.kind, each.title) for each in changes.documents} == {
        ("removed", "Page 1"),
        ("moved", "Page 5"),
        ("renamed", "Leaf 6"),
        ("added", "New"),
    }
    moved = next(each for each in changes.documents if each.kind == "moved")
    assert moved.old_url == (manual.source / "p5.md").as_uri()


def test_versions_of_a_manual_within_one_generation(site):
    for path in site.source.iterdir():
        path.unlink()
    for version in ("15", "16"):
        (site.source / "docs" / version).mkdir(parents=True)
        for number in range(6):
            text = page(number).replace("# Page", f"# Manual {version}: Page")
            (site.source / "docs" / version / f"p{number}.md").write_text(text, encoding="utf-8")
    newer = site.source / "docs" / "16" / "p3.md"
    newer.write_text(newer.read_text(encoding="utf-8").replace("33 MB", "34 MB"), encoding="utf-8")
    changes = changed(site, "15")
    assert (changes.since.version, changes.until.version) == ("15", "16")
    assert kinds(changes) == [("Manual 16: Page 3", "rewritten", "One 3")]
    with pytest.raises(FieldError, match="another version than 16"):
        find_changes(site.index, "default", "16", None)


def test_since_is_a_day_a_number_of_days_or_a_generation(manual):
    edit(manual, 4, "43 MB", "44 MB")
    changes = changed(manual)
    oldest, live = changes.available[-1].generation, changes.available[0].generation
    assert (changes.since.generation, changes.until.generation) == (oldest, live)
    assert find_changes(manual.index, "default", oldest, "live") == changes
    assert find_changes(manual.index, "default", "2020-01-01", None).since.generation == oldest
    assert find_changes(manual.index, "default", "30d", None).since.generation == oldest
    assert find_changes(manual.index, "default", "0d", None).documents == []
    with pytest.raises(FieldError, match="since must be a day"):
        find_changes(manual.index, "default", "yesterday", None)
    roll_back(manual.index, oldest)
    assert find_changes(manual.index, "default", live, "live").until.generation == oldest


def test_only_one_generation(site):
    site.build()
    with pytest.raises(FieldError, match="only one generation"):
        find_changes(site.index, "default", None, None)
    assert count_changes(site.index) == {}


def test_a_filter_hides_documents_on_both_sides(manual, live: LiveRetriever):
    edit(manual, 4, "43 MB", "44 MB")
    edit(manual, 5, "53 MB", "54 MB")
    manual.build()
    live.start()
    wait_for(lambda: live.ready)
    filter = Filter.parse({"url_prefix": (manual.source / "p5.md").as_uri()})
    assert [each.title for each in live.changes(None).documents] == ["Page 4", "Page 5"]
    assert [each.title for each in live.changes(None, filter=filter).documents] == ["Page 5"]


def test_compare_documents_on_the_command_line(manual, capsys, monkeypatch):
    edit(manual, 4, "43 MB", "44 MB")
    manual.build()
    assert main(["compare", "--documents", "--index", str(manual.index)]) == 0
    text = capsys.readouterr().out
    assert "Page 4: changed\n" in text
    assert "  rewritten: One 4\n  - The default of knob4 is 43 MB in all.\n  + The default of knob4 is 44" in text
    assert main(["compare", "--documents", "30d", "--json", "--index", str(manual.index)]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == {"documents": 1, "rewritten": 1}
    assert main(["compare", "--index", str(manual.index)]) == 2
    assert "compare needs A, B and --queries DIR; or --documents" in capsys.readouterr().err
