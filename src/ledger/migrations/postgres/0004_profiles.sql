-- The text and data of profiles. They are read for profiles only, so the rows of `users`, which every list reads, stay
-- short. Users with neither have no row.
CREATE TABLE profiles (
    owner text COLLATE "C" PRIMARY KEY,
    bio   text,
    -- A JSON object, as text: jsonb takes no NUL.
    data  text
) WITH (fillfactor = 80);

-- Users who receive no notifications of what happens under a post. The primary key lists the posts of a user, too.
CREATE TABLE muted_conversations (
    post  bigint NOT NULL,
    owner text COLLATE "C" NOT NULL,
    at    bigint NOT NULL,
    PRIMARY KEY (owner, post)
) PARTITION BY HASH (post);
-- Removes those of an erased post.
CREATE INDEX muted_conversations_post ON muted_conversations (post, owner);

DO $$
BEGIN
    FOR part IN 0..15 LOOP
        EXECUTE format(
            'CREATE TABLE muted_conversations_%s PARTITION OF muted_conversations '
            'FOR VALUES WITH (MODULUS 16, REMAINDER %s)', part, part);
    END LOOP;
END $$;
