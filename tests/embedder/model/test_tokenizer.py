import pytest

from embedder.model.spec import PACKAGED, locate, read_spec
from embedder.model.tokenizer import Tokenizer

TEXTS = ["", " ", "a partial index", "naïve café — 你好 🙂", "x\x00y\ud800z", "word " * 1000, "a" * 5000]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(read_spec(locate(PACKAGED)))


def test_never_longer_than_the_model_allows(tokenizer):
    rows = tokenizer(TEXTS, "document")
    assert max(map(len, rows)) == 256
    assert min(map(len, rows)) == 2
    assert max(tokenizer.count(TEXTS, "document")) > 256


def test_one_text_alone_or_among_others_gives_the_same_ids(tokenizer):
    assert tokenizer(TEXTS, "query") == [tokenizer([text], "query")[0] for text in TEXTS]


def test_same_ids_as_transformers(tokenizer, packaged_model):
    from transformers import AutoTokenizer

    reference = AutoTokenizer.from_pretrained(packaged_model)
    texts = [text for text in TEXTS if "\ud800" not in text]
    expected = reference(texts, truncation=True, max_length=256, padding=False)["input_ids"]
    assert tokenizer(texts, "document") == expected
