"""Near-duplicates: 64 bits of a text, of which like texts differ in few.

One-bit minwise hashing (Li and König 2010) of the set of shingles of three words: two texts that share a part J of
their shingles differ in about 32 (1 - J) of 64 bits. SimHash differs in twice as many where texts are alike, so it
tells an edited copy less well from another text on the same subject, and counting shingles instead of taking their
set, as it is mostly done, makes any two tables with the same filler look alike.
"""

import hashlib
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from indexer.generation.lexical.analysis import fold, words

NEAR = 2
"""Texts whose signatures differ in at most so many bits count as the same: at most about one word in a hundred."""
_SHINGLE = 3  # words
_BITS = 64


def _odd_numbers(count: int) -> npt.NDArray[np.uint64]:
    digests = (hashlib.blake2b(bytes([number]), digest_size=8).digest() for number in range(count))
    return np.array([int.from_bytes(digest, "little") | 1 for digest in digests], dtype=np.uint64)


_PLACES = _odd_numbers(_SHINGLE)  # one for each word of a shingle, so that their order counts
_ORDERS = _odd_numbers(_BITS)  # each puts the shingles into another order


def signature(text: str) -> int:
    """Return the signature of a text, 64 bits. Case, accents, punctuation and white space do not count."""
    hashes = np.fromiter(map(_hash, words(text).findall(text)), dtype=np.uint64)
    shingles = np.zeros(max(len(hashes) - _SHINGLE + 1, 1), dtype=np.uint64)
    for place, factor in enumerate(_PLACES):
        part = hashes[place : place + len(shingles)] * factor
        shingles[: len(part)] += part
    shingles ^= shingles >> np.uint64(32)  # products carry upwards only: bring what the high bits know to the low ones
    first = (shingles[:, np.newaxis] * _ORDERS).min(axis=0)  # of each order
    bits = (first * _ORDERS) >> np.uint64(63)
    return int.from_bytes(np.packbits(bits.astype(np.uint8), bitorder="little").tobytes(), "little")


def distance(a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    """Return in how many bits signatures differ, of the shape to which a and b broadcast."""
    return np.asarray(np.bitwise_count(a ^ b), dtype=np.uint8)


@lru_cache(maxsize=1 << 16)
def _hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(fold(word).encode("utf-8", "replace"), digest_size=8).digest(), "little")
