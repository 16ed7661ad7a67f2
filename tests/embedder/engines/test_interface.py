"""Python's side of the library's interface says what the header says; a library with another interface is refused."""

import ctypes
import re
import subprocess

import pytest

from embedder.engines import interface
from embedder.engines.library import LIBRARY, PANEL, SOURCES, architecture
from embedder.errors import PackageError

HEADER = (SOURCES / "interface.h").read_text()


def words(text):
    """Split `kUnknownToken` and `UNKNOWN_TOKEN` alike."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", text.removeprefix("k")).lower()


@pytest.mark.parametrize(
    "enum", [interface.Precision, interface.Pooling, interface.Action, interface.Activation, interface.Refusal]
)
def test_enums_are_those_of_the_header(enum):
    named = re.search(rf"enum class {enum.__name__} : int32_t {{ (.*) }}", HEADER)[1].split(", ")
    assert [words(member.name) for member in enum] == [words(name) for name in named]


@pytest.mark.parametrize(("name", "struct"), [("pl_shape", interface.CShape), ("pl_step", interface.CStep)])
def test_structs_are_those_of_the_header(name, struct):
    body = re.sub("//.*", "", re.search(rf"struct {name} {{(.*?)\n}}", HEADER, re.DOTALL)[1])
    fields = [name for line in body.split(";") for name in re.findall(r"\b\w+(?=,|$)", line)]
    assert [name for name, _ in struct._fields_] == fields


def test_a_library_of_these_sources_is_loaded(compiled):
    assert interface.load(compiled).pl_create(b"none", None, None, 0, None, 1) is None


class Longer(interface.CShape):
    _fields_ = (("dropout", ctypes.c_float),)


@pytest.mark.parametrize(
    ("name", "value"),
    [("ABI_VERSION", 0), ("CShape", Longer), ("PANEL", 2 * PANEL), ("INTERLEAVE", {architecture(): {"fp32": 2}})],
)
def test_another_interface_is_told(compiled, monkeypatch, name, value):
    monkeypatch.setattr(interface, name, value)
    with pytest.raises(PackageError, match=r"has a library with another interface .*: remove it to build it again"):
        interface.load(compiled)


def test_no_interface_is_told(tmp_path):
    source, target = tmp_path / "empty.cpp", tmp_path / LIBRARY
    source.write_text("int nothing;")
    subprocess.run(["g++", "-shared", "-fPIC", str(source), "-o", str(target)], check=True)
    with pytest.raises(PackageError, match=rf"{tmp_path} has a library .* \(none, not \["):
        interface.load(target)


@pytest.mark.skipif(architecture() != "x86_64", reason="AVX-512's intrinsics are x86-64's")
def test_the_expanded_example_is_what_the_macros_expand_to():
    header = SOURCES / "tile_avx512.h"
    line = ["g++", "-E", "-P", "-mavx512f", "-x", "c++", "-"]
    program = f'#include "{header}"\nEXAMPLE PL_TILE(2, PL_STEP_FP32)'
    done = subprocess.run(line, input=program, capture_output=True, text=True, check=True).stdout
    expanded = "".join(re.findall(r'"(.*?)"', done.partition("EXAMPLE")[2].partition(": [a]")[0]))
    shown = header.read_text().partition("PL_TILE(2, PL_STEP_FP32), two")[2].partition(": [a]")[0]
    assert re.findall(r'^//\s+"([^"]*)"', shown, re.MULTILINE) == [one for one in expanded.split(r"\n\t") if one]
