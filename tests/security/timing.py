"""Whether times tell what a key may not see from what is not there: `python -m tests.security.timing [CALLS [WHAT …]]`.

Both kinds are asked of a real server in random order, and their times compared by the tests of Kolmogorov and Smirnov
and of Mann and Whitney: as they come over loopback, and without pacing, inside one process. Needs SciPy.
"""

import multiprocessing
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

from flask import Flask
from scipy.stats import ks_2samp, mannwhitneyu

from indexer.generation.catalogue import document_id
from rag.serving.live import LiveRetriever
from rag.serving.scope import Scope
from rag.settings import Settings, load
from tests.dummy import DummyEmbedder
from tests.rag.conftest import Site, wait_for
from tests.security.test_leaks import KEY, RED, page, world
from tests.web.server.test_server import free_port
from web.app import create_app
from web.server.__main__ import serve

CALLS = 2000  # of each kind
DOCUMENTS = 400
Questions = Mapping[str, list[list[str]]]  # addresses of either kind, by what they are about


def main(calls: int, only: Sequence[str] = ()) -> None:
    """Print a line for each pair of questions, or for those about some things alone."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        site = Site(folder)
        questions = {what: kinds for what, kinds in build(site).items() if what in only or not only}
        with world(site, folder, "read", Scope.of(["default"], [RED])) as one:
            settings = load({"index": str(site.index), "keys": str(folder / "keys.json"), "port": free_port()}, {})
            with serving(settings) as ask:
                for what, kinds in questions.items():
                    compare(f"{what}, over loopback", ask, kinds, calls)
            for what, kinds in questions.items():
                compare(f"{what}, not paced", one.client.get, kinds, calls)


def build(site: Site) -> Questions:
    """Index documents that are seen and others, and return questions for these, and for such as are not there."""
    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefghijklmnop", k=9)) for _ in range(DOCUMENTS * 3 // 2)]
    seen, unseen, absent = (words[start::3] for start in range(3))
    for team, group in {"red": seen, "blue": unseen}.items():
        for word in group:
            (site.source / f"{word}.md").write_text(page(word, f"{word} " * 200, team))
    site.build()
    site.build(collection="hidden")

    def asked(address: str) -> list[list[str]]:
        return [[address.format(word) for word in group] for group in (unseen, absent)]

    ids = [[document_id((site.source / f"{word}.md").as_uri()) for word in group] for group in (unseen, absent)]
    return {
        "document": [[f"/api/v1/documents/{id}" for id in group] for group in ids],
        "page": [[f"/document/{id}" for id in group] for group in ids],
        "collection": [[f"/api/v1/search?q=index&collection={name}"] for name in ("hidden", "absent")],
        "suggestion": asked("/api/v1/suggest?q=about+{}"),
        "word": asked("/api/v1/search?mode=lexical&q={}"),
        "word, hybrid": asked("/api/v1/search?q={}"),
    }


@contextmanager
def serving(settings: Settings) -> Iterator[Callable[[str], object]]:
    """Give what asks a server, a process of its own, on one connection."""
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(settings,))
    process.start()
    try:
        with closing(HTTPConnection("127.0.0.1", settings.port)) as connection:
            headers = {"Authorization": f"Bearer {KEY}"}

            def ask(address: str) -> bytes:
                connection.request("GET", address, headers=headers)
                return connection.getresponse().read()

            def answers() -> bool:
                try:
                    return b"hits" in ask("/api/v1/search?q=index")
                except OSError:
                    connection.close()
                    return False

            wait_for(answers, 300)
            yield ask
    finally:
        process.terminate()
        process.join()


def _serve(settings: Settings) -> None:
    def factory() -> Flask:
        retriever = LiveRetriever(settings, lambda _: DummyEmbedder())
        retriever.start()
        return create_app(retriever, settings)

    serve(factory, settings)


def compare(what: str, ask: Callable[[str], object], kinds: list[list[str]], calls: int) -> None:
    """Ask both kinds of addresses in random order, and print how far their times are apart."""
    chance = random.Random(3)
    order = [kind for kind in (0, 1) for _ in range(calls)]
    chance.shuffle(order)
    times: tuple[list[float], list[float]] = ([], [])
    for kind in [0, 1] * 50 + order:  # the first ones warm up
        address = chance.choice(kinds[kind])
        began = time.perf_counter()
        ask(address)
        times[kind].append((time.perf_counter() - began) * 1e6)
    first, second = (each[50:] for each in times)
    middle = [sorted(each)[len(each) // 2] for each in (first, second)]
    ks, mw = ks_2samp(first, second).pvalue, mannwhitneyu(first, second).pvalue
    print(f"{what}: hidden {middle[0]:.0f} µs, missing {middle[1]:.0f} µs, p {ks:.3g} (KS), {mw:.3g} (MW)", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else CALLS, sys.argv[2:])
