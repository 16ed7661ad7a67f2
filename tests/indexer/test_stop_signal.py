"""Signals at moments at which Python swallows exceptions."""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

import pytest

from indexer import stop_signal
from indexer.stop_signal import Stopped, raise_at

WAIT = 20.0  # seconds


def stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


class StoppedAsItEnds:
    def __del__(self) -> None:
        stop()


def in_a_destructor() -> None:
    StoppedAsItEnds()


def in_a_callback() -> None:
    ctypes.CFUNCTYPE(None)(stop)()


@pytest.mark.parametrize("lose", [in_a_destructor, in_a_callback])
def test_a_signal_that_is_lost_is_raised_again(lose: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: lost.append(unraisable.exc_type))
    monkeypatch.setattr(stop_signal, "REPEAT_SECONDS", 0.05)
    earlier = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGALRM)
    with pytest.raises(Stopped):
        wait_after(lose)
    assert lost == [Stopped]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGALRM)) == earlier
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@raise_at(signal.SIGTERM)
def wait_after(lose: Callable[[], None]) -> None:
    lose()
    threading.Event().wait(WAIT)


def test_no_repetition_interrupts_what_unwinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_signal, "REPEAT_SECONDS", 0.001)
    unwound: list[bool] = []
    with pytest.raises(Stopped):
        unwind(unwound)
    assert unwound == [True]


@raise_at(signal.SIGTERM)
def unwind(unwound: list[bool]) -> None:
    try:
        stop()
    finally:
        stop()
        end = time.monotonic() + 0.05  # fifty repetitions
        while time.monotonic() < end:
            pass
        unwound.append(True)
