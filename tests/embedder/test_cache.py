import os

import pytest

from embedder.cache import check_private, default_folder, open_private
from embedder.errors import CacheError


def test_the_folder_is_made_private(tmp_path):
    assert open_private(tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_follows_xdg(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "pilotlight"


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


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CacheError, match="cannot be used"):
        open_private(tmp_path / "file" / "cache")
