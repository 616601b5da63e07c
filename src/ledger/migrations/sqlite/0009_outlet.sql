-- The outlet: a log of what happened, for consumers outside of Feedline.
CREATE TABLE outlet (
    -- Ascending, in the order of commits.
    position     INTEGER PRIMARY KEY,
    -- When it happened, and when it came into the log.
    at           INTEGER NOT NULL,
    published_at INTEGER NOT NULL,
    kind         TEXT NOT NULL,
    -- The user whose events are kept in order.
    user         TEXT NOT NULL,
    -- JSON.
    body         TEXT NOT NULL
);

-- The last position of the log, and the last one that was trimmed.
CREATE TABLE outlet_end (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    last    INTEGER NOT NULL,
    trimmed INTEGER NOT NULL
);
INSERT INTO outlet_end (one, last, trimmed) VALUES (1, 0, 0);

-- How far each consumer has come.
CREATE TABLE outlet_consumers (
    name   TEXT PRIMARY KEY NOT NULL,
    cursor INTEGER NOT NULL
) WITHOUT ROWID;

-- Entries that a consumer did not take yet though its cursor is past them, and those that were given up.
CREATE TABLE outlet_held (
    consumer  TEXT NOT NULL,
    position  INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    kind      TEXT NOT NULL,
    user      TEXT NOT NULL,
    body      TEXT NOT NULL,
    -- When the consumer first did not take it.
    held_at   INTEGER NOT NULL,
    attempts  INTEGER NOT NULL,
    -- When it is sent again. NULL: once the entries of the user before it are settled.
    due_at    INTEGER,
    reason    TEXT NOT NULL,
    -- When it was given up.
    failed_at INTEGER,
    PRIMARY KEY (consumer, position)
) WITHOUT ROWID;
CREATE INDEX outlet_held_due ON outlet_held (consumer, due_at) WHERE failed_at IS NULL;
CREATE INDEX outlet_held_user ON outlet_held (consumer, user, position) WHERE failed_at IS NULL;
CREATE INDEX outlet_held_failed ON outlet_held (consumer, position) WHERE failed_at IS NOT NULL;
