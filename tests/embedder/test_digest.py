import hashlib
import os

import pytest

from embedder import digest


@pytest.mark.parametrize("content", [b"", b"weights", bytes(range(256)) * 3])
def test_it_is_the_sha256_of_what_the_file_has(tmp_path, monkeypatch, content):
    monkeypatch.setattr(digest, "_AT_ONCE", 100)  # several reads
    path = tmp_path / "file"
    path.write_bytes(content)
    assert digest.file_sha256(path) == hashlib.sha256(content).digest()


def test_a_file_that_changes_is_read_again_even_if_its_time_is_put_back(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"one")
    before, times = digest.file_sha256(path), path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert digest.file_sha256(path) != before


def test_an_unchanged_file_is_read_once(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"one")
    before = digest.file_sha256(path)
    monkeypatch.setattr(type(path), "open", None)
    assert digest.file_sha256(path) == before
