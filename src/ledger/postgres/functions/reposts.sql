-- revision: 1
-- Reposts and quotes: posts that name another one. A transaction locks the row of the author first, as all writers of
-- posts do, then the counts of the named post.

-- Stores a post that reposts or quotes `p_named`, and its fan-out job. `outcome`: as of `feedline_create_post`, or `no
-- post` (the named post does not exist), `reposted` (the author reposted it already, by the post `existing`).
CREATE OR REPLACE FUNCTION feedline_create_naming_post(
    p_post bigint, p_author text, p_topics text[], p_visibility text, p_public boolean, p_body text, p_job text,
    p_now bigint, p_folded text[], p_named bigint, p_is_repost boolean,
    OUT outcome text, OUT job bigint[], OUT existing bigint
) LANGUAGE plpgsql AS $$
DECLARE
    named_author text;
BEGIN
    PERFORM feedline_lock_users(p_author, p_author);
    PERFORM FROM posts WHERE id = p_post AND author = p_author;
    IF FOUND THEN
        outcome := 'before';
        RETURN;
    END IF;
    SELECT author INTO named_author FROM posts WHERE id = p_named AND deleted_at IS NULL;
    IF NOT FOUND THEN
        outcome := 'no post';
        RETURN;
    END IF;
    IF p_is_repost THEN
        SELECT repost INTO existing FROM reposts WHERE post = p_named AND author = p_author AND repost <> p_post;
        IF FOUND THEN
            outcome := 'reposted';
            RETURN;
        END IF;
    END IF;
    SELECT made.outcome, made.job INTO outcome, job
    FROM feedline_create_post(
        p_post, p_author, p_topics, p_visibility, p_public, p_body, p_job, p_now, p_folded) made;
    IF outcome <> 'stored' THEN
        RETURN;
    END IF;
    IF p_is_repost THEN
        INSERT INTO reposts (post, author, repost) VALUES (p_named, p_author, p_post);
        PERFORM feedline_count_naming(p_named, 1, 0);
    ELSE
        INSERT INTO quotes (quote, author, post, post_author) VALUES (p_post, p_author, p_named, named_author);
        PERFORM feedline_count_naming(p_named, 0, 1);
    END IF;
END $$;

-- Detaches quotes of posts of `p_post_author`: the one by the post `p_quote`, or (NULL) those by the posts of
-- `p_author`, `p_max` at most. Returns the posts that quote. Their rows are locked in the order of their ids, then the
-- counts, as by deletions.
CREATE OR REPLACE FUNCTION feedline_detach_quotes(p_post_author text, p_quote bigint, p_author text, p_max bigint)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    chosen bigint[];
    quoted bigint;
BEGIN
    IF p_quote IS NOT NULL THEN
        chosen := ARRAY(SELECT quote FROM quotes
            WHERE quote = p_quote AND post_author = p_post_author AND NOT detached FOR NO KEY UPDATE);
    ELSE
        chosen := ARRAY(SELECT quote FROM quotes
            WHERE post_author = p_post_author AND author = p_author AND NOT detached
            ORDER BY quote LIMIT p_max FOR NO KEY UPDATE);
    END IF;
    UPDATE quotes SET detached = true WHERE quote = ANY (chosen);
    FOR quoted IN SELECT post FROM quotes WHERE quote = ANY (chosen) ORDER BY post LOOP
        PERFORM feedline_count_naming(quoted, 0, -1);
    END LOOP;
    RETURN chosen;
END $$;

-- Submits a job of an author, without another write. Returns its numbers.
CREATE OR REPLACE FUNCTION feedline_submit_author_job(p_author text, p_job text, p_now bigint) RETURNS bigint[]
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM feedline_lock_users(p_author, p_author);
    RETURN feedline_submit_job(p_job, p_now);
END $$;
