-- The outlet: a log of what happened, for consumers outside of Feedline.
CREATE TABLE outlet (
    -- Ascending, in the order of commits.
    position     bigint PRIMARY KEY,
    -- When it happened, and when it came into the log.
    at           bigint NOT NULL,
    published_at bigint NOT NULL,
    kind         text NOT NULL,
    -- The user whose events are kept in order.
    owner        text COLLATE "C" NOT NULL,
    -- JSON.
    body         text NOT NULL
);

-- The last position of the log, and the last one that was trimmed. Whoever appends locks the row until its commit.
CREATE TABLE outlet_end (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    last    bigint NOT NULL,
    trimmed bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO outlet_end (last, trimmed) VALUES (0, 0);

-- How far each consumer has come.
CREATE TABLE outlet_consumers (
    name     text COLLATE "C" PRIMARY KEY,
    position bigint NOT NULL
) WITH (fillfactor = 50);

-- Entries that a consumer did not take yet though its cursor is past them, and those that were given up.
CREATE TABLE outlet_held (
    consumer  text COLLATE "C" NOT NULL,
    position  bigint NOT NULL,
    at        bigint NOT NULL,
    kind      text NOT NULL,
    owner     text COLLATE "C" NOT NULL,
    body      text NOT NULL,
    -- When the consumer first did not take it.
    held_at   bigint NOT NULL,
    attempts  bigint NOT NULL,
    -- When it is sent again. NULL: once the entries of the user before it are settled.
    due_at    bigint,
    reason    text NOT NULL,
    -- When it was given up.
    failed_at bigint,
    PRIMARY KEY (consumer, position)
) WITH (fillfactor = 80);
CREATE INDEX outlet_held_due ON outlet_held (consumer, due_at) WHERE failed_at IS NULL;
CREATE INDEX outlet_held_owner ON outlet_held (consumer, owner, position) WHERE failed_at IS NULL;
CREATE INDEX outlet_held_failed ON outlet_held (consumer, position) WHERE failed_at IS NOT NULL;
