-- Jobs and likes that cannot be read or always fail, with the reason. Times are Unix milliseconds.
CREATE TABLE quarantine (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    kind    TEXT NOT NULL,
    name    TEXT NOT NULL,
    -- Of a job: its row as JSON.
    content TEXT NOT NULL,
    reason  TEXT NOT NULL,
    at      INTEGER NOT NULL
);
CREATE UNIQUE INDEX quarantine_name ON quarantine (kind, name);
CREATE INDEX quarantine_kind ON quarantine (kind, id);
