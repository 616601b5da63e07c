-- People, edges, posts, and the fan-out jobs that carry posts to inboxes. Times are Unix milliseconds.

CREATE TABLE users (
    id         TEXT PRIMARY KEY NOT NULL,
    name       TEXT NOT NULL,
    avatar     TEXT,
    created_at INTEGER NOT NULL,
    -- Counts, kept in the transaction that changes what they count.
    followers  INTEGER NOT NULL DEFAULT 0,
    following  INTEGER NOT NULL DEFAULT 0,
    posts      INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- Users who sign in with a password; the others come with an application's token.
CREATE TABLE accounts (
    user     TEXT PRIMARY KEY NOT NULL REFERENCES users (id),
    password TEXT NOT NULL
) WITHOUT ROWID;

-- `seq` orders the lists of followers and followees: unlike a time, it is unique, so a cursor is exact.
CREATE TABLE follows (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    follower TEXT NOT NULL REFERENCES users (id),
    followee TEXT NOT NULL REFERENCES users (id),
    at       INTEGER NOT NULL
);
CREATE UNIQUE INDEX follows_edge ON follows (follower, followee);
CREATE INDEX follows_fanout ON follows (followee, follower);
-- An index ends with the rowid, so these two are in the order of `seq` for each user.
CREATE INDEX follows_out ON follows (follower);
CREATE INDEX follows_in ON follows (followee);

-- `body` is the whole post as JSON; a deleted post keeps its row and loses its body.
CREATE TABLE posts (
    id         INTEGER PRIMARY KEY,
    author     TEXT NOT NULL REFERENCES users (id),
    body       TEXT,
    deleted_at INTEGER
);
CREATE INDEX posts_author ON posts (author, id) WHERE deleted_at IS NULL;

CREATE TABLE post_topics (
    topic TEXT NOT NULL,
    post  INTEGER NOT NULL,
    PRIMARY KEY (topic, post)
) WITHOUT ROWID;

-- Ids are never given out twice: whoever lost a lease must not finish another's job.
CREATE TABLE jobs (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    -- What is to be done, as JSON.
    work        TEXT NOT NULL,
    cursor      TEXT NOT NULL DEFAULT '',
    created_at  INTEGER NOT NULL,
    holder      TEXT NOT NULL,
    lease_until INTEGER NOT NULL
);
