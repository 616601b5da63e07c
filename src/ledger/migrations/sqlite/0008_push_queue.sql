-- Notifications to be pushed, one row for each device. A group of notifications that grows stays one row.
CREATE TABLE push_queue (
    user      TEXT NOT NULL,
    device    TEXT NOT NULL,
    -- The id of the notification.
    item      INTEGER NOT NULL,
    kind      TEXT NOT NULL,
    -- The state of the group to be pushed.
    seq       INTEGER NOT NULL,
    -- 0: waiting. 1: accepted; kept for a day, so that the item is not pushed twice and counts towards the daily cap.
    state     INTEGER NOT NULL,
    -- Waiting: when it may be sent, or when its lease ends. Accepted: when the row is removed.
    due_at    INTEGER NOT NULL,
    -- The process that sends it.
    holder    TEXT,
    attempts  INTEGER NOT NULL DEFAULT 0,
    queued_at INTEGER NOT NULL,
    sent_at   INTEGER NOT NULL DEFAULT 0,
    -- How often it was accepted.
    sends     INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (user, device, item)
) WITHOUT ROWID;
CREATE INDEX push_queue_due ON push_queue (state, due_at);

-- Pushes that were given up, the newest.
CREATE TABLE push_failures (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    user   TEXT NOT NULL,
    device TEXT NOT NULL,
    item   INTEGER NOT NULL,
    kind   TEXT NOT NULL,
    reason TEXT NOT NULL,
    at     INTEGER NOT NULL
);
CREATE INDEX push_failures_user ON push_failures (user);
