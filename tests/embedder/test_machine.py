"""The processor and the process environment."""

import os
import subprocess
import sys

import pytest

from embedder import cpu, environment


@pytest.mark.parametrize(
    ("machine", "flags", "isa"),
    [
        ("x86_64", "avx512f avx512bw avx512vl avx512_vnni avx512_bf16 amx_tile amx_bf16", "amx"),
        ("x86_64", "avx512f avx512bw avx512vl avx512_vnni avx512_bf16", "avx512_bf16"),
        ("x86_64", "avx2 fma", "avx2"),
        ("x86_64", "sse2", "generic"),
        ("aarch64", "asimd sve bf16", "sve_bf16"),
        ("aarch64", "asimd", "neon"),
    ],
)
def test_isa(machine, flags, isa):
    assert cpu.isa_of(machine, set(flags.split())) == isa


def test_this_machine():
    found = cpu.detect()
    assert 1 <= found.cores <= (os.cpu_count() or 1)
    assert found.name


def test_the_user_is_never_overridden():
    environ = {"DNNL_DEFAULT_FPMATH_MODE": "STRICT"}
    environment.apply(environ, "aarch64")
    assert environ["DNNL_DEFAULT_FPMATH_MODE"] == "STRICT"
    assert environ["THP_MEM_ALLOC_ENABLE"] == "1"


def test_importing_embedder_sets_the_environment_and_imports_no_torch():
    code = "import os, sys, embedder, embedder.config; print('torch' in sys.modules, os.environ['LRU_CACHE_CAPACITY'])"
    clean = {name: value for name, value in os.environ.items() if name != "LRU_CACHE_CAPACITY"}
    done = subprocess.run([sys.executable, "-c", code], env=clean, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "1024"]
