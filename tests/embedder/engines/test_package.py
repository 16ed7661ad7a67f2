"""Packages in their private folder: found, built, verified, refused."""

import dataclasses
import json
import os
import subprocess
import time

import pytest

from embedder.engines import package
from embedder.engines.package import check_private, ensure, open_private
from embedder.engines.plan import PackageKey
from embedder.errors import CacheError, PackageError

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


def test_a_package_that_others_can_write_to_is_refused(built, tmp_path):
    built.chmod(0o666)
    with pytest.raises(CacheError, match="written by others"):
        ensure(tmp_path / "cache", KEY, fake_build)


def test_packages_used_longest_ago_are_removed(tmp_path, monkeypatch):
    keys = [dataclasses.replace(KEY, threads=threads) for threads in range(1, 6)]
    for age, key in zip((50, 10, 40, 30), keys, strict=False):
        os.utime(ensure(tmp_path, key, fake_build), (time.time() - 1000 * age,) * 2)
    first = ensure(tmp_path, keys[0], fake_build)  # used again
    monkeypatch.setattr(package, "MAX_CACHE_BYTES", 3 * sum(path.stat().st_size for path in first.iterdir()) + 10)
    ensure(tmp_path, keys[4], fake_build)
    left = {path.name for path in (tmp_path / "packages").iterdir()}
    assert left == {keys[i].folder_name for i in (0, 1, 4)}


def test_files_that_nothing_vouches_for_are_not_loaded(built, tmp_path):
    (built.parent / "extra.so").write_bytes(b"code")
    with pytest.raises(PackageError, match=r"extra\.so is not in package\.json"):
        ensure(tmp_path / "cache", KEY, fake_build)


def test_what_a_killed_build_left_is_removed(built, tmp_path):
    left = built.parent.parent / ".building-killed"
    left.mkdir()
    (left / "half").write_bytes(b"half")
    ensure(tmp_path / "cache", dataclasses.replace(KEY, threads=3), fake_build)
    assert not left.exists()


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_leaves_the_package_before_it_usable(small_disk):
    before = ensure(small_disk / "cache", KEY, fake_build)

    def build(folder):
        (folder / "model.bin").write_bytes(bytes(1 << 20))

    with pytest.raises(PackageError, match=r"\(.*No space left on device.*\): free space or memory, set cache_dir"):
        ensure(small_disk / "cache", dataclasses.replace(KEY, threads=3), build)
    assert [path.name for path in before.parent.iterdir()] == [before.name]
    assert ensure(small_disk / "cache", KEY, build) == before


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_writable_by_others_is_refused(tmp_path, mode):
    tmp_path.chmod(mode)
    with pytest.raises(CacheError, match="written by others"):
        open_private(tmp_path)


def test_foreign_owner_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(CacheError, match="owned by user"):
        check_private(tmp_path)


def test_a_link_is_refused(tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(CacheError, match="symbolic link"):
        open_private(tmp_path / "link")
