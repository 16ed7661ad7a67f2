import os
import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indexer.config import CrawlLimits, CrawlScope
from indexer.errors import CredentialsError, SourceError
from indexer.network.credentials import Basic, Credential, InEnvironment
from indexer.network.urls import BucketAddress, GitAddress
from indexer.records import Failure, Item, Page, Skip
from indexer.source_context import SourceContext
from indexer.sources.git import Git, read_repository, version
from indexer.stop_signal import Stopped, raise_at
from tests.indexer.pipeline.incremental import Work
from tests.indexer.server import Site, redirect
from tests.indexer.sources.repositories import GitSite, Repository, serving
from tests.waiting import wait_for

pytestmark = pytest.mark.skipif(not version(), reason="git is not installed")
LIMITS = CrawlLimits(allow_private=True, timeout=300.0, max_bytes=1000)
TEMPLATE = "https://code.test/blob/{ref}/{path}"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repository")
    made.commit(cats__md="# Cats\n\nCats sleep most of the day.", docs_dogs__md="# Dogs\n\nDogs bark at strangers.")
    return made


@pytest.fixture
def site(tmp_path: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitSite]:
    private = tmp_path / "private"
    private.mkdir()
    with serving(tmp_path, private, monkeypatch, "code.test") as server:
        yield server


def items(source: str, limits: CrawlLimits = LIMITS) -> list[Item]:
    return list(read_repository(SourceContext(source, limits)))


def read(source: str, limits: CrawlLimits = LIMITS) -> dict[str, Item]:
    return {item.url.removeprefix(source): item for item in items(source, limits)}


def reasons(source: str, limits: CrawlLimits = LIMITS) -> dict[str, str]:
    return {name: item.reason for name, item in read(source, limits).items() if isinstance(item, Skip | Failure)}


@pytest.mark.parametrize(
    "source",
    [
        "git+https://", "git+https://code.test", "git+https://code.test/docs?x", "git+https://code.test/docs@",
        "git+https://code.test/docs@--upload-pack=x", "git+https://code.test/docs@a..b",
        "git+https://code.test/docs@a:b", "git+https://code.test/docs@refs/heads/*", "git+file://host/docs",
        "git+file:///", "s3:docs", "s3:///a", "s3://docs:80/a", "s3://docs/a?x", "s3://docs/a//b", "s3://docs/%2e%2e/b",
        "s3://docs/./b", "s3://docs/a%0Ab",
    ],
)  # fmt: skip
def test_addresses_that_are_none(source: str) -> None:
    with pytest.raises(SourceError, match=r": (write (git\+|s3)|the text after the last @|its prefix must have)"):
        (GitAddress if source.startswith("git") else BucketAddress).read(source)


def test_files_of_a_branch_a_tag_or_a_commit_are_read_and_not_the_worktree(
    tmp_path: Path, repository: Repository
) -> None:
    first = repository.git("rev-parse", "HEAD")
    repository.git("tag", "-a", "v1", "-m", "first")
    repository.git("branch", "old/first")
    repository.commit("cats.md", birds__md="# Birds")
    (repository.folder / "new.md").write_text("new")
    for ref in ("v1", "old/first", first):
        assert list(read(f"{repository.source}@{ref}")) == ["/cats.md", "/docs/dogs.md"]
    pages = read(repository.source)
    assert list(pages) == ["/birds.md", "/docs/dogs.md"]
    page = pages["/birds.md"]
    assert isinstance(page, Page)
    assert (page.body, page.content_type, page.source) == (b"# Birds", "text/markdown", repository.source)
    Repository(tmp_path / "empty")
    for source, told in (
        (f"git+file://{tmp_path}/nowhere", "is not a repository"),
        (f"git+file://{tmp_path}/empty", "no commit"),
        (f"{repository.source}@gone", "no branch, tag or commit gone"),
    ):
        with pytest.raises(SourceError, match=told):
            items(source)


def test_what_is_left_out_is_named(repository: Repository) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
    repository.commit_files({"a.md": pointer, "big.md": "x" * 1001, "pic.png": "x", ".ci/a.md": "x", ".ci/b.md": "x"})
    repository.commit_files({"ca\udce9 #?.md": "a name in bytes"})
    (repository.folder / "link.md").symlink_to("/etc/hostname")
    head = repository.git("rev-parse", "HEAD")
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{head},module")
    repository.git("add", "link.md")
    repository.git("commit", "--quiet", "-m", "more")
    assert reasons(repository.source) == {
        "/.ci": "hidden",
        "/a.md": "a Git LFS pointer",
        "/big.md": "larger than 1,000 bytes",
        "/link.md": "symbolic link",
        "/module": "a submodule",
        "/pic.png": "an image: OCR is off",
    }
    assert "/ca%E9%20%23%3F.md" in read(repository.source)
    only = replace(LIMITS, scope=CrawlScope(("/docs/",)))
    assert reasons(repository.source, only)["/cats.md"] == "excluded by --include"


