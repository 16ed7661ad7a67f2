"""Write a Tantivy index of the search terms of chunks, and their vocabulary and headings, to one folder."""

import contextlib
import json
from collections import Counter
from collections.abc import Sequence
from datetime import date
from itertools import chain
from pathlib import Path

import tantivy

from indexer.generation.lexical.analysis import ENGLISH, find_words, terms_in
from indexer.generation.lexical.vocabulary import HeadingWriter, VocabularyWriter

_HEAP_BYTES = 256_000_000
META = "meta.json"


class LexicalWriter:
    """Indexes the words of chunks in limited memory, and writes the index to a folder."""

    def __init__(self, folder: Path) -> None:
        """Create the folder. Raises OSError if it cannot be written."""
        folder.mkdir()
        self._folder = folder
        self._languages: Counter[str] = Counter()
        self._vocabulary = VocabularyWriter()
        self._headings = HeadingWriter()
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("text", tokenizer_name="whitespace", index_option="position")
        builder.add_text_field("term", tokenizer_name="raw", index_option="basic")
        builder.add_integer_field("day", indexed=True)
        builder.add_unsigned_field("row", fast=True, indexed=True)
        try:
            index = tantivy.Index(builder.build(), str(folder))
            # one thread stores rows in order, and leaves the other cores to the build
            self._writer = index.writer(heap_size=_HEAP_BYTES, num_threads=1)
            self._is_open = True
        except ValueError as error:
            raise _unwritable(folder, error) from error

    def add(
        self,
        row: int,
        *,
        title: str,
        section: str,
        text: str,
        url: str = "",
        terms: Sequence[str] = (),
        date: str | None = None,
        language: str | None = None,
    ) -> None:
        """Add a chunk.

        Args:
            row: row number of the chunk, from 0. Searches return it.
            section: heading path; if it starts with the title, the title is not indexed twice.
            terms: terms for filters, from `filter.terms_of`.

        Raises:
            OSError: the disk is full or failing.
        """
        entry = tantivy.Document()
        entry.add_unsigned("row", row)
        entry.add_text("text", terms_of_chunk(title, section, text, language))
        self._vocabulary.add(chain(*map(find_words, (title, section, text))))
        self._headings.add(row, url.partition("#")[0], title, section)
        self._languages[language or ENGLISH] += 1
        for term in terms:
            entry.add_text("term", term)
        if date is not None:
            entry.add_integer("day", day_number(date))
        try:
            self._writer.add_document(entry)
        except ValueError as error:
            raise _unwritable(self._folder, error) from error

    @property
    def languages(self) -> tuple[str, ...]:
        """Return the languages of the chunks, the most frequent first, for `Manifest.languages`."""
        return tuple(language for language, _ in self._languages.most_common())

    def finish(self) -> None:
        """Write the remaining files, and delete temporary ones. Raises OSError if the folder cannot be written."""
        self._is_open = False
        try:
            self._writer.commit()
            self._writer.wait_merging_threads()
        except ValueError as error:
            raise _unwritable(self._folder, error) from error
        segments = json.loads((self._folder / META).read_text(encoding="utf-8"))["segments"]
        live_segments = {segment["segment_id"].replace("-", "") for segment in segments}
        for path in self._folder.iterdir():
            if path.name != META and path.stem not in live_segments:  # locks, and segments that were merged
                path.unlink()
        self._vocabulary.write(self._folder)
        self._headings.write(self._folder)

    def close(self) -> None:
        """Stop writing. An unfinished index leaves its files in the folder."""
        if self._is_open:
            self._is_open = False
            with contextlib.suppress(ValueError):  # the build has already reported its failure
                self._writer.rollback()
                self._writer.wait_merging_threads()


def terms_of_chunk(title: str, section: str, text: str, language: str | None = None) -> str:
    """Return the search terms of a chunk in order, separated by spaces."""
    headings = [section] if section.startswith(title) else [title, section]
    return " ".join(chain.from_iterable(terms_in(each, language) for each in (*headings, text)))


def day_number(text: str) -> int:
    """Return the proleptic Gregorian ordinal of a date in the form YYYY-MM-DD."""
    return date.fromisoformat(text).toordinal()


def _unwritable(folder: Path, error: Exception) -> OSError:
    return OSError(f"cannot write {folder}: {' '.join(str(error).split())[:200]}")
