-- The pulled log: what authors wrote, edited and deleted who have too many followers to write to each of them. Every
-- node reads it in order, and every inbox knows up to which mark it has been brought.
CREATE TABLE pulled (
    -- The order of commits: one transaction writes at a time. Never given out twice.
    mark     INTEGER PRIMARY KEY AUTOINCREMENT,
    job      INTEGER NOT NULL,
    author   TEXT NOT NULL,
    -- What happened, as the kind letter of an entry, and to which post.
    kind     TEXT NOT NULL,
    post     INTEGER NOT NULL,
    -- Whether it may have been written to some inboxes before.
    repeated INTEGER NOT NULL,
    at       INTEGER NOT NULL
);
CREATE UNIQUE INDEX pulled_job ON pulled (job);
CREATE INDEX pulled_author ON pulled (author, mark);
