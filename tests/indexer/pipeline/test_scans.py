"""What a build says of scans, and that they are read anew once they can be."""

from pathlib import Path

import pytest

from indexer.config import OcrConfig
from indexer.generation.previous import PreviousGeneration
from indexer.pipeline import build as build_module
from indexer.publish.source_settings import config_of
from indexer.read.ocr.pages import EXTRA, Ocr, find
from tests.indexer.pipeline.incremental import Work
from tests.indexer.read.ocr.drawn import encoded, picture, scanned

FOUND = find(OcrConfig())
MISSING = Ocr(OcrConfig(), obstacle=f"OCR needs {EXTRA}")


@pytest.fixture
def scans(docs: Path) -> Path:
    (docs / "one.pdf").write_bytes(scanned(picture("The scanned page about cranes."), picture("And one about geese.")))
    (docs / "two.png").write_bytes(encoded(picture("A picture of a heron.")))
    return docs


@pytest.mark.skipif(bool(FOUND.obstacle), reason=FOUND.obstacle)
def test_scans_are_read_anew_once_they_can_be(work: Work, scans: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_module, "find", lambda config: MISSING)
    work.build(scans)
    monkeypatch.undo()
    report = work.build(scans)
    assert "ocr off -> on" in "".join(work.said)
    assert sorted(report.new.examples) == [(scans / "one.pdf").as_uri(), (scans / "two.png").as_uri()]
    assert (report.ocr.pages, report.ocr.left_out, report.unchanged) == (3, 0, 3)
    assert "OCR          3 pages read; 0 of 3 lines left out" in report.table()
    earlier = PreviousGeneration.open(work.index)
    number, _ = earlier.document((scans / "one.pdf").as_uri())
    document, chunks, _ = earlier.read(number)
    [chunk] = chunks  # short sections are joined
    assert chunk.url == f"{(scans / 'one.pdf').as_uri()}#page=1"
    assert chunk.text == "Page 1\n\nThe scanned page about cranes.\n\nPage 2\n\nAnd one about geese."
    assert int(document.metadata["ocr_confidence"][0]) > 80
    assert earlier.manifest is not None
    assert config_of(earlier.manifest).ocr == OcrConfig()
    earlier.close()
    again = work.build(scans)
    assert (again.published, again.unchanged) == (False, 5)
