"""Every target of `targets.py`, for a moment."""

import random
from functools import cache

import pytest

from tests.properties.targets import changed, make_targets

TARGETS = cache(make_targets)
NAMES = (
    "query",
    "robots",
    "sitemap",
    "front matter",
    "page",
    "directives",
    "mail",
    "access list",
    "number",
    "filter",
    "tools",
)


@pytest.mark.parametrize("name", [*NAMES, "search", "packed model", "safetensors", "archive"])
def test_bytes_of_strangers(name: str, run_seed: int) -> None:
    assert TARGETS().keys() == {*NAMES, "search", "packed model", "safetensors", "archive"}
    dice, target = random.Random(f"{run_seed} {name}"), TARGETS()[name]
    for seed in target.seeds:
        target.run(seed)
    for _ in range(40):
        target.run(changed(dice.choice(target.seeds), dice))
