-- Notifications to be pushed, one row for each device. A group of notifications that grows stays one row.
CREATE TABLE push_queue (
    owner     text COLLATE "C" NOT NULL,
    device    text COLLATE "C" NOT NULL,
    -- The id of the notification.
    item      bigint NOT NULL,
    kind      text NOT NULL,
    -- The state of the group to be pushed.
    seq       bigint NOT NULL,
    -- 0: waiting. 1: accepted; kept for a day, so that the item is not pushed twice and counts towards the daily cap.
    state     smallint NOT NULL,
    -- Waiting: when it may be sent, or when its lease ends. Accepted: when the row is removed.
    due_at    bigint NOT NULL,
    -- The process that sends it.
    holder    text,
    attempts  bigint NOT NULL DEFAULT 0,
    queued_at bigint NOT NULL,
    sent_at   bigint NOT NULL DEFAULT 0,
    -- How often it was accepted.
    sends     bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (owner, device, item)
) WITH (fillfactor = 80);
CREATE INDEX push_queue_due ON push_queue (state, due_at);

-- Pushes that were given up, the newest.
CREATE TABLE push_failures (
    seq    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner  text COLLATE "C" NOT NULL,
    device text COLLATE "C" NOT NULL,
    item   bigint NOT NULL,
    kind   text NOT NULL,
    reason text NOT NULL,
    at     bigint NOT NULL
);
CREATE INDEX push_failures_owner ON push_failures (owner);
