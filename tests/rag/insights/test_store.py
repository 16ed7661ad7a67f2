import json
import re
import sqlite3
import stat
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from indexer.publish.publish import prepare
from rag.errors import InsightsError
from rag.insights.callers import SALTS, Callers, read_salts
from rag.insights.events import SearchId, first_number, parts_of, time_of
from rag.insights.past_questions import is_within
from rag.insights.store import DATABASE, InsightsStore, open_to_read
from rag.query.filters import Filter
from rag.serving.scope import NOTHING, Scope
from rag.settings import Settings
from tests.rag.insights.records import DAY_S, searched, told

NOW = time.time()
RED_ONLY = Filter.parse({"metadata": {"team": "red"}})
RED = Scope.of(["default"], [RED_ONLY])


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def rows(folder: Path, query: str) -> list[tuple[object, ...]]:
    with closing(open_to_read(folder)) as connection:
        return connection.execute(query).fetchall()


def test_ids_go_up_with_time_and_nobody_guesses_them() -> None:
    ids = [SearchId.new(NOW + second) for second in range(1000)]
    assert ids == sorted(ids)
    assert len({id.secret for id in ids}) == 1000
    assert all(abs(time_of(id.number) - NOW - second) < 0.002 for second, id in enumerate(ids))
    assert SearchId.parse(str(ids[0])) == ids[0]
    assert all(
        SearchId.parse(text) is None for text in ("", "x" * 32, "f" * 32, str(ids[0]).upper() + "0", f" {ids[0]}")
    )


def test_what_is_kept_of_a_search(tmp_path: Path) -> None:
    folder = tmp_path / "insights"
    with closing(InsightsStore(folder, period="day")) as store:
        assert store.write([searched("how  do I vacuum?\n", at=NOW, who="key alice")], []) == []
        found = rows(folder, "SELECT query, redacted, hits, round(cosine, 2), close, ms, seen, shown FROM searches")
        assert found == [("how do I vacuum?", 0, 2, 0.72, 1, 3.0, 1, "chunk-1 chunk-2")]
        assert rows(folder, "SELECT id, url FROM passages ORDER BY id")[0] == (
            "chunk-1",
            "https://docs.example/indexes/partial.html#part-1",
        )
        store.write([searched("write to me@mail.example", at=NOW + 1), searched("long " * 200, at=NOW + 2)], [])
        assert rows(folder, "SELECT length(query), redacted FROM searches ORDER BY id")[1:] == [(16, 1), (500, 1)]
    assert b"me@mail.example" not in all_bytes(folder)
    assert b"alice" not in all_bytes(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in (DATABASE, SALTS)} == {0o600}


def test_callers_cannot_be_followed_from_day_to_day(tmp_path: Path) -> None:
    folder = tmp_path / "insights"
    InsightsStore(folder).close()
    day, month, none = (Callers(folder, period) for period in ("day", "month", "none"))
    assert day.hashed("key a", NOW) == Callers(folder, "day").hashed("key a", NOW)  # whichever process asks
    assert len({day.hashed(who, NOW + after) for who in ("key a", "key b") for after in (0, DAY_S)}) == 4
    first = datetime(2026, 3, 5, tzinfo=UTC).timestamp()
    assert month.hashed("key a", first) == month.hashed("key a", first + DAY_S)
    assert month.hashed("key a", first) != month.hashed("key a", first + 31 * DAY_S)
    assert none.hashed("key a", NOW) is None
    assert day.hashed("", NOW) is None


def test_feedback_is_of_a_search_that_the_caller_could_have_made(tmp_path: Path) -> None:
    folder = tmp_path / "insights"
    with closing(InsightsStore(folder)) as store:
        mine, red = searched("mine", at=NOW, seen=False), searched("red", at=NOW + 1, scope=RED)
        store.write([mine, red], [])
        guessed = told(mine, "good")._replace(id=SearchId(mine.id.number, 5))
        ignored = [guessed, told(mine, "good", rank=3), told(mine, "good", scope=RED), told(red, "good", scope=NOTHING)]
        assert store.write([], [*ignored, told(red, "opened")]) == []
        assert rows(folder, "SELECT * FROM feedback") == []
        later = searched("later")
        assert store.write([], [told(later, "good")]) == [told(later, "good")]
        assert store.write([], [told(mine, "seen"), told(red, "opened", scope=RED)]) == []
        assert rows(folder, "SELECT query, seen FROM searches ORDER BY id") == [("mine", 1), ("red", 1)]
        store.write([], [told(mine, "bad"), told(mine, "opened"), told(mine, "good", rank=2)])
        found = rows(folder, "SELECT passage, opened, verdict FROM feedback WHERE search = " + str(mine.id.number))
        assert found == [("chunk-1", 1, -1), ("chunk-2", 0, 1)]
        store.write([], [told(mine, "none")])
        assert rows(folder, "SELECT sum(verdict) FROM feedback") == [(1,)]


def test_what_nobody_looked_at_goes(tmp_path: Path) -> None:
    folder = tmp_path / "insights"
    with closing(InsightsStore(folder)) as store:
        old = NOW - 3600
        store.write([searched("v", at=old, seen=False), searched("va", seen=False), searched("vac", at=old)], [])
        store.forget_unseen(NOW)
        assert rows(folder, "SELECT query FROM searches ORDER BY id") == [("vac",), ("va",)]


