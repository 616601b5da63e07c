-- Posts whose alerts are still to be queued for the devices of the users who asked for them (post_alerts).
CREATE TABLE post_alert_jobs (
    post       INTEGER PRIMARY KEY NOT NULL,
    -- The last user that was served; empty before the first.
    cursor     TEXT NOT NULL DEFAULT '',
    -- 0: under way. 1: done; kept for a day, so that a repeated fan-out does not begin it again.
    state      INTEGER NOT NULL DEFAULT 0,
    -- Under way: when it may be leased, or when its lease ends. Done: when the row is removed.
    due_at     INTEGER NOT NULL,
    -- The process that works on it.
    holder     TEXT,
    created_at INTEGER NOT NULL
);
CREATE INDEX post_alert_jobs_due ON post_alert_jobs (state, due_at);
