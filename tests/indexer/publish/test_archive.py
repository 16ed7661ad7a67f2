"""Archives: what goes in comes out, and nothing else ever does."""

import io
import tarfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from indexer.errors import ArchiveError, IndexCorrupt
from indexer.generation.manifest import current_id, read_manifest
from indexer.publish.archive import export_archive, export_documents, import_archive
from indexer.publish.publish import generation_ids, list_collections, problems_of, verify
from tests.building import build_index

Members = list[tuple[tarfile.TarInfo, bytes]]


def rebuild(index: Path, docs: Path) -> str:
    return build_index(index, docs, full=True).generation


@pytest.fixture
def index(tmp_path: Path, docs: Path) -> Path:
    rebuild(tmp_path / "index", docs)
    return tmp_path / "index"


@pytest.fixture
def archive(index: Path, tmp_path: Path) -> Path:
    export_archive(index, tmp_path / "backup.tar")
    return tmp_path / "backup.tar"


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def live(index: Path) -> Path:
    return index / "generations" / current_id(index)


def test_there_and_back(index: Path, tmp_path: Path) -> None:
    exported = export_archive(index, tmp_path / "backup.tar")
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.endswith(".part")] == []
    imported = import_archive(tmp_path / "other", tmp_path / "backup.tar", keep_generations=2)
    assert imported == exported == read_manifest(live(tmp_path / "other"))
    assert snapshot(live(tmp_path / "other")) == snapshot(live(index))
    assert problems_of(verify(live(tmp_path / "other"))) == []
    assert list((tmp_path / "other" / "building").iterdir()) == []
    import_archive(tmp_path / "other", tmp_path / "backup.tar", collection="manuals", keep_generations=2)
    assert list(list_collections(tmp_path / "other")) == ["default", "manuals"]
    with pytest.raises(ArchiveError, match=r"cannot read .*none\.tar: No such file"):
        import_archive(tmp_path / "index", tmp_path / "none.tar", keep_generations=2)
    with pytest.raises(ArchiveError, match=r"cannot write .*: No such file"):
        export_archive(index, tmp_path / "no" / "a.tar")


def test_a_backup_takes_the_index_back(index: Path, archive: Path, docs: Path) -> None:
    old = current_id(index)
    for _ in range(3):
        newest = rebuild(index, docs)
    assert old not in generation_ids(index)
    import_archive(index, archive, keep_generations=2)
    assert current_id(index) == old
    assert newest in generation_ids(index)
    last = rebuild(index, docs)
    assert generation_ids(index) == [last, old]
    assert export_archive(index, archive, old).id == old
    assert import_archive(index, archive, keep_generations=1).id == old
    assert generation_ids(index) == [old]


