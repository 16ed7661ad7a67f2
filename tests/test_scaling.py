"""The sizing model: that its page says what it computes, and that it gives back what was measured."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def scaling():
    spec = importlib.util.spec_from_file_location("scaling", ROOT / "scripts" / "scaling.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_tables_of_the_model(scaling):
    written = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    assert written == scaling.page(), "docs/scaling.md is out of date: run scripts/scaling.py --write"
    assert all("NaN" not in cell and "inf" not in cell for table in scaling.SECTIONS.values() for cell in str(table()))


def test_every_input_says_where_it_is_from(scaling):
    benchmarks = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    for one in scaling.INPUTS.values():
        assert one.source.partition(":")[0] in {"benchmarks", "operations", "estimate", "measured"}
    for figure in (
        "41241 tokens",
        "1129",
        "2043",
        "read 320 and 106 pages a second on the faster machine",
        "11,531 passages",
        "takes 140 s",
        "gave 498 and 84 ms",
    ):
        assert figure in benchmarks


@pytest.mark.parametrize(
    ("name", "passages", "measured"),
    [("DENSE", 10_000, 0.073), ("DENSE", 100_000, 0.22), ("DENSE", 1_000_000, 0.76), ("LEXICAL", 1_000_000, 1.61)],
)
def test_search_goes_through_what_was_measured(scaling, name, passages, measured):
    assert scaling.at(getattr(scaling, name), passages) == pytest.approx(measured)


def test_it_gives_back_what_was_measured_as_a_whole(scaling):
    assert 2 * 1000 / scaling.query_ms(11_531) == pytest.approx(498, rel=0.01)
    hours, stage = scaling.build_hours(11_531, 2)
    assert (hours * 3600, stage) == (pytest.approx(57.5, rel=0.1), "embedding")
    assert scaling.memory_gb(100_000, 2) == pytest.approx(0.38, rel=0.02)  # the sizing rule of docs/deployment.md


def test_more_is_never_less(scaling):
    for grows in (scaling.query_ms, lambda passages: scaling.build_hours(passages, 16)[0]):
        values = [grows(passages) for passages in (10_000, 100_000, *scaling.SIZES)]
        assert values == sorted(values)
    hours = [scaling.build_hours(10**9, cores)[0] for cores in scaling.CORES]
    assert hours == sorted(hours, reverse=True)
    assert scaling.build_hours(10**9, 1024)[1] == "writing"


def test_waiting_is_that_of_a_single_queue(scaling):
    # one server with a fixed time: the mean wait is known, load / (2 (1 - load)) of it; the tail must lie above
    assert scaling.p99(1, 0.5, 1.0) > 1.0 + 0.5
    assert scaling.p99(64, 0.3, 1.0) == pytest.approx(1.0, abs=0.01)
    assert scaling.p99(4, 0.9, 2.0) == pytest.approx(2 * scaling.p99(4, 0.9, 1.0))
