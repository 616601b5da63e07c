-- Topics by their latest activity, and how far users have read.

-- A topic with public posts: how many, and the newest of them. Kept in the transaction that changes `post_topics`, which
-- locks a topic's row before it looks for the newest; several rows in the order of their names. Not partitioned: it is
-- listed by activity.
CREATE TABLE topics (
    name  text COLLATE "C" PRIMARY KEY,
    posts bigint NOT NULL,
    last  bigint NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX topics_recent ON topics (last, name);

-- The newest post that a user has seen of their timeline.
CREATE TABLE read_markers (
    owner text COLLATE "C" PRIMARY KEY,
    post  bigint NOT NULL
) WITH (fillfactor = 80);

-- Takes a post out of its topics and puts it into others.
CREATE FUNCTION feedline_topics(which bigint, old_topics text[], new_topics text[], new_public boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    one text;
    was_public boolean;
    newest bigint;
BEGIN
    PERFORM FROM topics WHERE name = ANY (old_topics || new_topics) ORDER BY name FOR UPDATE;
    FOR one IN SELECT DISTINCT t.topic COLLATE "C" FROM unnest(old_topics) AS t (topic) ORDER BY 1 LOOP
        DELETE FROM post_topics WHERE topic = one AND post = which RETURNING public INTO was_public;
        IF FOUND AND was_public THEN
            SELECT post INTO newest FROM post_topics WHERE topic = one AND public ORDER BY post DESC LIMIT 1;
            IF FOUND THEN
                UPDATE topics SET posts = posts - 1, last = newest WHERE name = one;
            ELSE
                DELETE FROM topics WHERE name = one;
            END IF;
        END IF;
    END LOOP;
    FOR one IN SELECT DISTINCT t.topic COLLATE "C" FROM unnest(new_topics) AS t (topic) ORDER BY 1 LOOP
        INSERT INTO post_topics (topic, post, public) VALUES (one, which, new_public);
        IF new_public THEN
            INSERT INTO topics (name, posts, last) VALUES (one, 1, which)
            ON CONFLICT (name) DO UPDATE SET posts = topics.posts + 1, last = greatest(topics.last, excluded.last);
        END IF;
    END LOOP;
END $$;

-- Stores a post. `outcome`: `stored` (and the job), `before` if its author has it or had it, `no author`.
CREATE FUNCTION feedline_create_post(
    which bigint, whose text, new_topics text[], new_visibility text, is_public boolean, new_body text, what text,
    now_at bigint, for_holder text, until bigint, OUT outcome text, OUT job bigint
) LANGUAGE plpgsql AS $$
BEGIN
    IF NOT feedline_lock(whose, whose) THEN
        outcome := 'no author';
        RETURN;
    END IF;
    INSERT INTO posts (id, author, topics, visibility, body)
    VALUES (which, whose, new_topics, new_visibility, new_body) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        PERFORM FROM posts WHERE id = which AND author = whose AND (body = new_body OR deleted_at IS NOT NULL);
        IF NOT FOUND THEN
            RAISE unique_violation USING MESSAGE = format('there is another post %s', which);
        END IF;
        outcome := 'before';
        RETURN;
    END IF;
    INSERT INTO author_posts (author, post) VALUES (whose, which);
    UPDATE users SET posts = posts + 1 WHERE id = whose;
    IF cardinality(new_topics) > 0 THEN
        PERFORM feedline_topics(which, '{}', new_topics, is_public);
    END IF;
    job := feedline_job(what, whose, true, now_at, for_holder, until);
    outcome := 'stored';
END $$;
