-- revision: 2
-- Posts.

-- Stores a post and its fan-out job. `outcome`: `stored` (with the job), `before` (the author has or had the post), `no
-- author`.
CREATE OR REPLACE FUNCTION feedline_create_post(
    p_post bigint, p_author text, p_topics text[], p_visibility text, p_public boolean, p_body text, p_job text,
    p_now bigint, p_folded text[], OUT outcome text, OUT job bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    is_locked boolean;
BEGIN
    -- This locks the row of the author first, as all writers of posts do.
    UPDATE users SET posts = posts + 1 WHERE id = p_author RETURNING locked INTO is_locked;
    IF NOT FOUND THEN
        outcome := 'no author';
        RETURN;
    END IF;
    INSERT INTO posts (id, author, topics, visibility, body)
    VALUES (p_post, p_author, p_topics, p_visibility, p_body) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        UPDATE users SET posts = posts - 1 WHERE id = p_author;
        PERFORM FROM posts WHERE id = p_post AND author = p_author AND (body = p_body OR deleted_at IS NOT NULL);
        IF NOT FOUND THEN
            RAISE unique_violation USING MESSAGE = format('there is another post %s', p_post);
        END IF;
        outcome := 'before';
        RETURN;
    END IF;
    INSERT INTO author_posts (author, post) VALUES (p_author, p_post);
    IF cardinality(p_topics) > 0 THEN
        PERFORM feedline_replace_topics(p_post, '{}', p_topics, p_folded, p_public AND NOT is_locked);
    END IF;
    job := feedline_submit_job(p_job, p_now);
    outcome := 'stored';
END $$;

-- Replaces a post and submits jobs, if its `edited_at` is `p_base` (NULL: never edited). `outcome`: `edited` (with the
-- jobs), `conflict` (another version), `missing`.
--
-- The version is read from the end of the body, where it is the last member: parsing the JSON would refuse posts that
-- contain an escaped NUL.
CREATE OR REPLACE FUNCTION feedline_edit_post(
    p_post bigint, p_author text, p_base bigint, p_topics text[], p_visibility text, p_public boolean, p_body text,
    p_jobs text[], p_now bigint, p_folded text[], OUT outcome text, OUT submitted bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    version bigint;
    old_topics text[];
    job text;
BEGIN
    PERFORM feedline_lock_users(p_author, p_author);
    SELECT substring(body FROM '"edited_at":([0-9]+)\}$')::bigint, topics INTO version, old_topics FROM posts
    WHERE id = p_post AND author = p_author AND deleted_at IS NULL;
    IF NOT FOUND THEN
        outcome := 'missing';
        RETURN;
    END IF;
    IF version IS DISTINCT FROM p_base THEN
        outcome := 'conflict';
        RETURN;
    END IF;
    UPDATE posts SET topics = p_topics, visibility = p_visibility, body = p_body WHERE id = p_post;
    PERFORM feedline_replace_topics(p_post, old_topics, p_topics, p_folded,
        p_public AND NOT (SELECT locked FROM users WHERE id = p_author));
    FOREACH job IN ARRAY p_jobs LOOP
        submitted := submitted || feedline_submit_job(job, p_now);
    END LOOP;
    outcome := 'edited';
END $$;

-- Changes the number of reposts and of quotes of a post, and its version.
CREATE OR REPLACE FUNCTION feedline_count_naming(p_post bigint, p_reposts int, p_quotes int) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO post_counts AS c (post, reposts, quotes, likes_version)
    VALUES (p_post, greatest(p_reposts, 0), greatest(p_quotes, 0), 1)
    ON CONFLICT (post) DO UPDATE SET reposts = greatest(c.reposts + p_reposts, 0),
        quotes = greatest(c.quotes + p_quotes, 0), likes_version = c.likes_version + 1
$$;

-- Deletes a post and submits a job, if the topics and the visibility of the post are those that the job contains.
-- `outcome`: `deleted` (with the job), `conflict` (they are others), `missing`.
CREATE OR REPLACE FUNCTION feedline_delete_post(
    p_post bigint, p_author text, p_topics text[], p_visibility text, p_job text, p_now bigint,
    OUT outcome text, OUT job bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    named bigint;
    was_detached boolean;
BEGIN
    PERFORM feedline_lock_users(p_author, p_author);
    UPDATE posts SET deleted_at = p_now, body = NULL
    WHERE id = p_post AND author = p_author AND deleted_at IS NULL AND topics = p_topics AND visibility = p_visibility;
    IF NOT FOUND THEN
        PERFORM FROM posts WHERE id = p_post AND author = p_author AND deleted_at IS NULL;
        outcome := CASE WHEN FOUND THEN 'conflict' ELSE 'missing' END;
        RETURN;
    END IF;
    DELETE FROM author_posts WHERE author = p_author AND post = p_post;
    PERFORM feedline_replace_topics(p_post, p_topics, '{}', '{}', false);
    UPDATE users SET posts = posts - 1 WHERE id = p_author;
    -- The post may repost or quote another one.
    DELETE FROM reposts WHERE repost = p_post RETURNING post INTO named;
    IF FOUND THEN
        PERFORM feedline_count_naming(named, -1, 0);
    END IF;
    DELETE FROM quotes WHERE quote = p_post RETURNING post, detached INTO named, was_detached;
    IF FOUND AND NOT was_detached THEN
        PERFORM feedline_count_naming(named, 0, -1);
    END IF;
    job := feedline_submit_job(p_job, p_now);
    outcome := 'deleted';
END $$;
