"""Whether times tell what a key may not see from what is not there: `python -m tests.security.timing [CALLS]`.

Both kinds are asked in random order, and their times compared by the tests of Kolmogorov and Smirnov and of Mann and
Whitney; needs SciPy.
"""

import random
import sys
import tempfile
import time
from pathlib import Path

from flask.testing import FlaskClient
from scipy.stats import ks_2samp, mannwhitneyu

from indexer.generation.catalogue import document_id
from rag.serving.scope import Scope
from tests.rag.conftest import Site
from tests.security.test_leaks import RED, page, world

CALLS = 2000  # of each kind
DOCUMENTS = 400


def main(calls: int) -> None:
    """Print a line for each pair of questions."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        site = Site(folder)
        chance = random.Random(1)
        words = ["".join(chance.choices("abcdefghijklmnop", k=9)) for _ in range(DOCUMENTS * 3 // 2)]
        seen, unseen, absent = (words[start::3] for start in range(3))
        for team, group in {"red": seen, "blue": unseen}.items():
            for word in group:
                (site.source / f"{word}.md").write_text(page(word, f"{word} " * 200, team))
        site.build()
        site.build(collection="hidden")
        hidden, missing = (
            [document_id((site.source / f"{word}.md").as_uri()) for word in group] for group in (unseen, absent)
        )
        with world(site, folder, "read", Scope.of(["default"], [RED])) as one:
            for what, path in {"document": "/api/v1/documents/{}", "page": "/document/{}"}.items():
                compare(what, one.client, [[path.format(id) for id in ids] for ids in (hidden, missing)], calls)
            names = [["/api/v1/search?q=index&collection=hidden"], ["/api/v1/search?q=index&collection=absent"]]
            compare("collection", one.client, names, calls)
            typed = [[f"/api/v1/suggest?q=about+{word}" for word in group] for group in (unseen, absent)]
            compare("suggestion", one.client, typed, calls)
            asked = [[f"/api/v1/search?mode=lexical&q={word}" for word in group] for group in (unseen, absent)]
            compare("word", one.client, asked, calls)


def compare(what: str, client: FlaskClient, kinds: list[list[str]], calls: int) -> None:
    """Ask both kinds of addresses in random order, and print how far their times are apart."""
    chance = random.Random(3)
    order = [kind for kind in (0, 1) for _ in range(calls)]
    chance.shuffle(order)
    times: tuple[list[float], list[float]] = ([], [])
    for kind in [0, 1] * 50 + order:  # the first ones warm up
        address = chance.choice(kinds[kind])
        began = time.perf_counter()
        client.get(address)
        times[kind].append((time.perf_counter() - began) * 1e6)
    first, second = (each[50:] for each in times)
    middle = [sorted(each)[len(each) // 2] for each in (first, second)]
    ks, mw = ks_2samp(first, second).pvalue, mannwhitneyu(first, second).pvalue
    print(f"{what}: hidden {middle[0]:.0f} µs, missing {middle[1]:.0f} µs, p {ks:.3f} (KS), {mw:.3f} (MW)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else CALLS)
