-- Favourites of any type of object, and what came of posts. Times are Unix milliseconds.

-- A post that nothing came of has no row. `likes_version` grows with each change of `likes`.
CREATE TABLE IF NOT EXISTS post_counts (
    post          INTEGER PRIMARY KEY,
    likes         INTEGER NOT NULL DEFAULT 0,
    likes_version INTEGER NOT NULL DEFAULT 0,
    comments      INTEGER NOT NULL DEFAULT 0,
    favourites    INTEGER NOT NULL DEFAULT 0
);

-- `seq` orders the lists: unlike a time, it is unique, so a cursor is exact.
CREATE TABLE favourites (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    user   TEXT NOT NULL REFERENCES users (id),
    type   TEXT NOT NULL,
    object TEXT NOT NULL,
    at     INTEGER NOT NULL
);
CREATE UNIQUE INDEX favourites_one ON favourites (user, type, object);
-- An index ends with the rowid, so these two are in the order of `seq`.
CREATE INDEX favourites_of ON favourites (user, type);
CREATE INDEX favourites_holders ON favourites (type, object);

-- How many a user has, and how many have an object: kept in the transaction that changes it.
CREATE TABLE favourites_of_users (
    user  TEXT NOT NULL,
    type  TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (user, type)
) WITHOUT ROWID;
CREATE TABLE favourites_of_objects (
    type   TEXT NOT NULL,
    object TEXT NOT NULL,
    count  INTEGER NOT NULL,
    PRIMARY KEY (type, object)
) WITHOUT ROWID;
