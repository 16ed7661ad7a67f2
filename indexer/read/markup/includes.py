"""Preprocess AsciiDoc: evaluate conditions, and insert included files of the same source.

A file that another document includes as a whole is not indexed separately. An included file must be public, or have the
same readers as the document. If a file cannot be inserted, a note is added to the document.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from posixpath import dirname, join, normpath

from indexer.read.access_list import begins_with_list
from indexer.read.formats import ASCIIDOC, PLAIN, content_type_of, reader_of
from indexer.records import Page, Readers, Skip
from indexer.text import reader_notes
from indexer.text.charsets import decode

MAX_VALUE_LENGTH = 1_000
_MAX_DEPTH = 20
_MAX_INCLUDES = 1_000
_MAX_LOADED_BYTES = 1_000_000_000  # total size of included files in all documents of a source
_MAX_RANGES = 20
INTRINSIC = {
    **{"nbsp": " ", "sp": " ", "empty": "", "blank": "", "zwsp": "", "wj": "", "lt": "<", "gt": ">", "amp": "&"},
    **{"asterisk": "*", "plus": "+", "caret": "^", "tilde": "~", "backtick": "`", "startsb": "[", "endsb": "]"},
    **{"vbar": "|", "apos": "'", "quot": '"', "ldquo": "“", "rdquo": "”", "lsquo": "‘", "rsquo": "’", "deg": "°"},
    **{"two-colons": "::", "two-semicolons": ";;", "cpp": "C++", "pp": "++", "backslash": "\\"},
    **dict.fromkeys(("asciidoctor", "backend-html5", "basebackend-html"), ""),
}
ENTRY = re.compile(r":(!?)([\w-]+)(!?):(?:[ ]++(.*+))?$")
_CONDITION = re.compile(r"(ifn?def|ifeval|endif)::([^\s\[]*)\[(.*)\]$")
_INCLUDE = re.compile(r"include::([^\s\[](?:[^\[]*[^\s\[])?)\[(.*)\]$")
_REFERENCE = re.compile(r"\{(\w[\w-]*)\}")
_OPTION = re.compile(r"(?<!\w)(\w++)=(?:\"([^\"]*)\"|([^,]*))")
_RANGE = re.compile(r"(\d{1,9})(?:(\.\.)(-?\d{0,9}))?")
_TAG = re.compile(r"(?<![\w:])(tag|end)::([^\s\[\]:]++)\[\](?!\S)")
_TITLE = re.compile(r"\s*(?:=[ ]\S.*\n|(\S.*)\n(={2,})[ ]*\n)")
_MARKUP = re.compile(
    r"^(?:\[\[[\w:.-]+\]\]|\[(?:source|verse|quote|NOTE|TIP|WARNING|CAUTION|IMPORTANT)\b[^\]\n]*\]|\|===|={2,5} \S.*|"
    r"\+|:[a-z][\w-]*:(?: .*)?|(?:include|image|ifn?def|endif)::[^\s\[]*\[.*\])$|"
    r"\b(?:link|linkgit|xref|footnote|kbd|https?):[^\s\[\]:]*\[[^\[\]\n]*\]|<<[\w-]+(?:,[^<>\n]+)?>>",
    re.MULTILINE,
)
_ARMOUR = re.compile(r"^-----BEGIN [A-Z ]{1,40}-----\r?\n(?:[^-\n].*\n|\n)*+-----END [A-Z ]{1,40}-----", re.MULTILINE)


def is_asciidoc(text: str) -> bool:
    """Return whether a plain text begins with an AsciiDoc title and has at least two kinds of AsciiDoc markup."""
    return _TITLE.match(text) is not None and len({match[0][:3] for match in _MARKUP.finditer(text[:50_000])}) > 1


def decode_without_keys(body: bytes, charset: str | None = None) -> str:
    """Decode a text, and remove cryptographic keys, certificates and signatures."""
    return _ARMOUR.sub("", decode(body, charset, markup=False))


def lines_of(body: bytes, charset: str | None = None) -> list[str]:
    """Decode an AsciiDoc file, and return its lines."""
    text = decode_without_keys(body, charset).replace("\r\n", "\n").replace("\0", "").expandtabs(4)
    return [line.rstrip() for line in text.split("\n")]


def preprocess(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines, without false conditionals (`ifdef`) and without `include` directives."""
    for line in _Document(Includes({}, lambda _: None, 0), "").lines(lines, ()):
        if _INCLUDE.match(line):
            reader_notes.add("a file that AsciiDoc includes was left out")
        else:
            yield line[1:] if line.startswith(("\\include::", "\\ifdef::", "\\ifndef::", "\\endif::")) else line


