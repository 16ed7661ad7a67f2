"""The copy of a remote repository: one commit without its history, brought up to date by what has changed."""

import hashlib
import shutil
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from indexer.config import CrawlLimits
from indexer.crawl.guard import resolve
from indexer.crawl.sessions import Redaction, headers_of
from indexer.credentials import Credential, credential_for
from indexer.errors import CredentialsError, NotWanted, SourceError
from indexer.sources.git.address import GitAddress, is_repository
from indexer.sources.git.program import Config, Git, complaint, require

TIP = "refs/pilotlight/tip"
_MOST_PACKS = 20  # of updates, after which everything is fetched anew: what no tree needs any more goes with it
_LEFTOVERS = "objects/pack/tmp_*"  # of fetches that were cut off
_LONGEST = 3_600.0  # seconds of one fetch
_NO_REF = ("couldn't find remote ref", "not our ref")
_NO_LOGIN = ("could not read Username", "Authentication failed", "error: 401", "error: 403")
_NO_ANSWER = ("unable to access", "RPC failed", "hung up", "early EOF")
_OF_SERVER = (*_NO_REF, *_NO_LOGIN, *_NO_ANSWER)  # says nothing against the copy


@dataclass(frozen=True, slots=True)
class Mirrors:
    """The copies that belong to an index, one for each source, in one folder."""

    folder: Path
    credentials: Collection[Credential] = ()

    def updated(self, address: GitAddress, limits: CrawlLimits) -> Path:
        """Bring the copy of a repository up to date, and return its folder.

        Raises:
            SourceError: it cannot be reached or read, or has no such ref. The copy stays as it is.
            CredentialsError: a secret cannot be used.
        """
        require(remote=True)
        redaction = Redaction()
        config = {**_reaching(address, limits), **self._presenting(address, redaction)}
        git = Git(self.place_of(address.source), protocols="https")
        if len(list(git.folder.glob("objects/pack/*.pack"))) > _MOST_PACKS:
            self.drop(address.source)
        is_new = not git.folder.exists()
        git.folder.parent.mkdir(parents=True, exist_ok=True)
        went_well, _, said = git.run("init", "--quiet", "--bare", "--template=")  # repairs one that was cut off, too
        if not went_well:
            raise SourceError(f"{address.source}: cannot make a copy: {complaint(said)}")
        for leftover in git.folder.glob(_LEFTOVERS):
            leftover.unlink()
        for lock in git.folder.rglob("*.lock"):  # of a fetch that was killed; there is one build at a time
            lock.unlink()
        fetch = ("fetch", "--quiet", "--depth=1", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
        went_well, _, said = git.run(
            *fetch, "--", address.remote, f"+{address.ref}:{TIP}", config=config, most=limits.max_total_bytes,
            seconds=_LONGEST,
        )  # fmt: skip
        if not went_well:
            sizes = [leftover.stat().st_size for leftover in git.folder.glob(_LEFTOVERS)]
            if sizes and max(sizes) >= limits.max_total_bytes:
                self.drop(address.source)
                raise SourceError(f"{address.source}: larger than --max-total-bytes {limits.max_total_bytes:,}")
            if is_new or not any(words in said for words in _OF_SERVER):
                self.drop(address.source)
            if not is_new and not git.folder.exists():  # it was the copy that failed
                return self.updated(address, limits)
            raise self._refused(address, redaction.redact(said.encode()).decode())
        return git.folder

    def drop(self, source: str) -> None:
        """Remove the copy of a source, and the folder if it is the last one."""
        shutil.rmtree(self.place_of(source), ignore_errors=True)
        with suppress(OSError):
            self.folder.rmdir()

    def keep(self, sources: Iterable[str]) -> None:
        """Remove the copies of all other sources."""
        kept = {self.place_of(source).name for source in sources if is_repository(source)}
        for entry in self.folder.iterdir() if self.folder.is_dir() else ():
            if entry.name not in kept:
                shutil.rmtree(entry, ignore_errors=True)
        with suppress(OSError):  # not empty, or never made
            self.folder.rmdir()

    def place_of(self, source: str) -> Path:
        """Return the folder of the copy of a source, whether or not it is there."""
        return self.folder / hashlib.sha256(source.encode("utf-8", "surrogateescape")).hexdigest()[:16]

    def _presenting(self, address: GitAddress, redaction: Redaction) -> Config:
        """What the origin is asked with."""
        credential = credential_for(address.source, self.credentials)
        if credential is None:
            return {}
        if credential.cookies:
            ways = "a repository is read with basic, bearer or headers, not with cookies"
            raise CredentialsError(f"credentials of {credential.origin}: {ways}")
        headers = headers_of(credential, redaction)
        return {"http.extraHeader": [f"{name}: {value}" for name, value in headers.items()]} if headers else {}

    def _refused(self, address: GitAddress, said: str) -> SourceError:
        source = address.source
        if any(words in said for words in _NO_REF):
            what = "has no commit yet" if address.ref == "HEAD" else f"has no branch, tag or commit {address.ref}"
            return SourceError(f"{source}: the repository {what}")
        if any(words in said for words in _NO_LOGIN):
            if credential_for(source, self.credentials):
                return SourceError(f"{source}: the server does not take the credentials of its origin")
            return SourceError(
                f"{source}: there is no such repository, or it needs a login: describe one under [[credentials]]"
            )
        if "requested URL returned error: 3" in said:
            return SourceError(f"{source}: the server redirects, which is not followed: name the address it leads to")
        return SourceError(f"{source}: cannot be fetched: {complaint(said)}")


def _reaching(address: GitAddress, limits: CrawlLimits) -> Config:
    """Hold git to addresses of the host that have been checked, and to the limits. Raises SourceError."""
    parts = urlsplit(address.remote)
    host, port = parts.hostname or "", parts.port or 443
    try:
        found = resolve(host, port, allow_private=limits.allow_private)
    except NotWanted as error:
        raise SourceError(f"{address.source}: {error}") from error
    except OSError as error:
        raise SourceError(f"{address.source}: cannot resolve {host}: {error.strerror or error}") from error
    addresses = ",".join(f"[{one}]" if ":" in one else one for one in found)
    return {
        "http.curloptResolve": f"{host}:{port}:{quote(addresses, safe='[]:.,')}",
        "http.userAgent": limits.user_agent,
        "http.lowSpeedLimit": "1",  # bytes a second
        "http.lowSpeedTime": str(max(1, round(limits.timeout))),
        "protocol.version": "2",
    }
