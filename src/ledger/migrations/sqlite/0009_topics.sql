-- Topics by their latest activity, and how far users have read.

-- What the public sees of a topic: nothing of posts for some only.
ALTER TABLE post_topics ADD COLUMN public INTEGER NOT NULL DEFAULT 1;
CREATE INDEX post_topics_public ON post_topics (topic, post) WHERE public;

-- A topic with public posts: how many, and the newest of them. Kept in the transaction that changes `post_topics`.
CREATE TABLE topics (
    name  TEXT PRIMARY KEY NOT NULL,
    posts INTEGER NOT NULL,
    last  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX topics_recent ON topics (last, name);
INSERT INTO topics (name, posts, last) SELECT topic, count(*), max(post) FROM post_topics GROUP BY topic;

-- The newest post that a user has seen of their timeline.
CREATE TABLE read_markers (
    user TEXT PRIMARY KEY NOT NULL REFERENCES users (id),
    post INTEGER NOT NULL
) WITHOUT ROWID;
