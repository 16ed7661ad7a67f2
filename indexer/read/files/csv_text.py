"""CSV and TSV to content: one section, each row with the names of its columns."""

import csv
import io

from indexer.decoding import decode
from indexer.errors import ParseError
from indexer.read.extraction import Extraction
from indexer.read.files.table_text import rows_to_text
from indexer.records import Section

_SNIFFED = 4_096  # characters of the first line
_DELIMITERS = ",;\t|"
_LONGEST_FIELD = 10_000_000  # characters

csv.field_size_limit(_LONGEST_FIELD)


def read(body: bytes, charset: str | None) -> Extraction:
    """Read a table of separated values; raises ParseError."""
    text = decode(body, charset, markup=False).replace("\x00", "")
    first = text[:_SNIFFED].partition("\n")[0]
    delimiter = max(_DELIMITERS, key=first.count)
    try:
        rows = rows_to_text(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise ParseError(f"not a table of separated values: {error}") from error
    return Extraction(None, (Section((), None, rows),))
