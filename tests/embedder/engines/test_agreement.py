"""The correctness kit: every engine and precision against eager fp32, on real sentences of several languages."""

import dataclasses
import itertools
import pydoc_data.topics
import random
import re
import subprocess
from functools import cache

import numpy as np
import pytest
import torch
from torch._dynamo.utils import counters

from embedder import EmbedderConfig, Embeddings, cpu
from embedder.engines import library
from embedder.errors import EmbedderError

pytestmark = [
    pytest.mark.model,
    pytest.mark.longest,
    # torch's own export and compile paths warn about themselves
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]
OTHER_LANGUAGES = """
Größere Tabellen brauchen größere Indizes, und zwar überall.|Comment créer un index partiel ?
El niño comió una piña muy dulce en la montaña.|Perché l'indice è più piccolo della tabella?
A manutenção começará amanhã às três da tarde.|Сервер отвечает на запросы, не дожидаясь диска.
昨日は雨が降ったので、散歩に行きませんでした。|崩溃之后,日志会从头开始重新读取。|부분 인덱스를 어떻게 만드나요?
يجيب الخادم عن الاستعلامات دون انتظار القرص.|השרת עונה לשאילתות בלי לחכות לדיסק.
सर्वर डिस्क की प्रतीक्षा किए बिना प्रश्नों का उत्तर देता है।|Πώς δημιουργώ ένα μερικό ευρετήριο;
Máy chủ trả lời truy vấn mà không cần chờ đĩa.|Serwer odpowiada na zapytania, nie czekając na dysk.
"""
WORDS = ["the", "partial", "index", "of", "a", "table", "scans", "rows", "während", "naïve", "索引", "ключ", "x1", "42"]
# Cosine to eager fp32: worst and mean over all texts.
BOUNDS = {"fp32": (0.999999, 0.999999), "bf16": (0.9999, 0.9999), "int8": (0.985, 0.99)}
# Texts of no word, which the model marks with its largest activations: 7 bits, as int8 has on AVX2, are coarse there.
WORDLESS = ["", " ", "\x00", "\ud800"]
WORDLESS_7_BITS = 0.95
# Largest difference of a component between a text alone and in a batch; the native engine's is zero.
BATCH = {"fp32": 1e-5, "bf16": 1e-2, "int8": 3e-2}
COMPILE = ["compile-fp32", "compile-bf16"]
CASES = [  # these first: pytest tells a case by its place, and would load again what is elsewhere in another list
    *COMPILE,
    *("native-fp32", "native-bf16", "native-int8"),
    *("aot-fp32", "aot-bf16", "eager-bf16"),
]


def real_sentences() -> list[str]:
    """300 sentences: those above, and the rest from the language reference that every Python carries."""
    others = [sentence for line in OTHER_LANGUAGES.split("\n") for sentence in line.split("|") if sentence]
    reference = " ".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    english = (" ".join(s.split()) for s in re.split(r"(?<=[.?!])\s+", reference))
    return others + list(itertools.islice((s for s in english if len(s) > 20), 300 - len(others)))


@pytest.fixture(scope="module")
def texts():
    sentences = real_sentences()
    assert len(sentences) == 300
    joined = " ".join(sentences).split()
    every_length = [" ".join(joined[i : i + n]) for i, n in enumerate(range(1, 400, 13))]  # words; past the maximum
    return [*sentences, *every_length, "a" * 20_000, *WORDLESS]


@pytest.fixture(scope="module")
def eager(texts):
    """Return a function that gives for a model the vectors of all texts, and the tokens of some."""

    @cache
    def encode(model):
        embedder = Embeddings(EmbedderConfig(model=model, engine="eager", precision="fp32"))
        return embedder.encode(texts), embedder.encode_document_tokens(texts[:20])

    return encode


