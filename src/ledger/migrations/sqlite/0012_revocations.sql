-- Tokens and sessions that ended before their time, and blocked users. Times are Unix milliseconds.

-- Counts how often all sessions of an account were ended. A session carries the number it was opened with.
ALTER TABLE accounts ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;

-- A log with one row for each (kind, subject): a later entry replaces the row and takes a new number. Every node follows
-- it by number, so numbers are never given out twice.
CREATE TABLE revocations (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    kind       TEXT NOT NULL,
    -- The id of a token, or of a user.
    subject    TEXT NOT NULL,
    -- Of a token: the user it belongs to, if known.
    owner      TEXT,
    -- What it means depends on the kind: see RevocationKind.
    value      INTEGER NOT NULL,
    -- The id of the one session that goes on.
    spared     TEXT,
    at         INTEGER NOT NULL,
    -- When the entry has no effect any more and may be dropped.
    expires_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX revocations_subject ON revocations (kind, subject);
CREATE INDEX revocations_expiry ON revocations (expires_at);
