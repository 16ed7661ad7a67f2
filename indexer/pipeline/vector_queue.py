"""Vectors in row order, whether they are made or taken over from an earlier generation."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait

import numpy as np
import numpy.typing as npt

from embedder.late_interaction import DocumentTokens
from embedder.protocol import encode_documents
from indexer import memory
from indexer.generation.writer import GenerationWriter
from indexer.pipeline.context import BuildContext
from indexer.pipeline.machines import ToCome
from indexer.records import Chunk

_TOGETHER = 512  # chunks embedded at once: sorted by length, batches of these are padded by under 5 %
_AT_ONCE = 64  # of these, after each of which the progress is told
_BLOCK = 4096  # chunks whose vectors are in memory at once, if most of them are taken over
_PATIENCE = 5.0  # seconds
_MADE = -1  # in place of the row of a vector that is not taken over


class _Counted:
    """Vectors to come, of which somebody is told when they are there."""

    def __init__(self, made: ToCome[DocumentTokens], tell: Callable[[], None]) -> None:
        self._made = made
        self._tell = tell

    def result(self) -> DocumentTokens:
        """Wait for them."""
        made = self._made.result()
        self._tell()
        return made


class VectorQueue:
    """Chunks go in, in row order; their vectors come out in the same order, block by block.

    One block is embedded while the chunks of the next are read and cut, or as many as a cluster has room for, so memory
    stays flat.
    """

    def __init__(self, context: BuildContext, store: GenerationWriter) -> None:
        """Take what makes vectors and what has some, and the writer that they go to.

        With a cluster, its machines make them instead of the embedder.
        """
        self._embedder = context.embedder
        self._earlier = context.earlier
        self._store = store
        self._with_tokens = bool(context.config.tokens)  # whether they are kept with the vectors
        self._stopwatch = context.ledger.stopwatch
        self._progress = context.progress
        self._cluster = context.cluster
        self._together = memory.share(_TOGETHER)
        self._texts: list[str] = []
        self._rows: list[int] = []
        self._lengths: list[int] = []  # of the texts, in tokens
        self._given = self._made = 0  # chunks to be embedded, and those that are
        self._tokens_given = self._tokens = 0  # the same in tokens
        self._told = threading.Lock()
        self._pending: deque[tuple[list[int], ToCome[DocumentTokens] | None]] = deque()
        self.embedded = 0  # chunks, so far
        self.carried = 0

    def put(self, chunks: Sequence[Chunk], rows: Sequence[int | None]) -> None:
        """Append chunks; where a row of the earlier generation is given, its vector is taken instead of made."""
        for chunk, row in zip(chunks, rows, strict=True):
            if row is None:
                self._texts.append(chunk.embedded_text)
                self._lengths.append(chunk.tokens)
                self._given += 1
                self._tokens_given += chunk.tokens
            self._rows.append(_MADE if row is None else row)
            if len(self._texts) >= self._together or len(self._rows) == _BLOCK:
                self._start()
        with self._told:
            self._progress.waiting(self._given - self._made, self._tokens_given - self._tokens)

    def finish(self) -> None:
        """Wait until the vectors of all chunks are stored."""
        self._start()
        self._collect(0)

    def close(self) -> None:
        """Wait a little for what is still being embedded: if the interpreter ends under it, it crashes."""
        wait([made for _, made in self._pending if isinstance(made, Future)], timeout=_PATIENCE)

    def _start(self) -> None:
        """Start to embed what waits, once there is room for it."""
        self._collect((self._cluster.blocks if self._cluster else 1) - 1)
        if not self._rows:
            return
        made = self._make(self._texts, self._lengths) if self._texts else None
        self._pending.append((self._rows, made))
        self._texts, self._rows, self._lengths = [], [], []

    def _make(self, texts: list[str], lengths: list[int]) -> ToCome[DocumentTokens]:
        if self._cluster is not None:
            started = self._cluster.encode(texts, self._stopwatch.add, tokens=self._with_tokens)
            return _Counted(started, lambda: self._tell(lengths))
        made: Future[DocumentTokens] = Future()
        # A daemon, and not a pool, so that an interrupt need not wait for ever.
        threading.Thread(target=self._encode, args=(texts, lengths, made), daemon=True).start()
        return made

    def _encode(self, texts: list[str], lengths: list[int], result: Future[DocumentTokens]) -> None:
        try:
            with self._stopwatch.timed("embed"):
                if self._embedder is None:
                    raise ValueError("there is nothing to embed with")
                made = []
                self._tell([])  # when it begins, which is not when the first are read: the model may be compiled first
                order = np.argsort(lengths, kind="stable")[::-1]
                for group in np.split(order, range(_AT_ONCE, len(texts), _AT_ONCE)):  # so that it is seen to go on
                    made.append(encode_documents(self._embedder, [texts[i] for i in group], tokens=self._with_tokens))
                    self._tell([lengths[i] for i in group])
                result.set_result(DocumentTokens.joined(made).of(np.argsort(order)))
        except BaseException as error:  # noqa: BLE001 - raised again where the result is collected
            result.set_exception(error)

    def _tell(self, lengths: list[int]) -> None:
        """Note that chunks of so many tokens each are embedded."""
        with self._told:
            self._made += len(lengths)
            self._tokens += sum(lengths)
            self._progress.chunks(
                waiting=self._given - self._made,
                embedded=self._made,
                tokens=self._tokens,
                tokens_waiting=self._tokens_given - self._tokens,
            )

    def _collect(self, most: int) -> None:
        """Store the oldest blocks, until no more than so many are on their way."""
        while len(self._pending) > most:
            self._store_oldest()

    def _store_oldest(self) -> None:
        rows, made = self._pending[0]
        encoded = made.result() if made is not None else None
        self._pending.popleft()
        with self._stopwatch.timed("write"):
            vectors, signs, counts = self._in_order(np.array(rows, dtype=np.int64), encoded)
            self._store.add_vectors(vectors)
            if self._with_tokens:
                self._store.add_tokens(signs, counts)
        count = 0 if encoded is None else len(encoded.vectors)
        self.embedded += count
        self.carried += len(rows) - count

    def _in_order(self, rows: npt.NDArray[np.int64], made: DocumentTokens | None) -> DocumentTokens:
        """Put what was made between what there is of the rows that are not _MADE."""
        is_made = rows == _MADE
        if made is not None and is_made.all():
            return made
        there = rows[~is_made]
        carried = DocumentTokens.without(self._earlier.vectors(there))
        if self._with_tokens:
            tokens = self._earlier.tokens(there)
            if tokens is None:
                raise LookupError("there are no earlier tokens")
            carried = DocumentTokens(carried.vectors, *tokens)
        if made is None:
            return carried
        places = np.argsort(np.argsort(is_made, kind="stable"), kind="stable")  # carried first, then made
        return DocumentTokens.joined([carried, made]).of(places)
