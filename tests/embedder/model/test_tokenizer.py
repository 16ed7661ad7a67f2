from dataclasses import replace

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers

from embedder.config import PACKAGED, locate
from embedder.model.spec import read_spec
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


def test_a_word_is_known_if_it_is_a_token(tokenizer):
    assert all(map(tokenizer.has, ("vacuum", "Princess", "solitary")))
    assert not any(map(tokenizer.has, ("vacum", "leuekmogenesis", "a vacuum", "", "🙂🙂")))


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("How do I restore a backup of the database?", 0, 0.05),
        ("Wie stelle ich eine Sicherung der Datenbank wieder her?", 0, 0.25),
        ("Veritabanının yedeğini nasıl geri yüklerim?", 0.2, 0.5),
        ("Πώς επαναφέρω ένα αντίγραφο ασφαλείας;", 0.8, 1),
        ("मैं डेटाबेस का बैकअप कैसे पुनर्स्थापित करूं?", 0.8, 1),
        ("数据库的备份怎么恢复？", 0.3, 1),
        ("데이터베이스 백업을 복원하려면?", 0.8, 1),
        ("12345 -> ...", 0, 0),
    ],
)
def test_the_pieces_of_other_languages_are_broken(tokenizer, text, least, most):
    broken, pieces = tokenizer.count_broken([text])
    assert least <= broken / max(1, pieces) <= most
    assert tokenizer.count_broken([text, text]) == (2 * broken, 2 * pieces)


@pytest.mark.parametrize("text", [*TEXTS, "zyzzyva leuekmogenesis", "안녕 नमस्ते Größe"])
def test_one_encoding_gives_the_ids_and_what_is_broken(tokenizer, text):
    spec = replace(read_spec(locate(PACKAGED)), query_prompt="Frage 不: ")
    prompted = Tokenizer(spec)
    for each in (tokenizer, prompted):
        assert each.read(text, "query").ids == each([text], "query")[0]
    if len(text) < 1000:
        assert prompted.read(text, "query").broken == tokenizer.count_broken([text])  # the prompt does not count


def test_no_more_is_in_memory_than_a_few_texts_however_long(tokenizer, monkeypatch):
    class Recorder:
        def __init__(self, real):
            self.real, self.sizes = real, []

        def __getattr__(self, name):
            return getattr(self.real, name)

        def encode_batch_fast(self, texts):
            self.sizes.append(sum(map(len, texts)))
            return self.real.encode_batch_fast(texts)

    for name in ("_truncating", "_untruncated"):
        monkeypatch.setitem(tokenizer.__dict__, name, Recorder(getattr(tokenizer, name)))
    long, many = "a, " * 100_000, ["the words of it " * 400] * 40
    assert tokenizer([long, *many], "query") == tokenizer([long[:5_000], *(text[:5_000] for text in many)], "query")
    assert tokenizer.count([long, *many], "document") == [200_002, *[1_602] * 40]
    assert max(tokenizer._truncating.sizes + tokenizer._untruncated.sizes) <= 65_536


@pytest.mark.parametrize(
    ("model", "pre_tokenizer"),
    [
        (models.Unigram([("<unk>", 0.0), ("▁pump", -1.0), ("s", -2.0)], unk_id=0), pre_tokenizers.Metaspace()),
        (
            models.BPE({"p": 0, "u": 1, "Ġ": 2, "Ġp": 3, "Ġpu": 4, "s": 5}, [("Ġ", "p"), ("Ġp", "u")]),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ),
    ],
)
def test_a_word_is_known_by_tokens_that_begin_with_a_space(model, pre_tokenizer, tmp_path, tokenizer, monkeypatch):
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = pre_tokenizer
    monkeypatch.setattr(tokenizer, "_truncating", made)
    known = "pump" if isinstance(model, models.Unigram) else "pu"
    assert tokenizer.has(known)
    assert not tokenizer.has(f"{known}s")


def test_same_ids_as_transformers(tokenizer, packaged_model):
    from transformers import AutoTokenizer

    reference = AutoTokenizer.from_pretrained(packaged_model)
    texts = [text for text in TEXTS if "\ud800" not in text]
    expected = reference(texts, truncation=True, max_length=256, padding=False)["input_ids"]
    assert tokenizer(texts, "document") == expected


def test_the_tokens_of_a_text_are_those_of_its_parts_and_know_their_places(tokenizer):
    parts = ["Ünïcödé naïve-test,", "  12 > x  (ISTANBUL)"]
    whole, *each = tokenizer.spans(["\n\n".join(parts), *parts])
    assert tokenizer.splits_at_space
    assert whole.ids.tolist() == [number for tokens in each for number in tokens.ids]
    start = len(parts[0]) + 2
    assert whole.between(start, start + len(parts[1])).ids.tolist() == each[1].ids.tolist()
    assert tokenizer.join_document(each).tolist() == tokenizer.rows(["\n\n".join(parts)], "document")[0].tolist()
