"""The arrays of a generation are read by several threads of one process at once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexer.generation.arrays import DTYPE, read_array


def test_two_threads_never_parse_a_head_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.npy"
    np.save(path, np.zeros(6, DTYPE))
    load = np.load
    inside = threading.Semaphore(1)

    def watched(*args: Any, **kwargs: Any) -> Any:
        assert inside.acquire(blocking=False), "another thread is parsing"
        try:
            threading.Event().wait(0.001)  # lets the other threads run
            return load(*args, **kwargs)
        finally:
            inside.release()

    monkeypatch.setattr(np, "load", watched)
    with ThreadPoolExecutor(8) as executor:
        assert [len(array) for array in executor.map(read_array, [path] * 40)] == [6] * 40
