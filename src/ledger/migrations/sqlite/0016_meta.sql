-- What the file is, as opposed to what it holds. `incarnation` names its history: it is copied with the file, and rewritten
-- by `feedline restore` and by a node that finds the file older than what the broker remembers of it.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO meta (name, value) VALUES ('incarnation', lower(hex(randomblob(6))));
