"""Pasted tracebacks and logs, of which the telling lines are read."""

import numpy as np
import pytest

from indexer.generation.lexical.lexical_query import parse_query, read_query
from indexer.generation.lexical.pasted import error_lines, nearest_sentences
from tests.linear import check_linear, repeated

PYTHON = (
    "Traceback (most recent call last):\n"
    + "".join(f'  File "/srv/app/{n}.py", line {n}, in run\n    return call(context, payload)\n' for n in range(9))
    + "KeyError: 'harbour'\n"
)
JAVA = (
    'Exception in thread "main" org.example.StartException: cannot start\n'
    + "".join(f"\tat org.example.Main.run{n}(Main.java:{n})\n" for n in range(20))
    + "Caused by: java.net.UnknownHostException: smtp.example.org\n"
    + "".join(f"\tat java.net.Address.lookup{n}(Address.java:{n})\n" for n in range(9))
    + "\t... 12 more\n"
)
RUST = (
    "thread 'main' panicked at src/store.rs:14:37:\ncalled `unwrap()` on an `Err` value: Too many open files\n"
    + "stack backtrace:\n"
    + "".join(f"   {n}: store::open\n             at ./src/store{n}.rs:{n}:22\n" for n in range(9))
)
NET = (
    "Unhandled exception. System.AggregateException: One or more errors occurred.\n"
    " ---> System.DllNotFoundException: Unable to load shared library 'libgdiplus'.\n"
    + "".join(f"   at Bills.Page.Draw{n}(Int32 page)\n" for n in range(9))
    + "   --- End of inner exception stack trace ---\n"
)
BUILD = (
    "".join(f"[ {n}%] Building object src/gate.dir/part{n}.c.o\n" for n in range(1, 9))
    + "".join(f"part.c:(.text+0x{n}e): in function `curve':\n" for n in range(1, 3))
    + "part.c: undefined reference to `pow'\n"
)
LOG = "".join(f"2026-03-01 12:00:{n} INFO worker {n} waits for a job of the queue\n" for n in range(10, 30))


@pytest.mark.parametrize(
    ("pasted", "first"),
    [
        (PYTHON, "KeyError: 'harbour'"),
        (PYTHON.replace("\n", ""), "KeyError: 'harbour'"),
        (JAVA, "Caused by: java.net.UnknownHostException: smtp.example.org"),
        (JAVA.replace("\n", " "), "Caused by: java.net.UnknownHostException: smtp.example.org"),
        (
            f"{LOG}2026-03-01 12:00:31 ERROR:  disk quota is full\n{LOG}",
            "2026-03-01 12:00:31 ERROR:  disk quota is full",
        ),
        (RUST, RUST.partition("\nstack")[0].replace("\n", " ")),
        (NET, " ---> System.DllNotFoundException: Unable to load shared library 'libgdiplus'."),
        (NET.replace("\n", " "), "---> System.DllNotFoundException: Unable to load shared library 'libgdiplus'."),
        (BUILD, "part.c: undefined reference to `pow'"),
        (f"{BUILD}  a.c:2:10: fatal error: tide.h: No such file\n  gcc failed\nERROR: no wheel\n", "ERROR: no wheel"),
        (
            f"{LOG}kernel: Killed process 18 (sql)\n{LOG.replace('waits', 'error=none')}",
            "kernel: Killed process 18 (sql)",
        ),
        (f"{BUILD}error[E0502]: cannot borrow\nerror: could not compile\n", "error[E0502]: cannot borrow"),
    ],
)
def test_the_error_is_read_first(pasted: str, first: str) -> None:
    telling = error_lines(pasted)
    assert telling.partition("\n")[0] == first
    assert "context" not in telling
    assert len(telling) < len(pasted) / 3


@pytest.mark.parametrize(
    "text",
    [
        "KeyError: 'harbour'",
        "how do I mend an error",
        LOG,
        "I rebuild the index each night.\nSometimes there is an error that I do not understand.\n\n"
        "- I tried to restart\n- I tried again\n\nThe machine has eight cores, and the folder is on a network drive, "
        "which may matter. What "
        "could I do about it, and where would I look first of all?",
    ],
)
def test_other_texts_are_read_whole(text: str) -> None:
    assert error_lines(text) == text


def test_the_sentences_nearest_to_a_passage_are_read_in_their_order() -> None:
    text = "Good morning everybody. The vacuum is too slow here.\n\nSee you.\n\nOk?\n\nThe table grows each night."
    text += "\n\n感谢大家的热情帮助。请问如何清理死元组？"
    nearness = {"The vacuum is too slow here.": 0.58, "The table grows each night.": 0.57, "请问如何清理死元组？": 0.6}

    def measure(sentences):
        assert "Ok?" not in sentences, "it is too short to mean anything"
        return np.array([nearness.get(each, 0.2) for each in sentences], np.float32)

    assert nearest_sentences(text, measure) == " ".join(nearness)
    below = nearest_sentences(text, lambda sentences: -np.arange(1, len(sentences) + 1, dtype=np.float32))
    assert below == "Good morning everybody.", "all are farther than unrelated texts"
    assert nearest_sentences("one sentence " * 90, measure) == "one sentence " * 90


def test_quotes_and_dashes_of_a_traceback_are_no_syntax() -> None:
    query = read_query(JAVA)
    assert query.required == ()
    assert query.excluded == ()
    assert parse_query(JAVA).meaning == error_lines(JAVA)
    table = 'TYPE REASON MESSAGE\nNormal Pulled Pulled "orders:1.18"\n'
    assert parse_query(table).required == ()


def test_long_texts_take_linear_time() -> None:
    for piece in ("  at a.b(", "\t", " x", "Error: ", "aError", "a.Error.", "#1 "):
        check_linear(error_lines, repeated(piece), 1 << 17)
