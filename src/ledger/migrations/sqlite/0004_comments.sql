-- Comments, and what people are notified of. Times are Unix milliseconds.

-- The counts of posts. `likes_version` grows with each change that is told.
CREATE TABLE IF NOT EXISTS post_counts (
    post          INTEGER PRIMARY KEY,
    likes         INTEGER NOT NULL DEFAULT 0,
    likes_version INTEGER NOT NULL DEFAULT 0,
    comments      INTEGER NOT NULL DEFAULT 0,
    favourites    INTEGER NOT NULL DEFAULT 0
);

-- A deleted comment that has replies keeps its row and loses `author`, `text` and `mentions`; one without goes.
CREATE TABLE comments (
    id            INTEGER PRIMARY KEY,
    post          INTEGER NOT NULL REFERENCES posts (id),
    -- The comment it replies to, 0 for none.
    parent        INTEGER NOT NULL,
    -- How many are above it.
    depth         INTEGER NOT NULL,
    author        TEXT REFERENCES users (id),
    text          TEXT,
    -- A JSON list of user ids; NULL for none.
    mentions      TEXT,
    replies       INTEGER NOT NULL DEFAULT 0,
    likes         INTEGER NOT NULL DEFAULT 0,
    likes_version INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX comments_thread ON comments (post, parent, id);

-- One row for each user who was ever notified. `latest` is the place of what happened last; `read_upto` and `seen_upto`
-- are places too.
CREATE TABLE notified (
    user      TEXT PRIMARY KEY NOT NULL REFERENCES users (id),
    latest    INTEGER NOT NULL DEFAULT 0,
    groups    INTEGER NOT NULL DEFAULT 0,
    read_upto INTEGER NOT NULL DEFAULT 0,
    seen_upto INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE notifications (
    id         INTEGER PRIMARY KEY,
    user       TEXT NOT NULL,
    kind       TEXT NOT NULL,
    -- `p12` or `c34`; empty for none.
    object     TEXT NOT NULL,
    seq        INTEGER NOT NULL,
    people     INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX notifications_order ON notifications (user, seq);
CREATE INDEX notifications_group ON notifications (user, kind, object, seq);

CREATE TABLE notification_people (
    notification INTEGER NOT NULL,
    person       TEXT NOT NULL,
    seq          INTEGER NOT NULL,
    PRIMARY KEY (notification, person)
) WITHOUT ROWID;
CREATE INDEX notification_people_newest ON notification_people (notification, seq);

-- Notifications that went and whose people are still there.
CREATE TABLE notification_remains (
    notification INTEGER PRIMARY KEY
);
