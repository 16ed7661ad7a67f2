"""Which kinds of documents are read, by media type and by the end of a name."""

from pathlib import PurePosixPath

_CODE = {  # media type: suffixes
    "text/x-python": ".py .pyi", "text/javascript": ".js .mjs .cjs .jsx", "text/typescript": ".ts .tsx",
    "text/x-c": ".c .h", "text/x-c++": ".cc .cpp .cxx .hh .hpp .hxx", "text/x-csharp": ".cs", "text/x-java": ".java",
    "text/x-kotlin": ".kt .kts", "text/x-scala": ".scala", "text/x-swift": ".swift", "text/x-go": ".go",
    "text/x-rust": ".rs", "text/x-ruby": ".rb", "text/x-perl": ".pl .pm", "text/x-php": ".php", "text/x-lua": ".lua",
    "text/x-r": ".r", "text/x-shellscript": ".sh .bash .zsh", "application/sql": ".sql",
}  # fmt: skip
_OFFICE = "application/vnd.openxmlformats-officedocument"
_READERS = {  # reader: media type: suffixes
    "html": {"text/html": ".html .htm", "application/xhtml+xml": ".xhtml"},
    "markdown": {"text/markdown": ".md .markdown"},
    "mdx": {"text/mdx": ".mdx"},
    "plain": {"text/plain": ".txt"},
    "restructured": {"text/x-rst": ".rst", "text/prs.fallenstein.rst": ""},
    "pdf": {"application/pdf": ".pdf"},
    "word": {f"{_OFFICE}.wordprocessingml.document": ".docx"},
    "slides": {f"{_OFFICE}.presentationml.presentation": ".pptx"},
    "sheets": {
        f"{_OFFICE}.spreadsheetml.sheet": ".xlsx",
        "application/vnd.ms-excel": ".xls",
        "application/vnd.oasis.opendocument.spreadsheet": ".ods",
    },
    "csv_text": {"text/csv": ".csv", "text/tab-separated-values": ".tsv"},
    "epub": {"application/epub+zip": ".epub"},
    "notebook": {"application/x-ipynb+json": ".ipynb"},
    "mail": {"message/rfc822": ".eml"},
    "source_code": {**_CODE, "application/javascript": "", "application/x-sh": ""},
    "container": {
        "application/zip": ".zip", "application/x-zip-compressed": "", "application/x-tar": ".tar",
        "application/gzip": ".tgz .tar.gz", "application/x-gzip": "", "application/x-bzip2": ".tbz2 .tar.bz2",
        "application/x-xz": ".txz .tar.xz",
    },
}  # fmt: skip
_IMAGES = {  # read by OCR, and by nothing else
    "image/png": ".png", "image/jpeg": ".jpg .jpeg", "image/tiff": ".tif .tiff", "image/webp": ".webp",
    "image/bmp": ".bmp",
}  # fmt: skip
_KINDS = (*_READERS.items(), ("scans", _IMAGES))
_READER_OF = {kind: reader for reader, kinds in _KINDS for kind in kinds}
_TYPE_OF = {suffix: kind for _, kinds in _KINDS for kind, suffixes in kinds.items() for suffix in suffixes.split()}
_NAMED = frozenset({"markdown", "mdx", "restructured", "csv_text", "notebook", "mail", "source_code"})

CONTAINER = "container"  # reader of archives, which hold documents and are none
MAIL, ATTACHMENTS = "mail", "attachments"  # reader of e-mail, and of what comes with it
LISTING = "listing"  # reader of sitemaps and feeds
HTML = "html"
PAGE = "page"  # reader of all that a build wants of a page of HTML or Markdown
SCANS = "scans"  # reader of pages that are pictures
OCR_OFF = "OCR is off"  # why images are not read where nobody says otherwise
LONGEST_LIST = 50 * 1024 * 1024  # bytes of a sitemap once it is unpacked, as sitemaps.org has it
MOST_LISTED = 50_000  # entries read of one sitemap, as the protocol has it
FUNCTIONS = {  # below `indexer.read`: the module and function that read what strangers wrote, by reader
    **{name: f"files.text:read_{name}" for name in ("plain", "source_code", "notebook")},
    "csv_text": "files.text:read_csv",
    "mail": "files.mail:read",
    **{name: f"markup.{name}:read" for name in ("markdown", "restructured")},
    "mdx": "markup.markdown:read_mdx",
    **{name: f"office.{name}:read" for name in ("sheets", "slides", "word")},
    "epub": "office.zipped:read_epub",
    "pdf": "pdf.document:read",
    HTML: "html.main_content:read",
    PAGE: "links:page_parts",
    LISTING: "links:listed_links",
    CONTAINER: "container:members",
    ATTACHMENTS: "files.mail:attachments",
}
TEXT_READERS = _NAMED | {HTML, "plain"}  # readers of formats in which there are no NUL bytes
# Media types that are read from a site: archives on one are copies of its pages, or programs, and images decoration.
CONTENT_TYPES = frozenset(kind for kind, reader in _READER_OF.items() if reader not in (CONTAINER, SCANS))
IMAGE_TYPES = frozenset(_IMAGES)


def content_type_of(name: str) -> str | None:
    """Return the media type of a file by the end of its name, or None where files of that type are not read."""
    path = PurePosixPath(name.lower())
    return _TYPE_OF.get("".join(path.suffixes[-2:])) or _TYPE_OF.get(path.suffix)


def refusal_of(name: str, no_images: str = OCR_OFF) -> str:
    """Say why a file is not read, by the end of its name, or by `no_images` if it is an image; empty if it is read."""
    content_type = content_type_of(name)
    if content_type is None:
        return f"file type {PurePosixPath(name).suffix.lower() or 'without suffix'} is not read"
    return f"an image: {no_images}" if no_images and content_type in IMAGE_TYPES else ""


def effective_type(content_type: str, name: str) -> str:
    """Return the media type; for what servers call plain text, the one that its name tells."""
    if content_type != "text/plain":
        return content_type
    named = content_type_of(name)
    return named if named is not None and _READER_OF[named] in _NAMED else content_type


def reader_of(content_type: str) -> str | None:
    """Name of the module that reads a media type, or None where it is not read."""
    return _READER_OF.get(content_type)


def is_source_code(content_type: str) -> bool:
    """Return whether documents of a media type are programs, all of whose lines are code."""
    return reader_of(content_type) == "source_code"
