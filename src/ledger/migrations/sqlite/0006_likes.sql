-- Who likes what. Likes are acknowledged by a queue and come here in batches.

CREATE TABLE IF NOT EXISTS post_counts (
    post          INTEGER PRIMARY KEY,
    likes         INTEGER NOT NULL DEFAULT 0,
    likes_version INTEGER NOT NULL DEFAULT 0,
    comments      INTEGER NOT NULL DEFAULT 0,
    favourites    INTEGER NOT NULL DEFAULT 0
);

-- `seq` orders the list of who likes a post: unlike a time, it is unique, so a cursor is exact.
CREATE TABLE likes (
    seq  INTEGER PRIMARY KEY AUTOINCREMENT,
    user TEXT NOT NULL REFERENCES users (id),
    post INTEGER NOT NULL,
    at   INTEGER NOT NULL
);
CREATE UNIQUE INDEX likes_one ON likes (user, post);
-- An index ends with the rowid, so this one is in the order of `seq`.
CREATE INDEX likes_of ON likes (post);

CREATE TABLE comment_likes (
    user    TEXT NOT NULL REFERENCES users (id),
    comment INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (comment, user)
) WITHOUT ROWID;

-- How far each partition of the queue is settled: written in the transaction that settles it.
CREATE TABLE like_positions (
    partition INTEGER PRIMARY KEY,
    position  TEXT NOT NULL
);

-- Likes that could not be settled, until their users were told. `object` is `p12` for a post, `c34` for a comment.
CREATE TABLE like_reverts (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    partition INTEGER NOT NULL,
    user      TEXT NOT NULL,
    object    TEXT NOT NULL,
    reason    TEXT NOT NULL
);