def test_only_what_has_changed_is_read_and_embedded(repository: Repository, work: Work) -> None:
    first = work.build(repository.source)
    assert (first.documents, first.fetched) == (2, 2)
    same = work.build(repository.source)
    assert (same.published, same.fetched, same.unchanged) == (False, 0, 2)
    repository.commit("docs/dogs.md", cats__md="# Cats\n\nCats hunt at night.", birds__md="# Birds\n\nBirds sing.")
    next_one = work.build(repository.source)
    assert (next_one.fetched, next_one.unchanged, work.embedded) == (2, 0, 2)
    assert sorted(name.removeprefix(repository.source) for name in work.content() if name != "pages") == [
        "/birds.md",
        "/cats.md",
    ]
    fresh = Work(work.index.with_name("fresh"))
    fresh.build(repository.source)
    assert fresh.content() == work.content()


def test_a_template_gives_addresses_with_lines(repository: Repository, work: Work) -> None:
    code = "import os\n\n\ndef first() -> int:\n    return 1\n\n\ndef second() -> int:\n    return 2\n"
    repository.commit_files({"a.py": code * 20})

    def built(template: str) -> tuple[int, list[str]]:
        limits = CrawlLimits(own={repository.source: {"link_template": template}})
        fetched = work.build(repository.source, limits=limits).fetched
        return fetched, [name for name in work.content() if name != "pages"]

    names = ("a.py", "cats.md", "docs/dogs.md")
    assert built(TEMPLATE) == (3, [f"https://code.test/blob/HEAD/{name}" for name in names])
    assert built(TEMPLATE) == (0, [f"https://code.test/blob/HEAD/{name}" for name in names])
    assert re.search(r"/a\.py#L\d+'", str(work.content()))
    assert work.embedded == 0