class Includes:
    """The files of one source that AsciiDoc documents may include."""

    def __init__(self, files: Mapping[str, Readers], load: Callable[[str], bytes | None], max_bytes: int) -> None:
        """Find the documents that include other files.

        Args:
            files: the users and groups that may read each file, by its path in the source.
            load: a function that returns the content of a file, or None if the file cannot be read.
            max_bytes: the size limit of a document together with its included files.
        """
        self.files, self.load, self.max_bytes = files, load, max_bytes
        self.loaded_bytes = 0
        self._targets, self._unread = dict[str, set[str]](), set[str]()
        for path in files:
            if _reader_of(path) not in (ASCIIDOC, PLAIN):
                continue
            if self.loaded_bytes > _MAX_LOADED_BYTES:
                self._unread.add(path)
            elif targets := self.expand(path, load(path) or b"")[1]:
                self._targets[path] = targets
        self._included = set[str]()
        nested = set[str]().union(*self._targets.values())
        # start with documents that no file includes; of files that include each other in a cycle, keep the first
        for path in [*(path for path in self._targets if path not in nested), *self._targets]:
            if path not in self._included:
                self._included |= self._targets[path] - {path}

    def covers(self, path: str) -> bool:
        """Return whether a file includes other files, or is included by one."""
        return path in self._targets or path in self._included

    def resolve(self, path: str, page: Page) -> Page | Skip:
        """Return a page with its included files inserted, or a `Skip` if another document includes the page."""
        if path in self._included:
            return Skip(page.url, "included in another document")
        body, _ = self.expand(path, page.body)
        return page if body is page.body else replace(page, body=body, charset="utf-8", content_hash="")

    def expand(self, path: str, body: bytes) -> tuple[bytes, set[str]]:
        """Return a document with the included files inserted, and the paths of files that are included as a whole."""
        if path in self._unread or b"include::" not in body:
            return body, set()
        if _reader_of(path) == PLAIN and not is_asciidoc(decode(body, None)):
            return body, set()
        document = _Document(self, path)
        text = "\n".join(document.lines(lines_of(body), (path,)))
        return (text.encode("utf-8", "replace"), document.targets) if document.include_count else (body, set())


