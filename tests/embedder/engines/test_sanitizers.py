"""The native encoder under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer, on random shapes."""

import functools

import numpy as np
import pytest

from embedder import cpu
from embedder.engines import library
from tests.embedder.engines.kernels import (
    MODULES,
    ODD_SIZES,
    PRECISIONS,
    compile_driver,
    drive,
    make_rows,
    runs,
    vectors_of,
    with_modules,
)

pytestmark = pytest.mark.thorough
MACHINE = library.architecture()
HERE = [isa for isa in cpu.detect().isas if isa in library.ISAS.get(MACHINE, {})]
# Two files hold the vector layers and tiles of all others: the richest here, and the poorest.
ISAS = sorted({HERE[0], HERE[-1]}) if HERE else []
LENGTHS = [0, 1, 2, 15, 16, 17, 32, 33, 63, 64]
MODELS = {"bert": {}, "mpnet": {}, "modernbert": {}, **ODD_SIZES}


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """Return a function that compiles the driver with a sanitizer, once, and returns its command."""

    @functools.cache
    def compiled(isa, sanitizer):
        flags = [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-O1", "-g1"]
        target = tmp_path_factory.mktemp("sanitized") / isa
        return [str(compile_driver(target, MACHINE, {isa: library.ISAS[MACHINE][isa]}, flags=flags))]

    return compiled


@pytest.mark.parametrize("isa", ISAS)
def test_no_byte_outside_its_tensor(make_model, driver, tmp_path, isa):
    command = driver(isa, "address,undefined")
    generator = np.random.default_rng(11)
    for name, sizes in MODELS.items():
        model = make_model("bert" if sizes else name, **sizes)
        lengths = [*LENGTHS, *generator.integers(0, 65, 4)]
        generator.shuffle(lengths)
        rows = make_rows(lengths)
        for precision in (p for p in PRECISIONS if runs(isa, p)):
            done = drive(command, isa, model, precision, rows, tmp_path, threads=int(generator.integers(1, 4)))
            assert done.returncode == 0, done.stderr.decode()[:2000]
    for name in MODULES:
        model = with_modules(make_model("bert"), name, tmp_path)
        done = drive(command, isa, model, "fp32", make_rows([1, 0, 40]), tmp_path)
        assert done.returncode == 0, done.stderr.decode()[:2000]


@pytest.mark.parametrize("isa", ISAS[:1])
@pytest.mark.parametrize(("row", "code"), [([5] * 65, 12), ([5, 64], 11), ([5, -1], 11)])
def test_what_the_weights_do_not_cover_is_refused(make_model, driver, tmp_path, isa, row, code):
    command = driver(isa, "address,undefined")
    model = make_model("mpnet")
    assert drive(command, isa, model, "fp32", [[5], row], tmp_path).returncode == code


@pytest.mark.parametrize("isa", ISAS[:1])
def test_no_race_between_threads_and_callers(make_model, driver, tmp_path, isa):
    command = driver(isa, "thread")
    model = make_model("bert")
    rows = make_rows([*range(1, 40), 64])
    done = drive(command, isa, model, "fp32", rows, tmp_path, threads=3, repeats=-4)
    vectors = vectors_of(done, rows, 64, 4)
    assert all(np.array_equal(one, vectors[0]) for one in vectors[1:])
