from pathlib import Path

from tests.indexer.pipeline.incremental import Work


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