@pytest.mark.parametrize("room", [0, -1])
def test_a_manifest_has_a_largest_size(
    index: Path, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    size = (live(index) / "manifest.json").stat().st_size
    monkeypatch.setattr("indexer.publish.archive.MAX_MANIFEST_BYTES", size + room)
    with pytest.raises(ArchiveError, match="does not begin with the manifest") if room else nullcontext():
        import_archive(tmp_path / "other", archive, keep_generations=2)


def test_the_documents_are_a_line_of_text_each(index: Path, tmp_path: Path) -> None:
    (tmp_path / "docs" / "more.txt").write_text("Möwen", encoding="utf-8")
    old = current_id(index)
    new = rebuild(index, tmp_path / "docs")
    for name, count in ((old, 3), (new, 4)):
        assert export_documents(index, tmp_path / "a.jsonl", name) == read_manifest(index / "generations" / name)
        lines = (tmp_path / "a.jsonl").read_text("utf-8").splitlines()
        assert (len(lines), "Möwen" in "".join(lines)) == (count, count == 4)


@pytest.mark.parametrize("name", ["manifest.json", "vectors.faiss", "documents.sqlite"])
def test_what_is_there_already_is_repaired(index: Path, archive: Path, name: str) -> None:
    before = snapshot(live(index))
    (live(index) / name).write_bytes(b"damaged")
    import_archive(index, archive, keep_generations=2)
    assert snapshot(live(index)) == before


def test_cut_short_anywhere(index: Path, archive: Path, tmp_path: Path) -> None:
    content, before = archive.read_bytes(), snapshot(index)
    whole = len(content.rstrip(b"\0"))  # what follows only fills up a record
    ends = {*range(0, whole, max(1, whole // 60)), whole - 1, 1, 511, 512, 513}
    for end in ends:
        archive.write_bytes(content[:end])
        with pytest.raises(ArchiveError, match=r"backup\.tar"):
            import_archive(index, archive, keep_generations=2)
        with pytest.raises(ArchiveError, match=r"backup\.tar"):
            import_archive(tmp_path / "new", archive, keep_generations=2)
    assert snapshot(index) == before
    assert list_collections(tmp_path / "new") == {}


def test_changed_anywhere(archive: Path, tmp_path: Path) -> None:
    content = archive.read_bytes()
    import_archive(tmp_path / "whole", archive, keep_generations=2)
    whole = snapshot(live(tmp_path / "whole"))
    for number, place in enumerate(range(0, len(content), max(1, len(content) // 80))):
        damaged = bytearray(content)
        damaged[place] ^= 0x41
        archive.write_bytes(damaged)
        target = tmp_path / f"target-{number}"
        try:
            import_archive(target, archive, keep_generations=2)
        except ArchiveError:
            assert list_collections(target) == {}
        else:  # a byte that only fills up a block
            assert snapshot(live(target)) == whole


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x1f\x8b garbage", bytes(2048), bytes(range(256)) * 8])
def test_garbage_makes_no_index(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.tar").write_bytes(content)
    with pytest.raises(ArchiveError, match=r"a\.tar"):
        import_archive(tmp_path / "index", tmp_path / "a.tar", keep_generations=2)
    assert not (tmp_path / "index").exists()


def members_of(archive: Path) -> Members:
    with tarfile.open(archive) as tar:
        return [(info, tar.extractfile(info).read()) for info in tar.getmembers()]  # type: ignore[union-attr]


def pack(archive: Path, members: Members, kind: int = tarfile.GNU_FORMAT) -> None:
    with tarfile.open(archive, "w", format=kind) as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content) if info.isreg() else None)


def a_member(name: str, content: bytes = b"x", kind: bytes = tarfile.REGTYPE, target: str = "") -> Members:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    info.size = len(content) if kind == tarfile.REGTYPE else 0
    return [(info, content)]


def renamed(members: Members, number: int, name: str) -> Members:
    members[number][0].name = name
    return members


def resized(members: Members, change: int) -> Members:
    info, content = members[-1]
    content = content + b"x" if change > 0 else content[:-1]
    info.size = len(content)
    return [*members[:-1], (info, content)]


HOSTILE: dict[str, tuple[Callable[[Members, str], Members], str]] = {
    "climbing out": (lambda m, top: m + a_member(f"{top}/../../evil"), "unknown or repeated"),
    "climbing out by a name": (lambda m, top: renamed(m, -1, f"{top}/lexical/../../../evil"), "unknown or repeated"),
    "absolute": (lambda m, top: m + a_member("/evil"), "unknown or repeated"),
    "without its folder": (lambda m, top: renamed(m, -1, m[-1][0].name.partition("/")[2]), "unknown or repeated"),
    "of another folder": (lambda m, top: renamed(m, -1, f"x/{m[-1][0].name.partition('/')[2]}"), "unknown or repeated"),
    "one more": (lambda m, top: m + a_member(f"{top}/extra"), "unknown or repeated"),
    "one more that is empty": (lambda m, top: m + a_member(f"{top}/extra", b""), "unknown or repeated"),
    "the manifest again": (lambda m, top: [*m, m[0]], "unknown or repeated"),
    "twice": (lambda m, top: [*m, m[-1]], "unknown or repeated"),
    "missing": (lambda m, top: m[:-1], "lacks"),
    "only the manifest": (lambda m, top: m[:1], r"lacks [^,]+/documents[^,]*, [^,]+, [^,]+; export it again"),
    "longer": (lambda m, top: resized(m, 1), "bytes instead of"),
    "shorter": (lambda m, top: resized(m, -1), "bytes instead of"),
    "folder": (lambda m, top: m + a_member(f"{top}/lexical", kind=tarfile.DIRTYPE), "not an ordinary file"),
    "symbolic link": (lambda m, top: a_member(f"{top}/x", kind=tarfile.SYMTYPE, target="/etc") + m, "ordinary file"),
    "link first": (lambda m, top: m[:1] + a_member(f"{top}/lexical", b"", tarfile.SYMTYPE, "/tmp") + m[1:], "ordinary"),
    "hard link": (lambda m, top: m + a_member(f"{top}/y", b"", tarfile.LNKTYPE, f"{top}/manifest.json"), "ordinary"),
    "pipe": (lambda m, top: m + a_member(f"{top}/pipe", b"", tarfile.FIFOTYPE), "ordinary file"),
    "long name": (lambda m, top: m + a_member(f"{top}/{'x' * 300}"), "not an ordinary file"),
    "manifest not first": (lambda m, top: m[::-1], "does not begin with the manifest"),
    "not a generation": (lambda m, top: renamed(m, 0, "evil/manifest.json"), "does not begin with the manifest"),
    "manifest of another": (
        lambda m, top: renamed(m, 0, "20260101T000000-000000/manifest.json"),
        r"be used: [^;]+ belongs to [^;]+\Z",
    ),
    "empty": (lambda m, top: [], "does not begin with the manifest"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_members(index: Path, archive: Path, tmp_path: Path, what: str) -> None:
    change, told = HOSTILE[what]
    pack(archive, change(members_of(archive), current_id(index)))
    target = tmp_path / "in" / "target"
    before = set(tmp_path.rglob("*"))
    with pytest.raises(ArchiveError, match=told):
        import_archive(target, archive, keep_generations=2)
    added = {path for path in set(tmp_path.rglob("*")) - before if path.is_file()}
    assert added <= {target / "lock"}


@pytest.mark.parametrize("crawl", [None, [], {"own": "x"}, {"own": {"a": 1}}])
def test_settings_of_another_form(index: Path, archive: Path, tmp_path: Path, crawl: object) -> None:
    manifest = replace(read_manifest(live(index)), settings={"crawl": crawl}).to_bytes()
    members = members_of(archive)
    members[0][0].size = len(manifest)
    pack(archive, [(members[0][0], manifest), *members[1:]])
    with pytest.raises(ArchiveError, match="its manifest cannot be used"):
        import_archive(tmp_path / "other", archive, keep_generations=2)


def test_a_panic_while_opening(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def panic(*_: object) -> None:
        raise type("PanicException", (BaseException,), {})("range end index 134 out of range")

    monkeypatch.setattr("indexer.generation.lexical.lexical_index._searcher", panic)
    with pytest.raises(ArchiveError, match=r"is damaged: .*range end index"):
        import_archive(tmp_path / "other", archive, keep_generations=2)


def test_extended_headers_are_refused(archive: Path, tmp_path: Path) -> None:
    members = members_of(archive)
    members[0][0].pax_headers = {"comment": "x" * 100_000}
    pack(archive, members, tarfile.PAX_FORMAT)
    with pytest.raises(ArchiveError, match="not an ordinary file"):
        import_archive(tmp_path / "other", archive, keep_generations=2)


@pytest.mark.parametrize("name", ["manifest.json", "vectors.faiss"])
def test_a_damaged_generation_is_not_exported(index: Path, archive: Path, name: str) -> None:
    before = archive.read_bytes()
    path = live(index) / name
    content = path.read_bytes()
    for damaged in (content[:-1], content[:-1] + b"\x7f"):
        path.write_bytes(damaged)
        with pytest.raises(IndexCorrupt, match=name):
            export_archive(index, archive)
    path.unlink()
    with pytest.raises(IndexCorrupt, match=name):
        export_archive(index, archive)
    assert archive.read_bytes() == before
    assert [entry.name for entry in archive.parent.iterdir() if entry.name.endswith(".part")] == []