def test_a_damaged_repository_leaves_the_live_index(
    repository: Repository, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = work.build(repository.source).generation
    repository.commit(cats__md="# Cats\n\nCats hunt.")
    blob = repository.git("rev-parse", "HEAD:cats.md")
    (repository.folder / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(SourceError, match=r"git fsck|missing"):
        work.build(repository.source)
    assert (work.index / "CURRENT").read_text().strip() == before
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SourceError, match="apt-get install git"):
        items(repository.source)


def test_nothing_of_the_users_settings_or_the_repositorys_is_run(
    tmp_path: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    settings = f'[core]\nfsmonitor={trap}\npager={trap}\nsshCommand={trap}\n[filter "x"]\nsmudge={trap}\n'
    settings += f'[alias]\nls-tree=!{trap}\n[diff "x"]\ntextconv={trap}\n'
    (home / ".gitconfig").write_text(settings)
    with (repository.folder / ".git/config").open("a") as file:
        file.write(settings + f'[remote "origin"]\nurl=ext::{trap}\npromisor=true\n[extensions]\npartialClone=origin\n')
    for hook in ("post-checkout", "reference-transaction", "pre-auto-gc"):
        (repository.folder / ".git/hooks" / hook).symlink_to(trap)
    repository_attributes = repository.folder / ".git/info/attributes"
    repository_attributes.write_text("* filter=x diff=x\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    assert len(read(repository.source)) == 2
    blob = repository.git("rev-parse", "HEAD:cats.md")
    (repository.folder / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(SourceError):
        items(repository.source)
    assert not (tmp_path / "sprung").exists()
    assert not (tmp_path / "trace").exists()


def test_what_leads_to_another_repository_is_refused(tmp_path: Path, repository: Repository) -> None:
    repository.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "tree"))
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / ".git").symlink_to(repository.folder / ".git")
    objects, borrowing, linking = ".git/objects", Repository(tmp_path / "borrowing"), Repository(tmp_path / "linking")
    (borrowing.folder / objects / "info" / "alternates").write_text(f"{repository.folder / objects}\n")
    for entry in (repository.folder / objects).glob("??"):
        (linking.folder / objects / entry.name).symlink_to(entry)
    for other in (borrowing, linking):
        other.git("update-ref", "HEAD", repository.git("rev-parse", "HEAD"))
    for place in ("tree", "link", "repository/.git/worktrees/tree", "borrowing", "linking"):
        with pytest.raises(SourceError, match="refers to another repository"):
            items(f"git+file://{tmp_path}/{place}")


def test_a_repository_of_endless_folders_costs_little(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each folder holds the next one ten times: a million files in a few kilobytes, or none in as many folders."""
    blob = repository.git("rev-parse", "HEAD:cats.md")

    def commit(leaf: str, levels: int) -> None:
        tree = repository.git("mktree", data=leaf)
        for _ in range(levels):
            tree = repository.git("mktree", data="".join(f"040000 tree {tree}\t{name}\n" for name in range(10)))
        repository.git("update-ref", "HEAD", repository.git("commit-tree", "-m", "bomb", tree))

    commit("".join(f"100644 blob {blob}\t{name}{'x' * 200}.md\n" for name in range(10)), 5)
    with pytest.raises(SourceError, match="over 200,000 files, or over 32,000,000 bytes in the names of its files"):
        items(repository.source)
    monkeypatch.setattr("indexer.sources.git._RUN_SECONDS", 1.0)
    commit("", 12)
    with pytest.raises(SourceError, match="cannot be listed within 1 seconds"):
        items(repository.source)


@pytest.mark.parametrize("stream", [1, 2])
def test_what_a_command_says_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: int) -> None:
    """As a server may send messages for ever."""
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexec yes 'remote: more' >&{stream}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    succeeded, *streams = Git(tmp_path).run("fetch")
    assert not succeeded
    assert len(streams[stream - 1]) >= (1 << 20) - 1  # the output has no line feed at its end


def test_an_interrupted_build_kills_a_command_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, started, ended = tmp_path / "bin" / "git", tmp_path / "started", tmp_path / "ended"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {started}\nsleep 30\ntouch {ended}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    def stop() -> None:
        wait_for(started.exists)
        os.kill(os.getpid(), signal.SIGTERM)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(stop)
        with pytest.raises(Stopped), raise_at(signal.SIGTERM):
            Git(tmp_path).run("fetch")
    assert not ended.exists()


def run(work: Work, source: str, *credentials: Credential, **limits: Any) -> Any:
    return work.build(source, limits=replace(LIMITS, **limits), credentials=credentials)


def test_of_a_remote_repository_only_what_has_changed_is_read(
    site: GitSite, repository: Repository, work: Work
) -> None:
    source = f"{site.source}/repository/.git@main"
    report = run(work, source)
    assert (report.documents, report.fetched) == (2, 2)
    assert not run(work, source).published
    repository.commit(cats__md="# Cats\n\nCats hunt at night.")
    report = run(work, source)
    assert (report.fetched, report.unchanged, report.embedded) == (1, 1, 1)
    assert list((work.index / "building").iterdir()) == []


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/repository/.git@gone", "no branch, tag or commit gone"),
        ("/empty/.git", "has no commit yet"),
        ("/nowhere/.git", "no such repository, or it needs a login|cannot be fetched"),
    ],
)
def test_what_a_server_does_not_have(tmp_path: Path, site: GitSite, work: Work, path: str, told: str) -> None:
    Repository(tmp_path / "empty")
    with pytest.raises(SourceError, match=told) as caught:
        run(work, f"{site.source}{path}")
    assert "\n" not in str(caught.value)
    assert list((work.index / "building").iterdir()) == []


def test_the_address_that_was_checked_is_the_one_that_is_reached(
    site: GitSite, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.sources.git.resolve_checked", lambda *_, **__: ["127.0.0.1"])
    port = site.url.rpartition(":")[2]
    assert run(work, f"git+https://code.test:{port}/repository/.git").documents == 2  # a name that nobody knows


def test_what_is_not_fetched(site: GitSite, repository: Repository, work: Work, sentinel: Site) -> None:
    source = f"{site.source}/repository/.git"
    with pytest.raises(SourceError, match=r"not public.* --allow-private"):
        run(work, source, allow_private=False)
    assert site.hits == []
    repository.commit_files({"noise.bin": os.urandom(300_000)})
    with pytest.raises(SourceError, match=r"larger than 100,000 bytes"):
        run(work, source, max_total_bytes=100_000)
    site.routes["/repository/.git/info/refs?service=git-upload-pack"] = redirect(f"{sentinel.url}/x")
    with pytest.raises(SourceError, match="redirects are not followed"):
        run(work, source)


def test_credentials_are_sent_and_seen_nowhere(
    site: GitSite, work: Work, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = "correct-horse-battery"
    site.wanted = "Basic cmVhZGVyOmNvcnJlY3QtaG9yc2UtYmF0dGVyeQ=="
    source = f"{site.source}/repository/.git"
    with pytest.raises(SourceError, match="needs a login"):
        run(work, source)
    started: list[str] = []
    real = subprocess.Popen

    def popen(command: list[str], **kwargs: Any) -> Any:
        started.append(f"{command} {kwargs.get('env')}")
        return real(command, **kwargs)

    monkeypatch.setattr("indexer.sources.git.subprocess.Popen", popen)
    monkeypatch.setenv("CODE_PASSWORD", secret)
    credential = Credential(site.url, basic=Basic("reader", InEnvironment("CODE_PASSWORD")))
    assert run(work, source, credential).documents == 2
    assert site.wanted in site.sent
    ours = [text for text in started if "fetch" in text]
    assert ours
    assert not any(secret in text or site.wanted[6:] in text for text in started if "http-backend" not in text)
    kept = b"".join(path.read_bytes() for path in work.index.rglob("*") if path.is_file())
    assert secret.encode() not in kept
    assert site.wanted[6:].encode() not in kept
    monkeypatch.setenv("CODE_PASSWORD", "wrong-horse-battery")
    with pytest.raises(SourceError, match="rejects the credentials"):
        run(work, source, credential)
    with pytest.raises(CredentialsError, match="there are none for it now"):
        run(work, source)
    cookies = Credential(site.url, cookies=InEnvironment("CODE_PASSWORD"))
    with pytest.raises(CredentialsError, match="not with cookies"):
        run(work, source, cookies)
