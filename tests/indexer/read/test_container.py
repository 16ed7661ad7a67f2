import io
import stat
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest

from indexer.config import CrawlLimits
from indexer.errors import ParseError
from indexer.read import container
from indexer.read.container import expand
from indexer.records import Failure, Page, PageRecord
from indexer.source_context import SourceContext
from indexer.sources.folder import read_path
from tests.indexer.conftest import make_page
from tests.indexer.files import zipped
from tests.indexer.pipeline.incremental import Work

FILES: dict[str, str | bytes] = {
    "./a.md": "# A",
    "sub/b c.txt": "b",
    "../out.txt": "NO",
    "x/../../out.txt": "NO",
    "/abs.txt": "NO",
    "C:/win.txt": "NO",
    "back\\slash.txt": "c",
    "..\\out.txt": "NO",
    "\\\\host\\out.txt": "NO",
    "d\\.hidden\\x.txt": "NO",
    ".hidden/x.txt": "NO",
    "inner.zip": "NO",
    "pic.png": "NO",
    "big.txt": "x" * 2000,
}
REASONS = {
    "../out.txt": "a path outside the archive",
    "x/../../out.txt": "a path outside the archive",
    "/abs.txt": "a path outside the archive",
    "C%3A/win.txt": "not a valid file name",
    "//host/out.txt": "a path outside the archive",
    "d/.hidden/x.txt": "hidden",
    ".hidden/x.txt": "hidden",
    "inner.zip": "a nested archive",
    "pic.png": "an image: OCR is off",
    "big.txt": "larger than 1,000 bytes",
}


