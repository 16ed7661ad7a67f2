CREATE TABLE documents (
    id INTEGER PRIMARY KEY, url TEXT NOT NULL UNIQUE, source TEXT NOT NULL, title TEXT NOT NULL,
    content_hash TEXT NOT NULL, etag TEXT, last_modified TEXT, fetched_at TEXT NOT NULL, content_type TEXT NOT NULL,
    language TEXT, date TEXT, metadata TEXT NOT NULL, first_row INTEGER NOT NULL, chunks INTEGER NOT NULL
) STRICT;
CREATE TABLE terms (
    term TEXT NOT NULL, document INTEGER NOT NULL REFERENCES documents (id), PRIMARY KEY (term, document)
) STRICT, WITHOUT ROWID;
CREATE TABLE link_texts (
    document INTEGER NOT NULL REFERENCES documents (id), target TEXT NOT NULL, text TEXT NOT NULL,
    PRIMARY KEY (document, target)
) STRICT, WITHOUT ROWID;
CREATE TABLE chunks (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, document INTEGER NOT NULL REFERENCES documents (id),
    url TEXT NOT NULL, section TEXT NOT NULL, text TEXT NOT NULL, content_hash TEXT NOT NULL, tokens INTEGER NOT NULL,
    position INTEGER NOT NULL, blocks TEXT NOT NULL
) STRICT;
CREATE TABLE pages (
    url TEXT PRIMARY KEY, source TEXT NOT NULL, requested TEXT NOT NULL, etag TEXT, last_modified TEXT,
    content_hash TEXT NOT NULL, links TEXT NOT NULL, noindex INTEGER NOT NULL, outcome TEXT NOT NULL,
    reasons TEXT NOT NULL
) STRICT, WITHOUT ROWID;
