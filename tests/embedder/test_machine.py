"""The processor and the process environment."""

import ctypes
import errno
import os
import subprocess
import sys

import pytest

from embedder import cpu
from embedder.errors import EmbedderError

AVX2 = "avx2 fma"
AVX512 = f"{AVX2} avx512f avx512bw avx512vl avx512dq"
VNNI = f"{AVX512} avx512_vnni"
BF16 = f"{VNNI} avx512_bf16"
AMX = f"{BF16} amx_tile amx_bf16 amx_int8"
POORER = ("avx512_vnni", "avx512", "avx2", "generic")


@pytest.mark.parametrize(
    ("machine", "features", "isa", "isas"),
    [
        ("x86_64", AMX, "amx", ("amx", "avx512_bf16", *POORER)),
        ("x86_64", AMX.replace("amx_int8", ""), "avx512_vnni", ("avx512_bf16", *POORER)),  # Intel, no permission
        ("x86_64", f"{BF16} sse4a", "avx512_bf16", ("avx512_bf16", *POORER)),  # AMD
        ("x86_64", f"{VNNI} f16c avx_vnni", "avx512_vnni", ("avx512_vnni", "avx512", "avx_vnni", "avx2", "generic")),
        ("x86_64", AVX512, "avx512", POORER[1:]),
        ("x86_64", AVX512.replace("avx512dq", ""), "avx2", ("avx2", "generic")),
        ("x86_64", VNNI.replace("fma", ""), "generic", ("generic",)),
        ("x86_64", f"{AVX2} f16c avx_vnni", "avx_vnni", ("avx_vnni", "avx2", "generic")),
        ("x86_64", AVX2, "avx2", ("avx2", "generic")),
        ("aarch64", "asimd asimddp bf16 i8mm sve", "neon_mmla", ("neon_mmla", "neon_dot", "neon", "generic")),
        ("aarch64", "asimd asimddp bf16", "neon_dot", ("neon_dot", "neon", "generic")),
        ("riscv64", "", "generic", ("generic",)),
    ],
)
def test_sets_of_features(machine, features, isa, isas):
    assert cpu.isas_of(machine, set(features.split())) == isas
    assert cpu.isa_of(machine, set(features.split())) == isa


class FakeLibc:
    """A C library whose processor has every feature, active in the leaves where `active` says so."""

    def __init__(self, active: int = 0xFFFFFFFF, refusal: int = 0) -> None:
        self.refusal = refusal
        self.calls: list[tuple[int, ...]] = []
        leaf = cpu._Leaf((0xFFFFFFFF,) * 4, (active,) * 4)
        setattr(self, "__x86_get_cpuid_feature_leaf", lambda index: ctypes.pointer(leaf))

    def syscall(self, *arguments: int) -> int:
        self.calls.append(arguments)
        ctypes.set_errno(self.refusal)
        return -1 if self.refusal else 0


def test_amx_needs_permission(monkeypatch):
    libc = FakeLibc()
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: libc)
    features, _, notes = cpu._read_x86()
    assert cpu.isa_of("x86_64", features) == "amx"
    assert notes == ()
    assert libc.calls == [(158, 0x1023, 18)]
    libc.refusal = errno.EPERM
    features, _, (note,) = cpu._read_x86()
    assert "amx" not in cpu.isas_of("x86_64", features)
    assert note == "AMX is not used: the kernel refused permission (Operation not permitted)"


@pytest.mark.parametrize("libc", [OSError("no libc.so.6"), object()])
def test_a_library_that_does_not_say(libc, monkeypatch):
    def load(*_, **__):
        if isinstance(libc, OSError):
            raise libc
        return libc

    monkeypatch.setattr(ctypes, "CDLL", load)
    features, _, (note,) = cpu._read_x86()
    assert features == frozenset()
    assert "the C library does not list them" in note


