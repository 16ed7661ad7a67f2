"""Which sentence of a passage is nearest to a query in meaning: what is worth marking where no word matches."""

import re
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Span = tuple[int, int]  # characters [start, end)
Vectors = npt.NDArray[np.float32]

MOST = 12  # sentences of a passage that are looked at
SHORTEST = 12  # characters; less is a label or a number
# An end of a line, or a full stop with what closes around it; scripts without spaces need none after it. A row of full
# stops, as tables of contents have, is looked at once.
_END = re.compile(r"""\n+|(?<![.!?…])[.!?…]++["'”’»)\]]*+(?=\s)|[。！？｡]+[」』”）]*""")


def split_sentences(text: str) -> list[Span]:
    """Return the spans of the sentences and lines of a text, in order, without white space around them."""
    spans: list[Span] = []
    start = 0
    for end in [*(match.end() for match in _END.finditer(text)), len(text)]:
        piece = text[start:end]
        left = start + len(piece) - len(piece.lstrip())
        right = start + len(piece.rstrip())
        if right - left >= SHORTEST:
            spans.append((left, right))
        start = end
    return spans


def nearest_sentences(
    query: Vectors, texts: Sequence[str], encode: Callable[[list[str]], Vectors]
) -> list[Span | None]:
    """Return for each text the span of the sentence nearest to a query; None where there are not two to choose from.

    Args:
        query: unit vector, float32 (dim,).
        texts: passages.
        encode: embeds documents as unit vectors, float32 (n, dim); called once for all passages, or not at all.
    """
    spans = [split_sentences(text)[:MOST] for text in texts]
    chosen = [own if len(own) > 1 else [] for own in spans]
    sentences = [text[start:end] for text, own in zip(texts, chosen, strict=True) for start, end in own]
    if not sentences:
        return [None] * len(texts)
    likeness = iter((encode(sentences) @ query).tolist())
    return [max(own, key=lambda _: next(likeness)) if own else None for own in chosen]
