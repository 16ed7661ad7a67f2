import pytest

from rag.commands.serve import share_cores
from rag.settings import load


@pytest.mark.parametrize(
    ("engine", "cores", "asked", "shared"),
    [
        ("native", 1, (0, 0), (1, 1)),
        ("native", 2, (0, 0), (2, 1)),
        ("native", 64, (0, 0), (16, 4)),
        ("native", 8, (0, 2), (4, 2)),
        ("native", 8, (2, 0), (2, 4)),
        ("native", 2, (8, 0), (8, 1)),
        ("native", 2, (0, 8), (1, 8)),
        ("native", 2, (3, 5), (3, 5)),
        ("aot", 8, (0, 0), (1, 0)),  # 0: the package that the index was built with
        ("aot", 8, (0, 2), (4, 2)),
        ("aot", 8, (3, 0), (3, 0)),
        ("eager", 2, (0, 8), (1, 8)),
    ],
)
def test_workers_and_threads(engine, cores, asked, shared):
    settings = load({"workers": asked[0], "threads": asked[1]}, {})
    settings = share_cores(settings, engine, cores)
    assert (settings.workers, settings.threads) == shared
