-- revision: 2
-- Comments. A transaction locks the counts of the post first, then its comments.

-- Whether a comment with this id is by this author, or remains of a deleted one: the call was made before.
CREATE OR REPLACE FUNCTION feedline_comment_exists(p_comment bigint, p_author text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM (SELECT post FROM comment_posts WHERE comment = p_comment) under
        CROSS JOIN LATERAL (
            SELECT author FROM comments WHERE comments.post = under.post AND comments.id = p_comment OFFSET 0
        ) c
        WHERE c.author = p_author OR c.author IS NULL)
$$;

-- Stores a comment. `outcome`: `stored` (with the counts of the post), `before` (see `feedline_comment_exists`), `no
-- post`, `no parent`, `too deep`, `no author`.
CREATE OR REPLACE FUNCTION feedline_create_comment(
    p_comment bigint, p_post bigint, p_parent bigint, p_author text, p_text text, p_mentions text[], p_max_depth int,
    OUT outcome text, OUT new_likes bigint, OUT new_comments bigint, OUT new_version bigint
) LANGUAGE plpgsql AS $$
DECLARE
    parent_depth int;
BEGIN
    IF feedline_comment_exists(p_comment, p_author) THEN
        outcome := 'before';
        RETURN;
    END IF;
    -- The post is not locked: a deletion after this read counts as one after the comment.
    PERFORM FROM posts WHERE id = p_post AND deleted_at IS NULL;
    IF NOT FOUND THEN
        outcome := 'no post';
        RETURN;
    END IF;
    PERFORM FROM users WHERE id = p_author;
    IF NOT FOUND THEN
        outcome := 'no author';
        RETURN;
    END IF;
    INSERT INTO post_counts (post) VALUES (p_post) ON CONFLICT DO NOTHING;
    PERFORM FROM post_counts WHERE post = p_post FOR NO KEY UPDATE;
    -- The lock may have waited for the same call.
    IF feedline_comment_exists(p_comment, p_author) THEN
        outcome := 'before';
        RETURN;
    END IF;
    IF p_parent <> 0 THEN
        SELECT depth INTO parent_depth FROM comments WHERE post = p_post AND id = p_parent AND author IS NOT NULL;
        IF NOT FOUND THEN
            outcome := 'no parent';
            RETURN;
        ELSIF parent_depth >= p_max_depth THEN
            outcome := 'too deep';
            RETURN;
        END IF;
        UPDATE comments SET replies = replies + 1 WHERE post = p_post AND id = p_parent;
    END IF;
    INSERT INTO comment_posts (comment, post) VALUES (p_comment, p_post);
    INSERT INTO comments (post, id, parent, depth, author, text, mentions)
    VALUES (p_post, p_comment, p_parent, coalesce(parent_depth + 1, 0), p_author, p_text, p_mentions);
    UPDATE post_counts SET comments = comments + 1, likes_version = likes_version + 1 WHERE post = p_post
    RETURNING likes, comments, likes_version INTO new_likes, new_comments, new_version;
    outcome := 'stored';
END $$;

-- Replaces the text and the mentions of a comment, if its `edited_at` is `p_base` (NULL: never edited). `outcome`:
-- `edited`, `conflict` (another version), `missing`. Locks the comment alone: no count changes.
CREATE OR REPLACE FUNCTION feedline_edit_comment(
    p_comment bigint, p_author text, p_base bigint, p_text text, p_mentions text[], p_now bigint, OUT outcome text
) LANGUAGE plpgsql AS $$
DECLARE
    of_post bigint;
    version bigint;
BEGIN
    SELECT post INTO of_post FROM comment_posts WHERE comment = p_comment;
    SELECT edited_at INTO version FROM comments
    WHERE post = of_post AND id = p_comment AND author = p_author FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        outcome := 'missing';
    ELSIF version IS DISTINCT FROM p_base THEN
        outcome := 'conflict';
    ELSE
        UPDATE comments SET text = p_text, mentions = p_mentions, edited_at = p_now
        WHERE post = of_post AND id = p_comment;
        outcome := 'edited';
    END IF;
END $$;

-- Deletes a comment. `stays`: whether its row remains because it has replies; NULL: there is no such comment. `along`:
-- its deleted ancestors that are removed with it, nearest first. The counts are those of the post.
CREATE OR REPLACE FUNCTION feedline_delete_comment(
    p_comment bigint, OUT stays boolean, OUT along bigint[], OUT new_likes bigint, OUT new_comments bigint,
    OUT new_version bigint
) LANGUAGE plpgsql AS $$
DECLARE
    of_post bigint;
    above bigint;
    next_above bigint;
    reply_count bigint;
    is_last boolean;
BEGIN
    SELECT post INTO of_post FROM comment_posts WHERE comment = p_comment;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM FROM post_counts WHERE post = of_post FOR NO KEY UPDATE;
    SELECT parent, replies INTO above, reply_count FROM comments
    WHERE post = of_post AND id = p_comment AND author IS NOT NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    stays := reply_count > 0;
    along := '{}';
    IF stays THEN
        UPDATE comments SET author = NULL, text = NULL, mentions = NULL WHERE post = of_post AND id = p_comment;
    ELSE
        DELETE FROM comments WHERE post = of_post AND id = p_comment;
        DELETE FROM comment_posts WHERE comment = p_comment;
        LOOP
            UPDATE comments SET replies = replies - 1 WHERE post = of_post AND id = above
            RETURNING parent, replies = 0 AND author IS NULL
                AND NOT EXISTS (SELECT FROM removed_comments WHERE comment = above) INTO next_above, is_last;
            EXIT WHEN NOT FOUND OR NOT is_last;
            DELETE FROM comments WHERE post = of_post AND id = above;
            DELETE FROM comment_posts WHERE comment = above;
            along := along || above;
            above := next_above;
        END LOOP;
    END IF;
    UPDATE post_counts SET comments = comments - 1, likes_version = likes_version + 1 WHERE post = of_post
    RETURNING likes, comments, likes_version INTO new_likes, new_comments, new_version;
END $$;
