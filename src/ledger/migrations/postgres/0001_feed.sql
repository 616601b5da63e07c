-- People, edges, posts, and the fan-out jobs that carry posts to inboxes. Times are Unix milliseconds.
--
-- Ids of users are compared byte by byte, whatever the database's locale: COLLATE "C". What grows without bound is
-- partitioned by the hash of what it is looked up by (an author, a user, a post), so that each look-up goes to one
-- partition; what is looked up in two ways is kept in two tables. Partitions are vacuumed, indexed and, with foreign
-- tables, moved to other servers one by one; their number is for good, and 16 do for a long time without making plans
-- slow. What has a row a user or a topic stays whole: it is small beside those.

CREATE TABLE users (
    id         text COLLATE "C" PRIMARY KEY,
    name       text NOT NULL,
    avatar     text,
    created_at bigint NOT NULL,
    -- Counts, kept in the transaction that changes what they count. Whoever changes one locks the row; that is also
    -- what puts the writes that concern one user in order.
    followers  bigint NOT NULL DEFAULT 0,
    following  bigint NOT NULL DEFAULT 0,
    posts      bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 80);

-- Users who sign in with a password; the others come with an application's token.
CREATE TABLE accounts (
    "user"   text COLLATE "C" PRIMARY KEY REFERENCES users (id),
    password text NOT NULL
);

-- `seq` orders the lists of followers and followees: unlike a time, it is unique, so a cursor is exact.
CREATE SEQUENCE follows_seq AS bigint;

-- Whom one follows.
CREATE TABLE follows (
    follower text COLLATE "C" NOT NULL,
    followee text COLLATE "C" NOT NULL,
    seq      bigint NOT NULL,
    at       bigint NOT NULL,
    PRIMARY KEY (follower, followee)
) PARTITION BY HASH (follower);
CREATE INDEX follows_listed ON follows (follower, seq);

-- The same edges from the other end: by whom one is followed.
CREATE TABLE followers (
    followee text COLLATE "C" NOT NULL,
    follower text COLLATE "C" NOT NULL,
    seq      bigint NOT NULL,
    PRIMARY KEY (followee, follower)
) PARTITION BY HASH (followee);
CREATE INDEX followers_listed ON followers (followee, seq);

-- `body` is the whole post as JSON (as text: jsonb takes no NUL, and a post may hold one, escaped); a deleted post keeps
-- its row and loses its body. Most look-ups are by id: a page of them is made into bodies.
CREATE TABLE posts (
    id         bigint PRIMARY KEY,
    author     text COLLATE "C" NOT NULL,
    topics     text[] NOT NULL,
    -- Who may see it, as JSON.
    visibility text NOT NULL,
    body       text,
    deleted_at bigint
) PARTITION BY HASH (id);

-- The lists: an author's posts, a topic's posts. Deleted ones are in neither.
CREATE TABLE author_posts (
    author text COLLATE "C" NOT NULL,
    post   bigint NOT NULL,
    PRIMARY KEY (author, post)
) PARTITION BY HASH (author);
CREATE TABLE post_topics (
    topic  text COLLATE "C" NOT NULL,
    post   bigint NOT NULL,
    -- Whether everybody may see it.
    public boolean NOT NULL,
    PRIMARY KEY (topic, post)
) PARTITION BY HASH (topic);
CREATE INDEX post_topics_public ON post_topics (topic, post) WHERE public;

DO $$
BEGIN
    FOR part IN 0..15 LOOP
        EXECUTE format('CREATE TABLE follows_%s PARTITION OF follows FOR VALUES WITH (MODULUS 16, REMAINDER %s)', part, part);
        EXECUTE format('CREATE TABLE followers_%s PARTITION OF followers FOR VALUES WITH (MODULUS 16, REMAINDER %s)', part, part);
        EXECUTE format('CREATE TABLE posts_%s PARTITION OF posts FOR VALUES WITH (MODULUS 16, REMAINDER %s)', part, part);
        EXECUTE format('CREATE TABLE author_posts_%s PARTITION OF author_posts FOR VALUES WITH (MODULUS 16, REMAINDER %s)', part, part);
        EXECUTE format('CREATE TABLE post_topics_%s PARTITION OF post_topics FOR VALUES WITH (MODULUS 16, REMAINDER %s)', part, part);
    END LOOP;
END $$;

-- Ids are never given out twice: whoever lost a lease must not finish another's job. A job's id is taken while the row of
-- its author in `users` is locked, so the jobs of one author become visible in the order of their ids.
CREATE TABLE jobs (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- What is to be done, as JSON.
    work         text NOT NULL,
    -- Whose posts it concerns, and whether it carries one.
    author       text COLLATE "C" NOT NULL,
    carries_post boolean NOT NULL,
    cursor       text COLLATE "C" NOT NULL DEFAULT '',
    created_at   bigint NOT NULL,
    holder       text NOT NULL,
    lease_until  bigint NOT NULL
    -- Rows come and go all the time: vacuum by number, not by share.
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX jobs_carrying ON jobs (author, id) WHERE carries_post;
