"""Callers as they are kept: a hash with a salt that changes every day or month, so that nobody can be followed longer.

The salts stand in a file of their own, for as long as what was hashed with them: with it, and only with it, the
operator can find what one caller asked, to delete it.
"""

import fcntl
import hmac
import ipaddress
import json
import os
import secrets
from datetime import UTC, datetime
from pathlib import Path

PERIODS = {"none": "", "day": "%Y-%m-%d", "month": "%Y-%m"}  # by the setting: how a salt's time is named
SALTS, LOCK = "salts.json", "lock"
DAY_S = 86_400
_BYTES = 32
_MOST_KNOWN = 10_000  # callers whose hash is remembered


class Callers:
    """Hashes callers. Any number of processes may use the file at once."""

    def __init__(self, folder: Path, period: str) -> None:
        self._folder = folder
        self._format = PERIODS[period]
        self._day = -1  # since 1970
        self._salt = b""
        self._known: dict[str, int] = {}

    def hashed(self, who: str, at: float) -> int | None:
        """Return the hash of a caller at a time in seconds since 1970; None where none is kept. Raises OSError."""
        if not (self._format and who):
            return None
        day = int(at // DAY_S)
        if day != self._day:
            self._salt, self._day = self._salt_of(f"{datetime.fromtimestamp(at, UTC):{self._format}}"), day
            self._known.clear()
        found = self._known.get(who)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[who] = _hash(self._salt, who)
        return found

    def _salt_of(self, now: str) -> bytes:
        with (self._folder / LOCK).open("a") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            salts = read_salts(self._folder)
            if now not in salts:
                salts[now] = secrets.token_hex(_BYTES)
                _write_salts(self._folder, salts)
            return bytes.fromhex(salts[now])


def all_hashes(folder: Path, name: str) -> list[int]:
    """Return every hash that a key, a user or an address may have been kept as. Raises OSError or ValueError."""
    try:
        network = str(ipaddress.ip_network((name, 64), strict=False)) if ":" in name else name  # a customer has a /64
    except ValueError:
        network = name
    names = {f"key {name}", f"key user:{name}", f"address {name}", f"address {network}"}
    return [_hash(bytes.fromhex(salt), who) for salt in read_salts(folder).values() for who in sorted(names)]


def forget_salts(folder: Path, before: datetime) -> None:
    """Remove the salts of days and months that ended before a moment: what was hashed with them is gone."""
    with (folder / LOCK).open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        salts = read_salts(folder)
        kept = {now: salt for now, salt in salts.items() if now >= f"{before:%Y-%m-%d}"[: len(now)]}
        if kept != salts:
            _write_salts(folder, kept)


def read_salts(folder: Path) -> dict[str, str]:
    """Return the salts by the day or month of each. Raises OSError or ValueError."""
    try:
        salts: dict[str, str] = json.loads((folder / SALTS).read_text(encoding="ascii"))
    except FileNotFoundError:
        return {}
    return salts


def _write_salts(folder: Path, salts: dict[str, str]) -> None:
    fresh = folder / f"{SALTS}.new"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="ascii") as out:
        json.dump(salts, out)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(folder / SALTS)


def _hash(salt: bytes, who: str) -> int:
    digest = hmac.digest(salt, who.encode("utf-8", "surrogatepass"), "sha256")
    return int.from_bytes(digest[:8], "big", signed=True)
