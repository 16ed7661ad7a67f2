"""Turns pairs of a query and a text into token ids with the model's own tokenizer. Imports no torch."""

from collections.abc import Sequence

from embedder.model.tokenizer import load_tokenizer, tokenizable
from embedder.pairs.cross_encoder import CrossEncoderSpec


class PairTokenizer:
    """A cross-encoder's tokenizer, with truncation. Safe to share between threads.

    The type of a token, 1 in the second text for a model that has types, is written into its id, which is then the
    token plus the type times the size of the vocabulary: so a row of ids says everything, for every engine.
    """

    def __init__(self, spec: CrossEncoderSpec) -> None:
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
