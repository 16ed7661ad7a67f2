import time
from pathlib import Path

import pytest

from rag.errors import SettingsError
from rag.insights.redaction import Redaction


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("why does bob.o'neil+x@mail.example.org bounce?", "why does [email] bounce?"),
        ("call +49 (30) 1234-5678 back", "call [number] back"),
        ("card 4111 1111 1111 1111", "card [number]"),
        ("account DE89 3704 0044 0532 0130 00", "account DE[number]"),
        ("who is 192.168.100.201", "who is [number]"),
        ("token ghp_16C7e42F292c6912E7710c838347Ae178B4a fails", "token [key] fails"),
        ("AKIAIOSFODNN7EXAMPLE", "[key]"),
        ("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.x", "[key].[key].x"),
        ("row 123e4567-e89b-12d3-a456-426614174000", "row [key]"),
        # none of these tells of anybody
        ("what changed on 2026-01-31 in version 10.2.13", "what changed on 2026-01-31 in version 10.2.13"),
        ("sentence-transformers-all-MiniLM-L6-v2", "sentence-transformers-all-MiniLM-L6-v2"),
        ("test_something_long_of_version_2", "test_something_long_of_version_2"),
        ("internationalisation @ work", "internationalisation @ work"),
        ("error 123456", "error 123456"),
    ],
)
def test_what_is_taken_out(query: str, kept: str) -> None:
    assert Redaction().redact(query) == kept


def test_the_operators_own_patterns(tmp_path: Path) -> None:
    path = tmp_path / "patterns.txt"
    path.write_text("# projects\n\n(?i)project \\w+\n", encoding="utf-8")
    assert Redaction.read(str(path)).redact("Who leads Project Falcon?") == "Who leads [redacted]?"
    path.write_text("fine\n(", encoding="utf-8")
    with pytest.raises(SettingsError, match="line 2"):
        Redaction.read(str(path))
    path.write_text("x*", encoding="utf-8")
    with pytest.raises(SettingsError, match="line 1: it matches an empty text"):
        Redaction.read(str(path))
    with pytest.raises(SettingsError, match="cannot read"):
        Redaction.read(str(tmp_path / "missing"))
    assert Redaction.read("").redact("project x") == "project x"


@pytest.mark.parametrize("part", ["a", "a.", "1", "1a", "a@", "-_", "1 ", "aA1=", "(1"])
def test_long_queries_take_time_in_proportion(part: str) -> None:
    """Counted in steps that time tells apart without doubt: a quadratic pattern would take minutes."""
    began = time.process_time()
    Redaction().redact("@1" + part * (200_000 // len(part)))
    assert time.process_time() - began < 20
