"""Turns texts into token ids with the model's own tokenizer. Imports no torch."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import tokenizers

from embedder.errors import ModelError
from embedder.model.spec import ModelSpec
from embedder.protocol import Role

_SPACE = "▁Ġ"  # what stands for the space before a word, in the tokens of SentencePiece and of byte-level BPE


class Tokenizer:
    """A model's tokenizer, with its prompts, truncation and padding. Safe to share between threads."""

    def __init__(self, spec: ModelSpec) -> None:
        self.max_length = spec.max_length
        self._lowercase = spec.lowercase
        self._prompts: dict[Role, str] = {"query": spec.query_prompt, "document": spec.document_prompt}
        self._path = spec.tokenizer
        self._truncating = load_tokenizer(self._path)
        self._truncating.no_padding()
        self._truncating.enable_truncation(spec.max_length)

    @cached_property
    def _whole(self) -> tokenizers.Tokenizer:
        """The same without truncation. Searches do not need it, and it holds 20 MB."""
        tokenizer = load_tokenizer(self._path)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    def __call__(self, texts: Sequence[str], role: Role) -> list[list[int]]:
        """Return the token ids of each text, prompt and special tokens included, truncated to `max_length`."""
        prepared = [self._prepare(text, role) for text in texts]
        if len(prepared) == 1:
            return [self._truncating.encode(prepared[0]).ids]  # a batch of one starts a thread pool for nothing
        return [encoding.ids for encoding in self._truncating.encode_batch_fast(prepared)]

    def count(self, texts: Sequence[str], role: Role) -> list[int]:
        """Return the length of each text in tokens, prompt and special tokens included, without truncation."""
        return [len(e.ids) for e in self._whole.encode_batch_fast([self._prepare(t, role) for t in texts])]

    def has(self, word: str) -> bool:
        """Return whether the model has a token for a whole word, without regard to case."""
        word = tokenizable(word.lower())
        first_or_not = (word, f" {word}")  # some tokenizers tell the beginning of a text from what follows a space
        spelled = [self._truncating.encode(text, add_special_tokens=False).tokens for text in first_or_not]
        return any(len(tokens) == 1 and tokens[0].lstrip(_SPACE).lower() == word for tokens in spelled)

    def _prepare(self, text: str, role: Role) -> str:
        text = self._prompts[role] + text
        if self._lowercase:
            text = text.lower()
        return tokenizable(text)


class PairTokenizer:
    """A cross-encoder's tokenizer, with truncation. Safe to share between threads.

    The type of a token, 1 in the second text for a model that has types, is written into its id, which is then the
    token plus the type times the size of the vocabulary: so a row of ids says everything, for every engine.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self._types = spec.token_types
        self._vocabulary = int(spec.config["vocab_size"])
        self._tokenizer = load_tokenizer(spec.tokenizer)
        # what is too long is cut token by token off the longer of the two, as transformers does
        self._tokenizer.enable_truncation(spec.max_length, strategy="longest_first")
        self._tokenizer.no_padding()

    def __call__(self, query: str, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of the query with each text, special tokens included, truncated to the model's length."""
        query = tokenizable(query)
        encodings = self._tokenizer.encode_batch_fast([(query, tokenizable(text)) for text in texts])
        if self._types == 1:
            return [encoding.ids for encoding in encodings]
        size = self._vocabulary
        return [
            [token + size * kind for token, kind in zip(encoding.ids, encoding.type_ids, strict=True)]
            for encoding in encodings
        ]


def tokenizable(text: str) -> str:
    """Return a text without lone surrogates, which are not text to a tokenizer and would stop it."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def load_tokenizer(path: Path) -> tokenizers.Tokenizer:
    """Read a tokenizer's file. Raises ModelError."""
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception for every damaged file
        raise ModelError(f"{path} is damaged ({error}): fetch the model again") from error
