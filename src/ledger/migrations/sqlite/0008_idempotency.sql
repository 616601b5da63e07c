-- Writes that their callers named, and how they were answered.

CREATE TABLE idempotency (
    user      TEXT NOT NULL,
    key       TEXT NOT NULL,
    operation TEXT NOT NULL,
    -- A digest of the input.
    input     BLOB NOT NULL,
    -- The id of what the write creates, if it creates something.
    reserved  INTEGER NOT NULL,
    begun_at  INTEGER NOT NULL,
    -- Until when somebody is at it, as long as there is no answer.
    until     INTEGER NOT NULL,
    answer    BLOB,
    PRIMARY KEY (user, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_begun ON idempotency (begun_at);
