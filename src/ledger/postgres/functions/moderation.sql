-- revision: 1
-- What the application's backend decides: the standing of users, removed comments, reports.

-- Changes the standing of a user, and submits a job if the user becomes suspended (NULL: none). `outcome`: `changed`
-- (with the job), `unchanged`, `no user`. The number of the entry is taken after the lock of the user, from the counter
-- of revocations: it becomes visible in its order.
CREATE OR REPLACE FUNCTION feedline_set_standing(
    p_user text, p_level text, p_reason text, p_until bigint, p_now bigint, p_job text,
    OUT outcome text, OUT job bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    before record;
    new_seq bigint;
BEGIN
    PERFORM FROM users WHERE id = p_user AND erased_at IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        outcome := 'no user';
        RETURN;
    END IF;
    SELECT level, reason, until INTO before FROM standings WHERE owner = p_user;
    IF coalesce(before.level, 'active') = p_level AND before.reason IS NOT DISTINCT FROM p_reason
        AND before.until IS NOT DISTINCT FROM p_until THEN
        outcome := 'unchanged';
        RETURN;
    END IF;
    UPDATE revocations_end SET seq = seq + 1 RETURNING seq INTO new_seq;
    INSERT INTO standings (seq, owner, level, reason, until, at)
    VALUES (new_seq, p_user, p_level, p_reason, p_until, p_now)
    ON CONFLICT (owner) DO UPDATE SET seq = excluded.seq, level = excluded.level, reason = excluded.reason,
        until = excluded.until, at = excluded.at;
    IF p_job IS NOT NULL THEN
        job := feedline_submit_job(p_job, p_now);
    END IF;
    outcome := 'changed';
END $$;

-- Moves the content of a comment out of its row. Returns the counts of the post; NULL: there is no such comment, or it
-- is deleted or removed.
CREATE OR REPLACE FUNCTION feedline_remove_comment(
    p_comment bigint, p_reason text, p_now bigint, OUT new_likes bigint, OUT new_comments bigint, OUT new_version bigint
) LANGUAGE plpgsql AS $$
DECLARE
    of_post bigint;
BEGIN
    SELECT post INTO of_post FROM comment_posts WHERE comment = p_comment;
    PERFORM FROM post_counts WHERE post = of_post FOR NO KEY UPDATE;
    INSERT INTO removed_comments (comment, post, author, text, mentions, reason, at)
    SELECT id, post, author, text, mentions, p_reason, p_now FROM comments
    WHERE post = of_post AND id = p_comment AND author IS NOT NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE comments SET author = NULL, text = NULL, mentions = NULL WHERE post = of_post AND id = p_comment;
    UPDATE post_counts SET comments = comments - 1, likes_version = likes_version + 1 WHERE post = of_post
    RETURNING likes, comments, likes_version INTO new_likes, new_comments, new_version;
END $$;

-- Moves it back. Returns the counts of the post; NULL: the comment is not removed.
CREATE OR REPLACE FUNCTION feedline_restore_comment(
    p_comment bigint, OUT new_likes bigint, OUT new_comments bigint, OUT new_version bigint
) LANGUAGE plpgsql AS $$
DECLARE
    removed record;
BEGIN
    PERFORM FROM post_counts WHERE post = (SELECT post FROM comment_posts WHERE comment = p_comment) FOR NO KEY UPDATE;
    DELETE FROM removed_comments WHERE comment = p_comment RETURNING * INTO removed;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE comments SET author = removed.author, text = removed.text, mentions = removed.mentions
    WHERE post = removed.post AND id = p_comment;
    UPDATE post_counts SET comments = comments + 1, likes_version = likes_version + 1 WHERE post = removed.post
    RETURNING likes, comments, likes_version INTO new_likes, new_comments, new_version;
END $$;

-- Stores a report and its event, in which the number of the report is 0. Returns the number; or that of the open report
-- of the same reporter about the same object.
CREATE OR REPLACE FUNCTION feedline_create_report(
    p_reporter text, p_kind text, p_object text, p_about text, p_reason text, p_text text, p_now bigint, p_event text,
    p_pending int
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    new_id bigint;
BEGIN
    LOOP
        INSERT INTO reports (reporter, kind, object, about, reason, text, at)
        VALUES (p_reporter, p_kind, p_object, p_about, p_reason, p_text, p_now)
        ON CONFLICT (reporter, kind, object) WHERE closed_at IS NULL DO NOTHING RETURNING id INTO new_id;
        IF FOUND THEN
            IF p_event IS NOT NULL THEN
                INSERT INTO events (at, event, pending)
                VALUES (p_now, replace(p_event, '"report":0', '"report":' || new_id), p_pending);
            END IF;
            RETURN new_id;
        END IF;
        SELECT id INTO new_id FROM reports
        WHERE reporter = p_reporter AND kind = p_kind AND object = p_object AND closed_at IS NULL;
        -- If not, it was closed meanwhile.
        IF FOUND THEN
            RETURN new_id;
        END IF;
    END LOOP;
END $$;