class _Document:
    """A document into which included files are being inserted."""

    def __init__(self, includes: Includes, path: str) -> None:
        self.targets = set[str]()
        self.include_count = self._load_count = 0
        self._includes, self._path = includes, path
        self._bytes_left = includes.max_bytes
        self._attributes = INTRINSIC | {"docdir": f"/{dirname(path)}"}

    def lines(self, lines: Sequence[str], paths: tuple[str, ...]) -> Iterator[str]:
        """Yield the lines of a file outside false conditionals. `paths` are the files from the document to this one."""
        hidden = list[bool]()
        for line in lines:
            if condition := _CONDITION.match(line):
                kind, names, text = condition.groups()
                is_true = (all if "+" in names else any)(name in self._attributes for name in re.split("[,+]", names))
                is_hidden = kind != "ifeval" and is_true == (kind == "ifndef")
                if kind == "endif":
                    del hidden[-1:]
                elif not text or kind == "ifeval":
                    hidden.append(is_hidden)
                elif not is_hidden and not any(hidden):
                    yield text
            elif any(hidden):
                continue
            elif directive := _INCLUDE.match(line):
                yield from self._included(directive, paths)
            else:
                if entry := ENTRY.match(line):
                    self._define(entry)
                yield line

    def _define(self, entry: re.Match[str]) -> None:
        if entry[1] or entry[3]:
            self._attributes.pop(entry[2], None)
        else:
            self._attributes[entry[2]] = self._replaced(entry[4] or "")[:MAX_VALUE_LENGTH]

    def _replaced(self, text: str) -> str:
        if len(text) > MAX_VALUE_LENGTH:
            return ""
        return _REFERENCE.sub(lambda name: self._attributes.get(name[1], name[0]), text)

    def _included(self, directive: re.Match[str], paths: tuple[str, ...]) -> Iterator[str]:
        options = {name: quoted or value for name, quoted, value in _OPTION.findall(directive[2])}
        path = normpath(join(dirname(paths[-1]), self._replaced(directive[1]))).lstrip("/") if paths else ""
        lines = self._load(path, paths)
        if lines is None:
            if "optional" not in options.get("opts", ""):
                yield directive[0]
            return
        self.include_count += 1
        is_whole = not options.keys() & {"tag", "tags", "lines"}
        readers = self._includes.files
        if is_whole and readers[path] == readers[self._path] and _reader_of(path) in (ASCIIDOC, PLAIN):
            self.targets.add(path)
        offset = options.get("leveloffset", "")
        if offset:
            yield from (f":leveloffset: {offset}", "")
        yield from self.lines(_select(lines, options), (*paths, path))
        if offset:
            yield from ("", f":leveloffset: {offset.translate(str.maketrans('+-', '-+'))}")

    def _load(self, path: str, paths: tuple[str, ...]) -> list[str] | None:
        """Return the lines of a file to be inserted into the last file of `paths`, or None if this is not allowed."""
        readers = self._includes.files
        if path in paths or path not in readers or len(paths) > _MAX_DEPTH or self._load_count >= _MAX_INCLUDES:
            return None
        if readers[path] is not None and readers[path] != readers[self._path]:
            return None
        self._load_count += 1
        body = self._includes.load(path)
        self._includes.loaded_bytes += len(body or b"")
        if body is None or len(body) > self._bytes_left:
            return None
        lines = lines_of(body)
        if begins_with_list("\n".join(lines)):
            return None
        self._bytes_left -= len(body)
        return lines


def _reader_of(path: str) -> str | None:
    return reader_of(content_type_of(path) or "")


def _select(lines: list[str], options: Mapping[str, str]) -> list[str]:
    """Return the lines that an `include` directive selects by line numbers or tags, without the lines of the tags."""
    if "lines" in options:
        ranges = _RANGE.findall(options["lines"])[:_MAX_RANGES]
        ends = [int(first if not dots else last if last.isdecimal() else len(lines)) for first, dots, last in ranges]
        spans = [(int(first), end) for (first, *_), end in zip(ranges, ends, strict=True)]
        lines = [line for number, line in enumerate(lines, 1) if any(start <= number <= end for start, end in spans)]
    names = re.split("[;,]", options.get("tags") or options.get("tag") or "**")
    is_included = {name.lstrip("!"): name[:1] != "!" for name in names}
    is_selected = is_included.get("**", not any(is_included.values()))
    selected, tags = [], list[tuple[str, bool]]()  # (name of an open tag, whether lines before it are selected)
    for line in lines:
        tag = _TAG.search(line)
        if tag is None:
            selected += [line] if is_selected else []
        elif tag[1] == "tag":
            tags.append((tag[2], is_selected))
            is_selected = is_included.get(tag[2], is_included.get("*", is_selected))
        elif tags and tags[-1][0] == tag[2]:
            is_selected = tags.pop()[1]
    return selected
