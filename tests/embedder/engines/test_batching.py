import random

import pytest

from embedder.engines.pytorch import group_by_length, pad


def padding(lengths, batches):
    padded = sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)
    return padded / sum(lengths) - 1


def test_every_text_is_in_exactly_one_batch():
    lengths = [random.Random(3).randint(2, 256) for _ in range(1000)]
    batches = group_by_length(lengths)
    assert sorted(i for batch in batches for i in batch) == list(range(1000))


def test_the_budget_holds_and_little_is_padded():
    generator = random.Random(4)
    lengths = [generator.randint(2, 256) for _ in range(2000)]
    batches = group_by_length(lengths, budget=4096)
    assert all(len(batch) * max(lengths[i] for i in batch) <= 4096 for batch in batches)
    assert padding(lengths, batches) < 0.05


@pytest.mark.parametrize("lengths", [[], [7], [9000]])
def test_edges(lengths):
    assert group_by_length(lengths, budget=4096) == [[i] for i in range(len(lengths))]


def test_padding_is_on_the_right_and_masked():
    ids, mask = pad([[101, 7, 102], [101, 102]], 9)
    assert ids.tolist() == [[101, 7, 102], [101, 102, 9]]
    assert mask.tolist() == [[1, 1, 1], [1, 1, 0]]
