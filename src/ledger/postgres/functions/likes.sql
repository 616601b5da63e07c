-- revision: 1
-- Likes, which come in batches from a queue.

-- Whether an object that can be liked exists: a post, or a comment on one.
CREATE OR REPLACE FUNCTION feedline_likeable(p_is_post boolean, p_number bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN p_is_post THEN EXISTS (
        SELECT FROM posts WHERE id = p_number AND deleted_at IS NULL
    ) ELSE EXISTS (
        SELECT FROM (SELECT post FROM comment_posts WHERE comment = p_number) under
        CROSS JOIN LATERAL (SELECT FROM posts WHERE id = under.post AND deleted_at IS NULL OFFSET 0) there
        CROSS JOIN LATERAL (
            SELECT FROM comments WHERE comments.post = under.post AND id = p_number AND author IS NOT NULL OFFSET 0
        ) written
    ) END
$$;

-- The tallies of objects, each once; zeros for objects without any.
CREATE OR REPLACE FUNCTION feedline_like_tallies(p_are_posts boolean[], p_numbers bigint[])
RETURNS TABLE (p boolean, n bigint, new_likes bigint, new_comments bigint, new_version bigint) LANGUAGE sql STABLE AS $$
    SELECT wanted.p, wanted.n, coalesce(of_post.likes, of_comment.likes, 0),
           coalesce(of_post.comments, of_comment.replies, 0),
           coalesce(of_post.likes_version, of_comment.likes_version, 0)
    FROM (SELECT DISTINCT c.p, c.n FROM unnest(p_are_posts, p_numbers) AS c (p, n)) wanted
    LEFT JOIN LATERAL (
        SELECT likes, comments, likes_version FROM post_counts WHERE wanted.p AND post = wanted.n OFFSET 0
    ) of_post ON true
    LEFT JOIN LATERAL (
        SELECT c.likes, c.replies, c.likes_version
        FROM (SELECT post FROM comment_posts WHERE NOT wanted.p AND comment = wanted.n OFFSET 0) under
        CROSS JOIN LATERAL (
            SELECT * FROM comments WHERE comments.post = under.post AND comments.id = wanted.n OFFSET 0
        ) c
    ) of_comment ON true
$$;

-- Applies a batch: an element of the arrays for each change; an unseen one is only stored as reverted. Returns one row
-- with the outcome `stale` if the partition of the queue does not stand at `p_from`. Otherwise rows with the outcome
-- `added` (the user and the object), `gone` or `hidden` for each reverted like (with its note, user and object;
-- `hidden`: an unseen one of an object that exists), and `tally` for each object. Locks: the position, new users, then
-- the counts of all posts concerned in the order of their ids, as writers of comments do.
--
-- Whether an object exists is looked up by hash: comparing each change with each object is slow in large batches. `IS
-- TRUE` keeps the planner from making a join of it: connections of Feedline have hash joins disabled.
CREATE OR REPLACE FUNCTION feedline_settle_likes(
    p_partition int, p_from text, p_to text, p_users text[], p_are_posts boolean[], p_numbers bigint[],
    p_liked boolean[], p_times bigint[], p_unseen boolean[], p_now bigint
) RETURNS TABLE (
    outcome text, note bigint, liker text, is_post boolean, number bigint, new_likes bigint, new_comments bigint,
    new_version bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    current_position text;
    live_posts bigint[];
    live_comments bigint[];
    comment_posts_of bigint[];
BEGIN
    INSERT INTO like_positions (partition, position) VALUES (p_partition, '') ON CONFLICT DO NOTHING;
    SELECT position INTO current_position FROM like_positions WHERE partition = p_partition FOR UPDATE;
    IF current_position <> p_from THEN
        RETURN QUERY SELECT 'stale', 0::bigint, ''::text, false, 0::bigint, 0::bigint, 0::bigint, 0::bigint;
        RETURN;
    END IF;

    live_posts := ARRAY(
        SELECT wanted.n FROM (
            SELECT DISTINCT c.n FROM unnest(p_are_posts, p_numbers, p_unseen) AS c (p, n, u) WHERE c.p AND NOT c.u
        ) wanted
        CROSS JOIN LATERAL (SELECT FROM posts WHERE id = wanted.n AND deleted_at IS NULL OFFSET 0) there);
    SELECT coalesce(array_agg(wanted.n), '{}'), coalesce(array_agg(of.post), '{}')
    INTO live_comments, comment_posts_of FROM (
        SELECT DISTINCT c.n FROM unnest(p_are_posts, p_numbers, p_unseen) AS c (p, n, u) WHERE NOT c.p AND NOT c.u
    ) wanted
    CROSS JOIN LATERAL (SELECT post FROM comment_posts WHERE comment = wanted.n OFFSET 0) of
    CROSS JOIN LATERAL (SELECT FROM posts WHERE id = of.post AND deleted_at IS NULL OFFSET 0) there
    CROSS JOIN LATERAL (
        SELECT FROM comments WHERE post = of.post AND id = wanted.n AND author IS NOT NULL OFFSET 0
    ) written;
    WITH made AS (
        INSERT INTO users (id, name, created_at)
        SELECT DISTINCT c.owner COLLATE "C", c.owner, p_now
        FROM unnest(p_users, p_are_posts, p_numbers, p_liked, p_unseen) AS c (owner, p, n, liking, u)
        WHERE c.liking AND NOT c.u AND CASE
            WHEN c.p THEN (c.n IN (SELECT unnest(live_posts))) IS TRUE
            ELSE (c.n IN (SELECT unnest(live_comments))) IS TRUE
        END
        ORDER BY 1 ON CONFLICT DO NOTHING RETURNING id
    )
    INSERT INTO user_terms (term, owner) SELECT lower(id), id FROM made;

    INSERT INTO post_counts (post) SELECT DISTINCT p FROM unnest(live_posts || comment_posts_of) AS t (p) ORDER BY p
    ON CONFLICT DO NOTHING;
    PERFORM FROM post_counts WHERE post = ANY (live_posts || comment_posts_of) ORDER BY post FOR NO KEY UPDATE;
    -- Comments may have been deleted while this waited. Posts may, too, but likes of deleted posts are harmless.
    SELECT coalesce(array_agg(t.n), '{}'), coalesce(array_agg(t.p), '{}') INTO live_comments, comment_posts_of
    FROM unnest(live_comments, comment_posts_of) AS t (n, p)
    CROSS JOIN LATERAL (SELECT FROM comments WHERE post = t.p AND id = t.n AND author IS NOT NULL OFFSET 0) written;

    RETURN QUERY WITH changes AS MATERIALIZED (
        SELECT c.owner, c.n, c.liking, c.at, c.place
        FROM unnest(p_users, p_are_posts, p_numbers, p_liked, p_times, p_unseen) WITH ORDINALITY
            AS c (owner, p, n, liking, at, u, place)
        WHERE c.p AND NOT c.u AND (c.n IN (SELECT unnest(live_posts))) IS TRUE
    ), added AS (
        INSERT INTO likes (post, owner, seq, at)
        SELECT x.n, x.owner, nextval('likes_seq'), x.at
        FROM (SELECT * FROM changes WHERE liking ORDER BY place) x ON CONFLICT DO NOTHING RETURNING post, owner, seq
    ), removed AS (
        DELETE FROM likes USING (SELECT * FROM changes WHERE NOT liking) x
        WHERE likes.post = x.n AND likes.owner = x.owner RETURNING likes.post
    ), differences AS (
        SELECT d.post, sum(d.by) AS by
        FROM (SELECT post, 1 AS by FROM added UNION ALL SELECT post, -1 FROM removed) d GROUP BY d.post
    ), counted AS (
        UPDATE post_counts SET likes = likes + differences.by, likes_version = likes_version + 1
        FROM differences WHERE post_counts.post = differences.post AND differences.by <> 0
    )
    SELECT 'added', 0::bigint, added.owner, true, added.post, 0::bigint, 0::bigint, 0::bigint
    FROM added ORDER BY added.seq;

    RETURN QUERY WITH changes AS MATERIALIZED (
        SELECT c.owner, c.n, c.liking, c.at, c.place
        FROM unnest(p_users, p_are_posts, p_numbers, p_liked, p_times, p_unseen) WITH ORDINALITY
            AS c (owner, p, n, liking, at, u, place)
        WHERE NOT c.p AND NOT c.u AND (c.n IN (SELECT unnest(live_comments))) IS TRUE
    ), added AS (
        INSERT INTO comment_likes (comment, owner, at) SELECT n, owner, at FROM changes WHERE liking
        ON CONFLICT DO NOTHING RETURNING comment, owner
    ), removed AS (
        DELETE FROM comment_likes USING (SELECT * FROM changes WHERE NOT liking) x
        WHERE comment_likes.comment = x.n AND comment_likes.owner = x.owner RETURNING comment_likes.comment
    ), differences AS (
        SELECT d.comment, t.p AS post, sum(d.by) AS by
        FROM (SELECT comment, 1 AS by FROM added UNION ALL SELECT comment, -1 FROM removed) d
        JOIN unnest(live_comments, comment_posts_of) AS t (n, p) ON t.n = d.comment GROUP BY d.comment, t.p
    ), counted AS (
        UPDATE comments SET likes = likes + differences.by, likes_version = likes_version + 1
        FROM differences WHERE comments.post = differences.post AND comments.id = differences.comment
            AND differences.by <> 0
    )
    SELECT 'added', 0::bigint, added.owner, false, added.comment, 0::bigint, 0::bigint, 0::bigint
    FROM added JOIN changes ON changes.n = added.comment AND changes.owner = added.owner AND changes.liking
    ORDER BY changes.place;

    RETURN QUERY WITH noted AS (
        INSERT INTO like_reverts (partition, owner, object, reason)
        SELECT p_partition, x.owner, CASE WHEN x.p THEN 'p' ELSE 'c' END || x.n,
               CASE WHEN x.u AND feedline_likeable(x.p, x.n) THEN 'hidden' ELSE 'gone' END
        FROM (
            SELECT c.owner, c.p, c.n, c.u
            FROM unnest(p_users, p_are_posts, p_numbers, p_liked, p_unseen) WITH ORDINALITY
                AS c (owner, p, n, liking, u, place)
            WHERE c.u OR (c.liking AND NOT CASE
                WHEN c.p THEN (c.n IN (SELECT unnest(live_posts))) IS TRUE
                ELSE (c.n IN (SELECT unnest(live_comments))) IS TRUE
            END)
            ORDER BY c.place
        ) x RETURNING id, owner, object, reason
    )
    SELECT noted.reason, noted.id, noted.owner, noted.object LIKE 'p%', substr(noted.object, 2)::bigint,
           0::bigint, 0::bigint, 0::bigint
    FROM noted;

    UPDATE like_positions SET position = p_to WHERE partition = p_partition;
    RETURN QUERY
    SELECT 'tally', 0::bigint, ''::text, t.p, t.n, t.likes, t.comments, t.version
    FROM feedline_like_tallies(p_are_posts, p_numbers) AS t (p, n, likes, comments, version);
END $$;
