-- The text and data of profiles. They are read for profiles only, so the rows of `users`, which every list reads, stay
-- short. Users with neither have no row.
CREATE TABLE profiles (
    user TEXT PRIMARY KEY NOT NULL REFERENCES users (id),
    bio  TEXT,
    -- A JSON object.
    data TEXT
);

-- Users who receive no notifications of what happens under a post.
CREATE TABLE muted_conversations (
    user TEXT NOT NULL REFERENCES users (id),
    post INTEGER NOT NULL,
    at   INTEGER NOT NULL,
    PRIMARY KEY (user, post)
) WITHOUT ROWID;
-- Removes those of an erased post.
CREATE INDEX muted_conversations_post ON muted_conversations (post, user);
