"""Word of a long step: one line that is rewritten on a terminal, a line a step elsewhere, nothing if quiet."""

import io
import threading

import pytest

from rag.clock import StepTimer


class Terminal(io.StringIO):
    """A stream that says it is a terminal, and when something has been written to it often enough."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.busy = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.writes += 1
        if self.writes >= 4:
            self.busy.set()
        return super().write(text)


def test_lines() -> None:
    stream = io.StringIO()
    with StepTimer(stream, "compiling m") as timer:
        timer.step("one")
        timer.step("two")
    assert stream.getvalue() == "compiling m: one, 0 s\ncompiling m: two, 0 s\n"


def test_a_terminal_keeps_counting_and_is_left_clean() -> None:
    stream = Terminal()
    with StepTimer(stream, "compiling m") as timer:
        timer.step("one")
        assert stream.busy.wait(10)  # the clock writes by itself
    lines = stream.getvalue().split("\r\x1b[K")
    assert lines[1].endswith(" compiling m: one, 0 s")
    assert lines[-1] == ""
    assert "\n" not in stream.getvalue()


def test_quiet() -> None:
    stream = Terminal()
    with StepTimer(stream, "compiling m", quiet=True) as timer:
        timer.step("one")
    assert stream.getvalue() == ""


def test_the_clock_stops_when_the_step_fails() -> None:
    before = threading.active_count()
    with pytest.raises(RuntimeError), StepTimer(io.StringIO(), "compiling m"):
        raise RuntimeError
    assert threading.active_count() == before
