import dataclasses
import json

import pytest

from embedder import package
from embedder.errors import CacheError, CompilerMissing, PackageError
from embedder.package import PackageKey, ensure, package_folder

KEY = PackageKey(model="m", engine="aot", fingerprint="f" * 64, precision="bf16", isa="avx2", torch="2.13.0", threads=2)


def fake_build(folder):
    (folder / "model.bin").write_bytes(b"code" * 100)


@pytest.fixture
def built(tmp_path):
    return ensure(tmp_path / "cache", KEY, fake_build) / "model.bin"


def test_built_once_and_found_again(tmp_path, built):
    def never(folder):
        raise AssertionError("built twice")

    assert ensure(tmp_path / "cache", KEY, never) == built.parent
    assert [p.name for p in built.parent.parent.iterdir()] == [KEY.folder_name]  # no leftovers
    assert built.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(PackageKey)])
def test_every_field_changes_the_place(tmp_path, field):
    value = getattr(KEY, field)
    other = dataclasses.replace(KEY, **{field: value + 1 if isinstance(value, int) else value + "x"})
    assert package_folder(tmp_path, other) != package_folder(tmp_path, KEY)


def test_a_package_of_another_machine_is_refused_by_name(built, tmp_path):
    record = built.parent / "package.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"isa": "amx"}))
    with pytest.raises(PackageError, match="built for isa 'amx', not 'avx2'"):
        ensure(tmp_path / "cache", KEY, fake_build)


@pytest.mark.parametrize("spoil", ["flip", "truncate", "empty", "record", "no record"])
def test_a_damaged_package_is_named(built, tmp_path, spoil):
    data = built.read_bytes()
    if spoil == "flip":
        built.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    elif spoil == "truncate":
        built.write_bytes(data[:50])
    elif spoil == "empty":
        built.write_bytes(b"")
    elif spoil == "record":
        (built.parent / "package.json").write_text("[]")
    else:
        (built.parent / "package.json").unlink()
    with pytest.raises(PackageError, match=r"model\.bin|package\.json"):
        ensure(tmp_path / "cache", KEY, fake_build)


def test_a_package_others_can_write_is_refused(built, tmp_path):
    built.chmod(0o666)
    with pytest.raises(CacheError, match="written by others"):
        ensure(tmp_path / "cache", KEY, fake_build)


def test_without_a_compiler_the_package_to_install_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(package, "find_compiler", lambda: None)
    with pytest.raises(CompilerMissing, match=r"apt-get install g\+\+"):
        ensure(tmp_path / "cache", KEY, fake_build)


def test_a_failed_build_leaves_nothing_behind(tmp_path):
    def full_disk(folder):
        (folder / "model.bin").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(PackageError, match="no space left to build"):
        ensure(tmp_path / "cache", KEY, full_disk)
    assert list((tmp_path / "cache" / "packages").iterdir()) == []
    assert ensure(tmp_path / "cache", KEY, fake_build).exists()