def tarred(files: dict[str, str | bytes], mode: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            body = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
        for name, kind in (
            ("link.txt", tarfile.SYMTYPE),
            ("hard.txt", tarfile.LNKTYPE),
            ("pipe.txt", tarfile.FIFOTYPE),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
    return file.getvalue()


def members(body: bytes, max_bytes: int = 1000) -> tuple[list[Page], dict[str, str]]:
    items = list(expand(make_page(body, "application/zip", "file:///z"), max_bytes))
    reasons = {item.url.removeprefix("file:///z!/"): item.reason for item in items if not isinstance(item, Page)}
    return [item for item in items if isinstance(item, Page)], reasons


@pytest.mark.parametrize("mode", ["zip", "w", "w:gz", "w:bz2", "w:xz"])
def test_members_become_pages(mode: str) -> None:
    pages, reasons = members(zipped(FILES) if mode == "zip" else tarred(FILES, mode))
    assert [(page.url, page.body, page.content_type) for page in pages] == [
        ("file:///z!/a.md", b"# A", "text/markdown"),
        ("file:///z!/sub/b%20c.txt", b"b", "text/plain"),
        ("file:///z!/back/slash.txt", b"c", "text/plain"),
    ]
    links = dict.fromkeys(("link.txt", "hard.txt", "pipe.txt"), "symbolic link, pipe or device")
    assert reasons == REASONS if mode == "zip" else REASONS | links


@pytest.mark.parametrize("mode", ["zip", "w", "w:gz"])
def test_files_with_an_access_list_are_left_out(mode: str) -> None:
    listed: dict[str, str | bytes] = {"a.md": "# A", "b.md": "# B", "./b.md.access.toml": "", "c/d/e.md": "# E"}
    listed |= {"c/.Access.toml": 'users = ["ann"]', "f/g.md": "# G", "/f/.access.toml": 'users = ["ann"]'}
    pages, reasons = members(zipped(listed) if mode == "zip" else tarred(listed, mode))
    assert [page.url for page in pages] == ["file:///z!/a.md"]
    assert {reasons[name] for name in ("b.md", "c/d/e.md", "f/g.md")} == {
        "has an access list, which is supported only in folders"
    }


NAMES = {  # encoding, and names that an archive has in it
    "utf-8": ["Übersicht/使い方.txt", "łódź.md"],
    "cp850": ["Übersicht.txt", "Straße/Menü.md"],
    "cp852": ["žluťoučký kůň.txt", "šířka.md"],
    "cp737": ["Οδηγίες/εγκατάσταση.md"],
    "cp857": ["Kılavuz/şehir ağı.md"],
    "cp866": ["Отчёт/начало.md"],
    "cp932": ["資料/説明書.md", "テスト.md"],
    "gbk": ["使用手册/开始.md"],
    "windows-1251": ["Руководство.txt"],
    "windows-1252": ["été à Noël.md", "Grundstück.md"],
}


@pytest.mark.parametrize("mode", ["zip", "w"])
@pytest.mark.parametrize("encoding", NAMES)
def test_names_in_other_encodings(encoding: str, mode: str) -> None:
    raw = [name.replace("/", "\\" if mode == "zip" else "/").encode(encoding) for name in NAMES[encoding]]
    stand_ins = {f"{number}".rjust(len(name), "_"): "x" for number, name in enumerate(raw)}
    body = zipped(stand_ins) if mode == "zip" else tarred(stand_ins, mode)
    if mode == "zip":
        for stand_in, name in zip(stand_ins, raw, strict=True):
            body = body.replace(stand_in.encode(), name)
        body = bytes(body).replace(b"PK\x01\x02\x14\x03", b"PK\x01\x02\x14\x00")  # made by DOS
    else:
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT, encoding=encoding) as archive:
            for name in NAMES[encoding]:
                archive.addfile(tarfile.TarInfo(name))
        body = file.getvalue()
    found = [member.name for member in container.members(body, 1000, "")]
    assert found == NAMES[encoding]


def test_a_name_in_the_field_for_unicode() -> None:
    file, name = io.BytesIO(), "Übersicht/å.md"
    with zipfile.ZipFile(file, "w") as archive:
        info = zipfile.ZipInfo("_bersicht/_.md")
        field = b"\1" + struct.pack("<I", zlib.crc32(info.filename.encode())) + name.encode()
        info.extra = struct.pack("<2sHB", b"UT", 1, 0) + struct.pack("<HH", 0x7075, len(field)) + field
        archive.writestr(info, "x")
    assert [member.name for member in container.members(file.getvalue(), 1000, "")] == [name]


def test_links_and_secrets_in_a_zip() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        link = zipfile.ZipInfo("link.txt")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("secret.txt", "x")
    body = bytearray(file.getvalue())
    entry = body.rindex(b"PK\x01\x02")
    body[entry + 8] |= 1
    assert members(bytes(body)) == ([], {"link.txt": "symbolic link", "secret.txt": "encrypted"})


def test_a_damaged_member_costs_itself() -> None:
    body = bytearray(zipped({"a.txt": "first", "b.txt": "second"}))
    body[body.index(b"a.txt") + 6] ^= 0xFF
    pages, reasons = members(bytes(body))
    assert [page.body for page in pages] == [b"second"]
    assert reasons == {"a.txt": "damaged in the archive"}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_mbox_archive_is_its_mails(end: str) -> None:
    file = f"Content-Type: text/x-diff; name=a.md{end}Content-Disposition: attachment; filename=a.md{end}{end}# A{end}"
    mails = [
        f"Subject: One{end}{end}From the pier.{end}>From quay.{end}",
        f"Content-Type: multipart/mixed; boundary=B{end}{end}--B{end}{file}{end}--B--{end}",
        f"Subject: Long{end}{end}{'x' * 2000}{end}",
    ]
    body = "".join(f"From a@b Mon Jan  5{end}{mail}{end}" for mail in mails).encode()
    pages, reasons = members(zipped({"list": body}) if end == "\n" else body, max_bytes=1000 if end != "\n" else 9000)
    names = [page.url.rpartition("!/")[2] for page in pages]
    assert names == ["1.eml", "2.eml", "a.md", *(["3.eml"] if end == "\n" else [])]
    assert f"From the pier.{end}From quay.".encode() in pages[0].body
    assert list(reasons.values()) == ([] if end == "\n" else ["larger than 1,000 bytes"])


def test_an_archive_of_mails_attached_to_a_mail_is_skipped() -> None:
    attached = "--B\nContent-Disposition: attachment; filename=old.txt\n\nFrom a@b Mon\nSubject: Old\n\nx\n--B--\n"
    mail = f"Content-Type: multipart/mixed; boundary=B\n\n{attached}"
    [item] = expand(make_page(mail, "message/rfc822", "file:///a.eml"), 1000)
    assert not isinstance(item, Page)
    assert item.reason == "a nested archive"


@pytest.mark.parametrize("body", [b"", b"PK", b"nonsense" * 100, b"\x1f\x8b" + bytes(50), zipped(FILES)[:-30]])
def test_damaged_archives_are_one_failure(body: bytes) -> None:
    pages, reasons = members(body)
    assert pages == []
    assert list(reasons) in (["file:///z"], [])


@pytest.mark.parametrize("mode", ["zip", "w:gz", "w:bz2", "w:xz"])
def test_bombs(mode: str) -> None:
    """Forty files of ten megabytes of zeros: no larger than a page may be, in a few kilobytes."""
    bomb: dict[str, str | bytes] = {f"{number}.txt": bytes(10_000_000) for number in range(4)}
    pages, reasons = members(zipped(bomb) if mode == "zip" else tarred(bomb, mode), max_bytes=10_000_000)
    assert len(pages) <= 1
    assert "may be a decompression bomb" in reasons["file:///z"]


def test_too_many_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "_MAX_MEMBERS", 2)
    with pytest.raises(ParseError, match="more than 2 files"):
        list(container.members(zipped(FILES), 1000, ""))


def test_an_index_of_an_archive_is_kept_up_to_date(tmp_path: Path, work: Work) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    file = folder / "z.zip"
    file.write_bytes(zipped({"a.md": "# Cats\n\nThey sleep.", "b.txt": "Dogs bark.", "bad.docx": "x"}))
    report = work.build(str(folder))
    assert (report.documents, len(report.failed)) == (2, 1)
    file.write_bytes(zipped({"a.md": "# Cats\n\nThey sleep.", "b.txt": "Dogs bark loudly."}))
    report = work.build(str(folder))
    assert (report.unchanged, report.changed.examples) == (1, [f"{file.as_uri()}!/b.txt"])
    assert not any(
        isinstance(item, PageRecord | Failure)
        for item in read_path(SourceContext(str(folder), CrawlLimits(max_bytes=1000)))
    )
