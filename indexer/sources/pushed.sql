CREATE TABLE documents (
    url TEXT PRIMARY KEY,
    content_hash TEXT NOT NULL,
    content_type TEXT NOT NULL,
    charset TEXT,
    stated TEXT NOT NULL,
    pushed_at TEXT NOT NULL,
    body BLOB
) STRICT;
CREATE TABLE changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    url TEXT NOT NULL,
    action TEXT NOT NULL,
    at TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT,
    generation TEXT
) STRICT;
CREATE INDEX changes_url ON changes (url, id);
CREATE INDEX changes_queued ON changes (id) WHERE state = 'queued';
CREATE TABLE totals (documents INTEGER NOT NULL, bytes INTEGER NOT NULL, trouble TEXT) STRICT;
INSERT INTO totals VALUES (0, 0, NULL);
PRAGMA user_version = 1;
