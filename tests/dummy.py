"""Replace the embedder and the cross-encoder by fast ones without a model, to test the other modules."""

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from embedder.config import Role
from embedder.late_interaction import DocumentTokens, Floats, QueryTokens, maxsim, to_signs, unit
from embedder.model.tokenizer import TextTokens, TokenizedText

_TOKEN = re.compile(r"\w+|[^\w\s]")
KNOWN = frozenset({"lovers"})  # words in the vocabulary of a model
_SPECIAL = 2  # tokens that a model adds: [CLS] and [SEP]
_STOP = frozenset("a an and are as do does for how i in is it of on or that the this to what with".split())


_NUMBERS = itertools.count(2)
_WORDS = {0: "[CLS]", 1: "[SEP]"}  # by id; tokenizing adds new words


class _Ids(dict[str, int]):
    """Ids by word. Several threads may add words."""

    def __missing__(self, word: str) -> int:
        if word != word.lower():
            return self.setdefault(word, self[word.lower()])
        number = next(_NUMBERS)
        _WORDS[number] = word
        return self.setdefault(word, number)


_IDS = _Ids()


class DummyTokenizer:
    """Splits a text into one token for each word or sign, ignoring case."""

    splits_at_space = True

    def spans(self, texts: Sequence[str]) -> list[TextTokens]:
        return [_tokens(text) for text in texts]

    def count(self, texts: Sequence[str], role: Role) -> list[int]:
        return [len(_TOKEN.findall(text)) + _SPECIAL for text in texts]

    def rows(self, texts: Sequence[str], role: Role) -> list[npt.NDArray[np.int32]]:
        return [self.join_document([tokens]) for tokens in self.spans(texts)]

    def join_document(self, parts: Sequence[TextTokens]) -> npt.NDArray[np.int32]:
        return np.concatenate([np.array([0], np.int32), *(part.ids for part in parts), np.array([1], np.int32)])


def _tokens(text: str) -> TextTokens:
    ids = [_IDS[word] for word in _TOKEN.findall(text)]
    return TextTokens(np.array(ids, np.int32), np.array([match.end() for match in _TOKEN.finditer(text)], np.int32))


class DummyEmbedder:
    """Embeds texts as hashed bags of words. Texts that share words get similar unit vectors, on every machine."""

    def __init__(self, dimension: int = 64, max_length: int = 256, name: str = "dummy") -> None:
        self._dimension = dimension
        self._max_length = max_length
        self._name = name
        self.encoded = 0  # texts embedded so far

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def max_length(self) -> int:
        return self._max_length

    @property
    def fingerprint(self) -> dict[str, Any]:
        return {"model": self._name, "dimension": self._dimension, "max_length": self._max_length}

    is_multilingual = False
    tokenizer = DummyTokenizer()

    def count_tokens(self, texts: Sequence[str], *, role: Role = "document") -> list[int]:
        return self.tokenizer.count(texts, role)

    def twin(self) -> "DummyEmbedder":
        return self

    def has_word(self, word: str) -> bool:
        return word.lower() in KNOWN

    def count_broken(self, texts: Sequence[str]) -> tuple[int, int]:
        words = [word for text in texts for word in _TOKEN.findall(text) if word.isalpha()]
        return sum(not word.isascii() for word in words), len(words)

    def tokenize(self, texts: Sequence[str], *, role: Role = "document") -> list[list[Any]]:
        most = self._max_length - _SPECIAL
        return [["[CLS]", *_TOKEN.findall(text.lower())[:most], "[SEP]"] for text in texts]

    def tokenize_query(self, text: str) -> TokenizedText:
        return TokenizedText(self.tokenize([text])[0], self.count_broken([text]))

    def encode_query_tokens(self, texts: Sequence[str]) -> list[QueryTokens]:
        made = [self.tokenize_query(text) for text in texts]
        vectors, tokens = self.encode_ids([each.ids for each in made], role="query", tokens=True)
        return [QueryTokens(*each) for each in zip(vectors, tokens, (each.broken for each in made), strict=True)]

    def encode_document_tokens(
        self, texts: Sequence[str], rows: Sequence[Sequence[Any]] | None = None
    ) -> DocumentTokens:
        vectors = self.encode(texts) if rows is None else self.encode_ids(rows)[0]
        tokens = [self._tokens(row) for row in (self.tokenize(texts) if rows is None else rows)]
        signs = to_signs(np.concatenate([np.empty((0, self._dimension), np.float32), *tokens]))
        return DocumentTokens(vectors, signs, np.array([len(each) for each in tokens], np.int32))

    maxsim = staticmethod(maxsim)

    def _tokens(self, row: Sequence[Any]) -> Floats:
        made = [_drawn(word, self._dimension) for word in _words(row)]
        return unit(np.array(made, np.float32).reshape(-1, self._dimension))

    def encode(self, texts: Sequence[str], *, role: Role = "document") -> npt.NDArray[np.float32]:
        return self.encode_ids(self.tokenize(texts, role=role), role=role)[0]

    def encode_ids(
        self, rows: Sequence[Sequence[Any]], *, role: Role = "document", tokens: bool = False
    ) -> tuple[Floats, list[Floats]]:
        vectors = np.zeros((len(rows), self._dimension), dtype=np.float32)
        for vector, row in zip(vectors, rows, strict=True):
            for word, count in Counter(_words(row)).items():
                sign, number = _hashed(word)
                vector[number % self._dimension] += sign * count
        self.encoded += len(rows)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        empty = norms[:, 0] == 0
        vectors[empty, 0] = 1.0
        norms[empty] = 1.0
        return vectors / norms, [self._tokens(row) for row in rows] if tokens else []


def _words(row: Sequence[Any]) -> list[str]:
    """Return the words of a row of tokens, without the special tokens."""
    return [token if isinstance(token, str) else _WORDS[token] for token in row[1:-1]]


@lru_cache(1 << 14)
def _hashed(word: str) -> tuple[float, int]:
    digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
    return 0.0 if word in _STOP else 1.0 if digest[0] & 1 else -1.0, int.from_bytes(digest[1:5], "little")


@lru_cache(1 << 14)
def _drawn(word: str, dimension: int) -> Floats:
    """Return a pseudo-random vector for a word, which is the same in all texts."""
    seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest())
    return np.random.default_rng(seed).standard_normal(dimension, np.float32)


class DummyCrossEncoder:
    """Scores a text by the number of its words that are in the query, minus 0.01 for each token."""

    name = "dummy-cross"

    def __init__(self) -> None:
        self.runs: list[int] = []  # number of pairs in each run
        self.texts: list[str] = []  # texts of all calls of `pairs`

    def pairs(self, query: str, texts: Sequence[str]) -> list[list[int]]:
        wanted = set(_TOKEN.findall(query.lower())) - _STOP
        self.texts += texts
        return [[word in wanted for word in _TOKEN.findall(text.lower())] + [False] for text in texts]

    def logits(self, rows: Sequence[list[int]]) -> npt.NDArray[np.float32]:
        self.runs.append(len(rows))
        return np.array([sum(row) - 0.01 * len(row) for row in rows], np.float32)

    def to_scores(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        return 10 * logits