def test_arm_from_the_auxiliary_vector(monkeypatch):
    words = {16: 1 << 1 | 1 << 20 | 1 << 22, 26: 1 << 13 | 1 << 14}
    libc = type("Libc", (), {})()
    libc.getauxval = lambda entry: words[entry]
    libc.prctl = lambda name, *_: (1 << 17 | 32) if name == 51 else -1  # 32 bytes, inherited by children
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: libc)
    assert cpu._read_arm() == ({"asimd", "asimddp", "sve", "i8mm", "bf16"}, 256, ())
    words[16] = 1 << 1
    assert cpu._read_arm() == ({"asimd", "i8mm", "bf16"}, 0, ())


@pytest.mark.parametrize(
    ("own", "limits", "cores"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/a/b\n", {"cpu.max": "max 100000", "a/cpu.max": "200000 100000", "a/b/cpu.max": "400000 100000"}, 2),
        ("0::/of/the/host\n", {"cpu.max": "300000 100000"}, 3),
        ("0::/\n", {}, float("inf")),
        ("0::/\n", {"cpu.max": "max 100000"}, float("inf")),
    ],
)
def test_quota(own, limits, cores, tmp_path):
    (tmp_path / "own").write_text(own)
    for name, text in limits.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert cpu._quota(tmp_path / "mount", tmp_path / "own") == cores


def child(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in ("PILOTLIGHT_ISA", "LRU_CACHE_CAPACITY")}
    return subprocess.run([sys.executable, "-c", code], env=clean | variables, capture_output=True, text=True)


@pytest.mark.parametrize("name", ["sse9", "amx,avx2", "AVX2"])
def test_a_set_that_there_is_not(name):
    told = f"PILOTLIGHT_ISA={name}: this processor runs {', '.join(cpu.detect().isas)}; set one of them\n"
    done = child("from rag.commands.cli import main; raise SystemExit(main(['doctor']))", PILOTLIGHT_ISA=name)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"pilotlight: {told}")


@pytest.mark.parametrize(
    ("machine", "read", "features", "sve_bits", "forced", "isa", "torch_isa"),
    [
        ("x86_64", "_read_x86", AMX, 0, "avx2", "avx2", "amx"),
        ("x86_64", "_read_x86", AVX2, 0, "amx", None, None),
        ("aarch64", "_read_arm", "asimd asimddp bf16 i8mm sve", 256, "", "neon_mmla", "neon_mmla_sve256"),
        ("aarch64", "_read_arm", "asimd asimddp", 0, "generic", "generic", "neon_dot"),
    ],
)
def test_a_poorer_set_can_be_forced_on_our_kernels(
    monkeypatch, machine, read, features, sve_bits, forced, isa, torch_isa
):
    monkeypatch.setattr(cpu, read, lambda: (frozenset(features.split()), sve_bits, ()))
    monkeypatch.setattr(cpu.platform, "machine", lambda: machine)
    monkeypatch.setenv("PILOTLIGHT_ISA", forced)
    if isa is None:
        with pytest.raises(EmbedderError, match="this processor runs avx2, generic; set one of them"):
            cpu.detect.__wrapped__()
    else:
        found = cpu.detect.__wrapped__()
        assert (found.isa, found.torch_isa, found.has_bf16) == (isa, torch_isa, isa == "neon_mmla")
        assert found.has_int8 == (isa == "neon_mmla")


def test_what_torch_is_told_never_overrides_the_user():
    environ = {"DNNL_DEFAULT_FPMATH_MODE": "STRICT"}
    cpu.prepare_torch(environ, "aarch64")
    assert environ["DNNL_DEFAULT_FPMATH_MODE"] == "STRICT"
    assert (environ["THP_MEM_ALLOC_ENABLE"], environ["LRU_CACHE_CAPACITY"]) == ("1", "1024")
    assert "KMP_BLOCKTIME" not in environ


def test_importing_embedder_sets_the_environment_and_imports_no_torch():
    code = "import os, sys, embedder, embedder.config; print('torch' in sys.modules, os.environ['LRU_CACHE_CAPACITY'])"
    assert child(code).stdout.split() == ["False", "1024"]
