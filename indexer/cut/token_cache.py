"""The tokens of a document's texts: each paragraph is tokenized once, and then counted, cut and embedded."""

from collections.abc import Iterable
from itertools import accumulate

from embedder.model.tokenizer import TextTokens, Tokenizer
from indexer.cut.cuts import min_tokens

_BREAK = "\n\n"


class TokenCache:
    """Tokenizes texts and remembers their paragraphs, until it is cleared."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._tokens: dict[str, TextTokens] = {}
        self.clear = self._tokens.clear

    def load(self, texts: Iterable[str]) -> None:
        """Tokenize texts in one call."""
        paragraphs = dict.fromkeys(paragraph for text in texts for paragraph in self._paragraphs(text))
        missing = [paragraph for paragraph in paragraphs if paragraph not in self._tokens]
        if missing:
            self._tokens |= zip(missing, self._tokenizer.spans(missing), strict=True)

    def tokens(self, text: str) -> TextTokens:
        """Return the tokens of a text."""
        self.load([text])
        starts = accumulate((len(part) + len(_BREAK) for part in text.split(_BREAK)), initial=0)
        paragraphs = [self._tokens[paragraph] for paragraph in self._paragraphs(text)]
        return TextTokens.join(paragraphs, list(starts)[: len(paragraphs)])

    def count(self, text: str) -> int:
        """Return the length of a text in tokens, without special tokens."""
        self.load([text])
        count = sum(len(self._tokens[paragraph].ids) for paragraph in self._paragraphs(text))
        return max(count, min_tokens(text))

    def _paragraphs(self, text: str) -> list[str]:
        """Return the parts of a text whose tokens are those of the text."""
        return [part.rstrip() for part in text.split(_BREAK)] if self._tokenizer.splits_at_space else [text]
