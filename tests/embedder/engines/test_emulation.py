"""Instruction sets that this processor does not have: the same sources, models and lengths as in test_native.py.

AMX runs on a software model of its tile instructions, AVX-VNNI on the same instruction in AVX-512's encoding, Arm's in
qemu. What cannot be run here is skipped by name.
"""

import numpy as np
import pytest

from embedder import cpu
from embedder.engines import library
from tests.embedder.engines.kernels import (
    KINDS,
    LONGEST,
    MODULES,
    ODD_MODERN,
    ODD_SIZES,
    PRECISIONS,
    compile_driver,
    cosines,
    drive,
    find,
    make_rows,
    reference,
    runs,
    vectors_of,
    with_modules,
)

pytestmark = pytest.mark.thorough
_WIDE = "-mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mavx512vnni"
_X86 = {"amx": ("avx512_bf16", f"{_WIDE} -mavx512bf16 -DPL_AMX_MODEL"), "avx_vnni": ("avx512_vnni", _WIDE)}
_ARM = list(library.ISAS["aarch64"])
LENGTHS = [1, 2, 3, 14, 15, 16, 17, 31, 32, 33, LONGEST]
MODELS = {kind: (kind, {}, LENGTHS) for kind in ("bert", "mpnet", "modernbert")}
MODELS |= {name: ("bert", sizes, [1, 5, 33]) for name, sizes in ODD_SIZES.items()}
MODELS["odd modernbert"] = ("modernbert", ODD_MODERN, [1, 5, 33, 64])
here = cpu.detect()  # what is here is run for real in test_native.py
BOTH = [(isa, p) for isa in (*_X86, *_ARM) if isa not in here.isas for p in PRECISIONS if runs(isa, p)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("emulated")


@pytest.fixture(scope="module")
def drivers(folder):
    """Commands that run the driver on an instruction set, compiled once for each architecture."""
    made = {}

    def command(isa):
        if isa in _ARM:
            compiler, emulator = find("aarch64-linux-gnu-g++"), find("qemu-aarch64", "qemu-aarch64-static")
            if not compiler or not emulator:
                pytest.skip(f"{isa} was not run: apt-get install g++-aarch64-linux-gnu qemu-user-static")
            if "arm" not in made:
                made["arm"] = compile_driver(
                    folder / "arm", "aarch64", library.ISAS["aarch64"], compiler=compiler, flags=["-static"]
                )
            return [emulator, "-cpu", "max", str(made["arm"])], "aarch64"
        needs, flags = _X86[isa]
        if needs not in here.isas:
            pytest.skip(
                f"{isa} was not run: its emulation needs {needs}, and this processor runs {', '.join(here.isas)}"
            )
        if isa not in made:
            made[isa] = compile_driver(folder / isa, "x86_64", {isa: flags})
        return [str(made[isa])], "x86_64"

    return command


def agree(drivers, folder, isa, precision, model, lengths):
    command, machine = drivers(isa)
    rows = make_rows(lengths)
    expected = reference(model, rows)
    done = drive(command, isa, model, precision, rows, folder, machine=machine)
    together = vectors_of(done, rows, expected.shape[1])[0]
    assert cosines(together, expected).min() > PRECISIONS[precision]
    last = [rows[-1]]
    done = drive(command, isa, model, precision, last, folder, machine=machine)
    alone = vectors_of(done, last, expected.shape[1])
    assert np.array_equal(alone[0, 0], together[-1])  # whatever batch it is in


@pytest.mark.parametrize(("isa", "precision"), BOTH)
@pytest.mark.parametrize("name", MODELS)
def test_every_length_and_odd_sizes(make_model, drivers, folder, name, isa, precision):
    kind, sizes, lengths = MODELS[name]
    agree(drivers, folder, isa, precision, make_model(kind, **sizes), lengths)


@pytest.mark.parametrize("isa", [isa for isa in ("amx", "neon_mmla", "neon") if isa not in here.isas])
@pytest.mark.parametrize("name", MODULES)
def test_what_follows_the_encoder(make_model, drivers, folder, tmp_path, name, isa):
    model = with_modules(make_model("bert"), name, tmp_path)
    agree(drivers, tmp_path, isa, "fp32", model, [1, 5, 33, 64])


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"bert", "mpnet", "modernbert"}))
def test_every_architecture(make_model, drivers, folder, kind):
    agree(drivers, folder, "neon_mmla", "bf16", make_model(kind), [3, 40])
