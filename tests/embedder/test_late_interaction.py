"""MaxSim over signs: the definition, and the kernel against it at every edge."""

import numpy as np
import pytest

from embedder import cpu
from embedder.engines import library
from embedder.engines.native import NativeEngine
from embedder.late_interaction import check_passages, first_occurrences, maxsim, to_signs, unit

KERNELS = cpu.detect().isa in library.ISAS.get(library.architecture(), {})


@pytest.fixture(scope="module")
def engine(compiled):
    """An engine of which only the kernel is there."""
    if not KERNELS:
        pytest.skip("there are no native kernels for this processor")
    made = NativeEngine.__new__(NativeEngine)
    made._maxsim = library.load_library(compiled).pl_maxsim
    return made


def passages(width, counts, seed=5):
    states = np.random.default_rng(seed).standard_normal((sum(counts), width)).astype(np.float32)
    counts = np.array(counts, dtype=np.int32)
    return states, to_signs(states), (np.cumsum(counts) - counts).astype(np.int64), counts


def test_signs_have_the_first_dimension_in_the_lowest_bit():
    states = np.array([[1, -1, 0, -0.0, -2, 3, -1, -1, 1e-9, *[-1] * 7]], dtype=np.float32)
    assert to_signs(states).tolist() == [[0b00100001, 1]]


@pytest.mark.parametrize("width", [8, 24, 64, 128, 200, 384, 1024, 4096, 4104])
def test_the_kernel_scores_as_defined(engine, width):
    counts = [0, 1, 31, 32, 33, 70, 16, 5, 64]
    _, signs, starts, counts = passages(width, counts)
    for tokens in (0, 1, 2, 3, 4, 7):
        query = np.random.default_rng(tokens).standard_normal((tokens, width)).astype(np.float32)
        query[:, width // 2] *= 8  # some models have dimensions that are far larger than all others
        query[1:2] = 0
        order = np.random.default_rng(2).permutation(len(counts))
        places = (unit(query), signs, starts[order].copy(), counts[order].copy())
        assert engine.maxsim(*places) == pytest.approx(maxsim(*places), abs=0.03 if width < 64 else 0.01)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"signs": np.zeros((3, 3), np.uint8)}, "shape"),
        ({"starts": np.array([2], np.int64)}, "outside the 3"),
        ({"starts": np.array([-1], np.int64)}, "outside the 3"),
        ({"counts": np.array([-1], np.int32)}, "outside the 3"),
        ({"counts": np.array([1, 1], np.int32)}, "of equal length"),
        ({"starts": np.array([0], np.int32)}, "int64"),
        ({"signs": np.zeros((3, 4), np.uint8)[:, ::2]}, "shape"),
    ],
)
def test_what_a_kernel_would_read_outside_is_refused(engine, change, said):
    given = {
        "signs": np.zeros((3, 2), np.uint8),
        "starts": np.array([0], np.int64),
        "counts": np.array([2], np.int32),
    } | change
    for check in (check_passages, maxsim, engine.maxsim):
        with pytest.raises(ValueError, match=said):
            check(np.ones((1, 16), np.float32), **given)


def test_a_passage_keeps_each_token_once():
    assert first_occurrences(np.array([0, 3, 2, 3, 1, 0], np.int32)).tolist() == [0, 1, 2, 4]
    assert first_occurrences(np.array([], np.int32)).tolist() == []
