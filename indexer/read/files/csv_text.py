"""CSV and TSV to content: one section, each row with the names of its columns."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from indexer.decoding import decode
from indexer.errors import ParseError
from indexer.read.extraction import Extraction
from indexer.read.files.table_text import rows_to_text
from indexer.records import Section

_SNIFFED = 20_000  # characters
_SNIFFED_ROWS = 30
_DELIMITERS = "\t;|,"  # of two that part all rows alike, the first: a comma may be that of a number
_LONGEST_FIELD = 10_000_000  # characters
_DIALECT = re.compile(r'\A"?sep=([^\w\s"]|\t)"?[^\S\n\r]{0,9}(?:\r\n|\n|\r|\Z)', re.IGNORECASE)  # as Excel writes it

csv.field_size_limit(_LONGEST_FIELD)


def read(body: bytes, charset: str | None) -> Extraction:
    """Read a table of separated values; raises ParseError."""
    text = decode(body, charset, markup=False).replace("\x00", "")
    named = _DIALECT.match(text)
    text = text[named.end() :] if named else text
    sample = text[:_SNIFFED]
    escape = "\\" if '\\"' in sample and '""' not in sample else None
    delimiter = named[1] if named else max(_DELIMITERS, key=lambda each: _consistency(sample, each, escape))
    try:
        rows = rows_to_text(_rows(text, delimiter, escape))
    except csv.Error as error:
        raise ParseError(f"not a table of separated values: {error}") from error
    return Extraction(None, (Section((), None, rows),))


def _rows(text: str, delimiter: str, escape: str | None) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, escapechar=escape, skipinitialspace=True)


def _consistency(sample: str, delimiter: str, escape: str | None) -> int:
    """Return how many of the first rows a delimiter parts into the same number of cells, more than one."""
    counts = Counter(len(row) for row in islice(_rows(sample, delimiter, escape), _SNIFFED_ROWS) if len(row) > 1)
    return max(counts.values(), default=0)