@pytest.fixture(scope="module", params=CASES)
def embeddings(request, one_layer):
    engine, precision = request.param.split("-")
    isa = cpu.detect().isa
    if engine == "native" and isa not in library.ISAS.get(library.architecture(), {}):
        pytest.skip(f"there are no native kernels for {isa}")
    if engine != "native" and precision == "bf16" and not cpu.detect().has_bf16:
        pytest.skip(f"bf16 by torch is scalar on {isa}, and takes minutes")
    model = {"model": str(one_layer)} if engine in {"compile", "aot"} else {}
    return Embeddings(EmbedderConfig(**model, engine=engine, precision=precision))


def test_agreement(embeddings, texts, eager):
    vectors = embeddings.encode(texts)
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-5
    cosines = (vectors * eager(embeddings.plan.config.model)[0]).sum(1)
    worst, mean = BOUNDS[embeddings.precision]
    words = slice(-len(WORDLESS))
    assert cosines[words].min() >= worst, texts[int(cosines[words].argmin())][:80]
    coarse = embeddings.precision == "int8" and cpu.detect().isa == "avx2"
    assert cosines.min() >= (WORDLESS_7_BITS if coarse else worst)
    assert cosines.mean() >= mean


def test_tokens(embeddings, texts, eager):
    some = texts[:20]
    _, eager_tokens = eager(embeddings.plan.config.model)
    vectors, signs, counts = embeddings.encode_document_tokens(some)
    assert np.abs(vectors - embeddings.encode(some)).max() <= 1e-6
    assert np.array_equal(counts, eager_tokens.counts)
    differing = np.unpackbits(signs ^ eager_tokens.signs).mean()
    assert differing <= {"fp32": 0.001, "bf16": 0.02, "int8": 0.1}[embeddings.precision]
    rows = embeddings.tokenize(some)
    assert counts.tolist() == [len(set(row)) for row in rows]  # each token of a document once
    for query, vector, row in zip(embeddings.encode_query_tokens(some), vectors, rows, strict=True):
        assert np.abs(query.vector - vector).max() <= 1e-6
        assert query.tokens.shape == (len(row), 384)
        assert np.abs(np.linalg.norm(query.tokens, axis=1) - 1).max() < 1e-5


def test_alone_or_in_a_batch(embeddings, texts):
    some = texts[:20] + texts[-30:]
    alone = np.concatenate([embeddings.encode([text]) for text in some])
    difference = np.abs(embeddings.encode(some) - alone).max()
    assert difference <= (0 if embeddings.plan.engine == "native" else BATCH[embeddings.precision])


def test_the_model_handle_is_kept(embeddings):
    assert isinstance(embeddings.model, torch.nn.Module)
    ids = torch.tensor([[101, 2023, 102]])
    with torch.inference_mode():
        assert embeddings.model(ids, torch.ones_like(ids)).shape == (1, 384)


def refuse(*command: object, **options: object) -> None:
    raise AssertionError(f"a process was started: {command}")


@pytest.mark.parametrize("embeddings", COMPILE, indirect=True)
def test_nothing_compiles_after_loading(embeddings, monkeypatch):
    generator = random.Random(7)
    lengths = [generator.randint(1, 30) for _ in range(470)] + [generator.randint(1, 600) for _ in range(30)]
    texts = [" ".join(generator.choices(WORDS, k=length)) for length in lengths]
    generator.shuffle(texts)  # batches of many sizes, of every length
    embeddings.encode(texts[:1])
    before = {name: dict(values) for name, values in counters.items()}
    monkeypatch.setattr(subprocess.Popen, "__init__", refuse)  # as every compiler is
    start = 0
    while start < len(texts):
        size = 1 + (start * 7) % 64
        embeddings.encode(texts[start : start + size])
        start += size
    assert {name: dict(values) for name, values in counters.items()} == before


def test_the_native_engine_is_refused_by_name_where_it_cannot_run(monkeypatch):
    old = dataclasses.replace(cpu.detect(), isa="generic")
    monkeypatch.setattr(cpu, "detect", lambda: old)
    with pytest.raises(EmbedderError, match="native engine does not run all-MiniLM-L6-v2 in fp32 on generic"):
        Embeddings(EmbedderConfig(engine="native", precision="fp32"))
