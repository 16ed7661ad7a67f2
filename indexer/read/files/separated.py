"""Write rows of a table as text in which each says the names of its columns, wherever it may be cut off."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from indexer import notes
from indexer.decoding import decode
from indexer.errors import ParseError
from indexer.read.tables import column_names, find_head
from indexer.records import COLUMNS, Extraction, Section

_LONGEST = 20_000_000  # characters of one table
_LONGEST_CELL = 10_000
_MOST_COLUMNS = 16_384  # as a workbook may have
_SAMPLE = 30  # rows among which the names of the columns are looked for, or the delimiter
_MOST_TABLES = 100  # below each other, with names of their own
_SNIFFED = 20_000  # characters
_DELIMITERS = "\t;|,"  # of two that part all rows alike, the first: a comma may be that of a number
_LONGEST_FIELD = 10_000_000  # characters
_DIALECT = re.compile(r'\A"?sep=([^\w\s"]|\t)"?[^\S\n\r]{0,9}(?:\r\n|\n|\r|\Z)', re.IGNORECASE)  # as Excel writes it

csv.field_size_limit(_LONGEST_FIELD)


def rows_to_text(rows: Iterable[Sequence[str]]) -> str:
    """Return a line for each row that is not empty, as `name: value | name: value` below rows that name the columns.

    Titles and remarks above these are lines of their own. Below an empty row, a table with other names may begin.

    Raises:
        ParseError: the table is too long or too wide.
    """
    rest = _clean(rows)
    ahead = list(islice(rest, _SAMPLE))
    lines: list[str] = []
    names: list[str] = []
    tables = length = 0
    is_bare = False  # whether nothing stands below the names
    while ahead:
        may_begin = not tables or not ahead[0]
        if may_begin and tables < _MOST_TABLES:
            places = [place for place, row in enumerate(ahead[:_SAMPLE]) if row]
            sample = [ahead[place] for place in places]
            begin, end = find_head(sample, by_numbers=tables > 0)
            if end > begin or not tables:
                lines += [COLUMNS.join(dict.fromkeys(filter(None, cells))) for cells in sample[:begin]]
                names, is_bare = column_names(sample[begin:end]), True
                ahead = ahead[places[end - 1] + 1 :] if end else ahead
            tables += 1
        if len(ahead) < _SAMPLE:
            ahead += islice(rest, _SAMPLE)
        if ahead and (cells := ahead.pop(0)):
            named = zip(cells, chain(names, [""] * len(cells)), strict=False)
            lines.append(COLUMNS.join(f"{name}: {cell}" if name else cell for cell, name in named if cell))
            is_bare = False
            length += len(lines[-1])
            if length > _LONGEST:
                raise ParseError(f"more than {_LONGEST:,} characters in a table")
    if is_bare:
        lines.append(COLUMNS.join(filter(None, names)))
    return "\n".join(lines)


def _clean(rows: Iterable[Sequence[str]]) -> Iterator[list[str]]:
    """Yield the rows with each cell on one line; several empty rows as one without cells."""
    is_gap = True
    for row in rows:
        if len(row) > _MOST_COLUMNS:
            raise ParseError(f"more than {_MOST_COLUMNS:,} columns in a table")
        cells = [" ".join(cell.split()) for cell in row]
        if max(map(len, cells), default=0) > _LONGEST_CELL:
            notes.add("a long cell of a table was cut off")
            cells = [cell[:_LONGEST_CELL] for cell in cells]
        is_empty = not any(cells)
        if not is_empty:
            yield cells
        elif not is_gap:
            yield []
        is_gap = is_empty


def read_csv(body: bytes, charset: str | None) -> Extraction:
    """Read a table of separated values; raises ParseError."""
    text = decode(body, charset, markup=False).replace("\x00", "")
    named = _DIALECT.match(text)
    text = text[named.end() :] if named else text
    sample = text[:_SNIFFED]
    escape = "\\" if '\\"' in sample and '""' not in sample else None

    def rows(text: str, delimiter: str) -> Iterator[list[str]]:
        file = io.StringIO(text, newline="")
        return csv.reader(file, delimiter=delimiter, escapechar=escape, skipinitialspace=True)

    def consistency(delimiter: str) -> int:
        """Return how many of the first rows a delimiter parts into the same number of cells, more than one."""
        counts = Counter(len(row) for row in islice(rows(sample, delimiter), _SAMPLE) if len(row) > 1)
        return max(counts.values(), default=0)

    try:
        found = rows_to_text(rows(text, named[1] if named else max(_DELIMITERS, key=consistency)))
    except csv.Error as error:
        raise ParseError(f"not a table of separated values: {error}") from error
    return Extraction(None, (Section((), None, found),))