def test_what_is_old_goes(tmp_path: Path) -> None:
    folder = tmp_path / "insights"
    with closing(InsightsStore(folder, period="day")) as store:
        days = [searched(f"question of {day} days ago", at=NOW - day * DAY_S) for day in range(5)]
        store.write(list(reversed(days)), [told(each, "opened") for each in days])
        store.retain(NOW, 3, 10**9)
        assert rows(folder, "SELECT query FROM searches") == [(f"question of {day} days ago",) for day in (2, 1, 0)]
        assert rows(folder, "SELECT count(*) FROM feedback") == [(3,)]
        assert len(read_salts(folder)) == 3
        assert b"question of 4" not in all_bytes(folder)


def test_what_is_too_much_goes(tmp_path: Path) -> None:
    folder = tmp_path / "insights"
    with closing(InsightsStore(folder)) as store:
        store.write([searched(f"question {number} {'x' * 400}", at=NOW + number) for number in range(2000)], [])
        store.retain(NOW, 90, 500_000)
        assert (folder / DATABASE).stat().st_size <= 500_000
        [(left, oldest)] = rows(folder, "SELECT count(*), min(id) FROM searches")
        assert isinstance(left, int)
        assert 0 < left < 2000
        assert isinstance(oldest, int)
        assert oldest >= first_number(NOW + 2000 - left)


def test_deletion_takes_it_out_of_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "insights"
    today, yesterday = (f"{datetime.fromtimestamp(NOW - ago, UTC):%Y-%m-%d}" for ago in (0, DAY_S))
    with closing(InsightsStore(folder, period="day")) as store:
        for number in range(200):
            at = NOW - DAY_S * (number % 2)
            store.write([searched(f"alice wants {number}", who="key alice", at=at, hits=1)], [])
            store.write([searched(f"bobby wants {number}", who="address 192.0.2.7", at=at)], [])
        store.write([searched("of a network", who="address 2001:db8::/64")], [])
        with closing(InsightsStore(folder, period="day")) as other:  # as the server has it open
            assert other.delete_caller("alice") == 200
            assert b"alice" not in all_bytes(folder)
            assert all_bytes(folder).count(b"bobby wants") == 200
            assert other.delete_caller("2001:db8::77") == 1
            assert other.delete_day(yesterday) == 100
            assert all_bytes(folder).count(b"bobby wants") == 100
            assert other.delete_caller("nobody") == 0
            with pytest.raises(InsightsError, match="is not a day"):
                other.delete_day("yesterday")
        store.write([searched("and on", hits=1, at=NOW)], [])  # what others deleted, it notes anew
        assert rows(folder, "SELECT id FROM passages WHERE id = 'chunk-1'") == [("chunk-1",)]
        assert store.delete_day(today) == 101
    assert b"wants" not in all_bytes(folder)
    assert b"docs.example" not in all_bytes(folder)


def test_an_index_folder_may_have_it_before_anything_is_indexed(tmp_path: Path) -> None:
    settings = Settings(index=str(tmp_path))
    InsightsStore(settings.insights_folder).close()
    assert [path.name for path in tmp_path.iterdir()] == ["insights"]
    prepare(tmp_path)  # raises for what is not of an index


def test_a_store_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(InsightsError, match="serve with --insights"):
        open_to_read(tmp_path)
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        connection.execute("PRAGMA user_version = 9")
    for opened in (open_to_read, InsightsStore):
        with pytest.raises(InsightsError, match="is of version 9"):
            opened(tmp_path)


def test_a_scope_within_another() -> None:
    blue = Filter.parse({"metadata": {"team": "blue"}})
    either, default = Scope.of(None, [RED_ONLY, blue]), Scope.of(["default"])

    def within(asker: Scope, reader: Scope) -> bool:
        readers = asker.readers if asker.readers is None else [5] if asker.readers else []
        return is_within(json.loads(json.dumps({"parts": parts_of(asker), "readers": readers})), reader)

    scopes = (Scope(), RED, Scope.of(None, [blue]), either, default, NOTHING)
    assert all(within(scope, scope) and within(scope, Scope()) for scope in scopes)
    assert within(RED, default)
    assert within(RED, either)
    assert within(RED, RED | Scope.of(["other"]))
    assert within(NOTHING, RED)
    for asker, reader in ((Scope(), RED), (Scope(), default), (default, RED), (Scope.of(None, [blue]), RED)):
        assert not within(asker, reader)
    assert not within(either, RED)
    nobody, alice = (Scope(readers=frozenset(names)) for names in ((), ("user:alice",)))
    assert within(nobody, nobody)
    assert within(nobody, alice)
    assert within(alice, Scope())
    assert not any(within(*pair) for pair in ((Scope(), nobody), (Scope(), alice), (alice, nobody), (alice, alice)))
    assert not within(RED, NOTHING)


def test_names_of_readers_are_not_kept(tmp_path: Path) -> None:
    folder, alice = tmp_path / "insights", Scope(readers=frozenset({"user:alice", "group:staff"}))
    with closing(InsightsStore(folder, period="day")) as store:
        mine = searched("mine", scope=alice)
        others = [Scope(readers=frozenset({"user:bob"})), Scope()]
        store.write([mine], [told(mine, "bad", scope=other) for other in others])
        store.write([], [told(mine, "good", scope=alice)])
        assert rows(folder, "SELECT verdict FROM feedback") == [(1,)]
    assert not re.search(rb"alice|staff", all_bytes(folder))
