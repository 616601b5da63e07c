-- Who likes what. Likes are acknowledged by a queue and come here in batches. Times are Unix milliseconds.

-- `seq` orders the list of who likes a post: unlike a time, it is unique, so a cursor is exact. It is taken while the
-- post's row in `post_counts` is locked, so the numbers of one list become visible in their order. Whether a user likes a
-- post is a look-up by both, so one table does.
CREATE SEQUENCE likes_seq AS bigint;
CREATE TABLE likes (
    post  bigint NOT NULL,
    owner text COLLATE "C" NOT NULL,
    seq   bigint NOT NULL,
    at    bigint NOT NULL,
    PRIMARY KEY (post, owner)
) PARTITION BY HASH (post);
CREATE INDEX likes_listed ON likes (post, seq);

CREATE TABLE comment_likes (
    comment bigint NOT NULL,
    owner   text COLLATE "C" NOT NULL,
    at      bigint NOT NULL,
    PRIMARY KEY (comment, owner)
) PARTITION BY HASH (comment);

DO $$
DECLARE
    parent text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['likes', 'comment_likes'] LOOP
        FOR part IN 0..15 LOOP
            EXECUTE format('CREATE TABLE %s_%s PARTITION OF %s FOR VALUES WITH (MODULUS 16, REMAINDER %s)',
                           parent, part, parent, part);
        END LOOP;
    END LOOP;
END $$;

-- How far each partition of the queue is settled: written in the transaction that settles it.
CREATE TABLE like_positions (
    partition int PRIMARY KEY,
    position  text NOT NULL
) WITH (fillfactor = 50);

-- Likes that could not be settled, until their users were told. `object` is `p12` for a post, `c34` for a comment.
CREATE TABLE like_reverts (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    partition int NOT NULL,
    owner     text COLLATE "C" NOT NULL,
    object    text COLLATE "C" NOT NULL,
    reason    text NOT NULL
);
CREATE INDEX like_reverts_untold ON like_reverts (partition, id);

-- Applies a batch: an element of the arrays for each change; an unseen one is only noted as reverted. Answers `stale` alone
-- if the queue's partition does not stand at `begins`; else `added` (who, and what), `reverted` (with the note, whose it
-- is, and of what), and `tally` for each object. Locks: the position, new users, then the counts of all posts concerned in the order of their
-- ids, which is also what comments are changed under.
CREATE FUNCTION feedline_settle(
    in_partition int, begins text, ends text, owners text[], of_posts boolean[], numbers bigint[], likings boolean[],
    times bigint[], unseen boolean[], now_at bigint
) RETURNS TABLE (
    what text, note bigint, whose text, is_post boolean, number bigint, new_likes bigint, new_comments bigint,
    new_version bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    stands text;
    posts_there bigint[];
    comments_there bigint[];
    under bigint[];
BEGIN
    INSERT INTO like_positions (partition, position) VALUES (in_partition, '') ON CONFLICT DO NOTHING;
    SELECT position INTO stands FROM like_positions WHERE partition = in_partition FOR UPDATE;
    IF stands <> begins THEN
        RETURN QUERY SELECT 'stale', 0::bigint, ''::text, false, 0::bigint, 0::bigint, 0::bigint, 0::bigint;
        RETURN;
    END IF;

    posts_there := ARRAY(
        SELECT wanted.n FROM (
            SELECT DISTINCT c.n FROM unnest(of_posts, numbers, unseen) AS c (p, n, u) WHERE c.p AND NOT c.u
        ) wanted
        CROSS JOIN LATERAL (SELECT FROM posts WHERE id = wanted.n AND deleted_at IS NULL OFFSET 0) there);
    SELECT coalesce(array_agg(wanted.n), '{}'), coalesce(array_agg(of.post), '{}') INTO comments_there, under FROM (
        SELECT DISTINCT c.n FROM unnest(of_posts, numbers, unseen) AS c (p, n, u) WHERE NOT c.p AND NOT c.u
    ) wanted
    CROSS JOIN LATERAL (SELECT post FROM comment_posts WHERE comment = wanted.n OFFSET 0) of
    CROSS JOIN LATERAL (SELECT FROM posts WHERE id = of.post AND deleted_at IS NULL OFFSET 0) there
    CROSS JOIN LATERAL (
        SELECT FROM comments WHERE post = of.post AND id = wanted.n AND author IS NOT NULL OFFSET 0
    ) written;
    WITH made AS (
        INSERT INTO users (id, name, created_at)
        SELECT DISTINCT c.owner COLLATE "C", c.owner, now_at
        FROM unnest(owners, of_posts, numbers, likings, unseen) AS c (owner, p, n, liking, u)
        WHERE c.liking AND NOT c.u AND c.n = ANY (CASE WHEN c.p THEN posts_there ELSE comments_there END)
        ORDER BY 1 ON CONFLICT DO NOTHING RETURNING id
    )
    INSERT INTO user_terms (term, owner) SELECT lower(id), id FROM made;

    INSERT INTO post_counts (post) SELECT DISTINCT p FROM unnest(posts_there || under) AS t (p) ORDER BY p
    ON CONFLICT DO NOTHING;
    PERFORM FROM post_counts WHERE post = ANY (posts_there || under) ORDER BY post FOR NO KEY UPDATE;
    -- Comments may have gone while this waited; posts may too, but a like before that is as good as none.
    SELECT coalesce(array_agg(t.n), '{}'), coalesce(array_agg(t.p), '{}') INTO comments_there, under
    FROM unnest(comments_there, under) AS t (n, p)
    CROSS JOIN LATERAL (SELECT FROM comments WHERE post = t.p AND id = t.n AND author IS NOT NULL OFFSET 0) written;

    RETURN QUERY WITH changes AS MATERIALIZED (
        SELECT c.owner, c.n, c.liking, c.at, c.place
        FROM unnest(owners, of_posts, numbers, likings, times, unseen) WITH ORDINALITY
            AS c (owner, p, n, liking, at, u, place)
        WHERE c.p AND NOT c.u AND c.n = ANY (posts_there)
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
        FROM unnest(owners, of_posts, numbers, likings, times, unseen) WITH ORDINALITY
            AS c (owner, p, n, liking, at, u, place)
        WHERE NOT c.p AND NOT c.u AND c.n = ANY (comments_there)
    ), added AS (
        INSERT INTO comment_likes (comment, owner, at) SELECT n, owner, at FROM changes WHERE liking
        ON CONFLICT DO NOTHING RETURNING comment, owner
    ), removed AS (
        DELETE FROM comment_likes USING (SELECT * FROM changes WHERE NOT liking) x
        WHERE comment_likes.comment = x.n AND comment_likes.owner = x.owner RETURNING comment_likes.comment
    ), differences AS (
        SELECT d.comment, t.p AS post, sum(d.by) AS by
        FROM (SELECT comment, 1 AS by FROM added UNION ALL SELECT comment, -1 FROM removed) d
        JOIN unnest(comments_there, under) AS t (n, p) ON t.n = d.comment GROUP BY d.comment, t.p
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
        SELECT in_partition, x.owner, CASE WHEN x.p THEN 'p' ELSE 'c' END || x.n, 'gone' FROM (
            SELECT c.owner, c.p, c.n
            FROM unnest(owners, of_posts, numbers, likings, unseen) WITH ORDINALITY
                AS c (owner, p, n, liking, u, place)
            WHERE c.u OR (c.liking AND NOT c.n = ANY (CASE WHEN c.p THEN posts_there ELSE comments_there END))
            ORDER BY c.place
        ) x RETURNING id, owner, object
    )
    SELECT 'reverted', noted.id, noted.owner, noted.object LIKE 'p%', substr(noted.object, 2)::bigint,
           0::bigint, 0::bigint, 0::bigint
    FROM noted;

    UPDATE like_positions SET position = ends WHERE partition = in_partition;
    RETURN QUERY
    SELECT 'tally', 0::bigint, ''::text, t.p, t.n, t.likes, t.comments, t.version
    FROM feedline_tallies(of_posts, numbers) AS t (p, n, likes, comments, version);
END $$;

-- The tallies of objects, each once; zeros where nothing came of one.
CREATE FUNCTION feedline_tallies(of_posts boolean[], numbers bigint[])
RETURNS TABLE (p boolean, n bigint, new_likes bigint, new_comments bigint, new_version bigint) LANGUAGE sql STABLE AS $$
    SELECT wanted.p, wanted.n, coalesce(of_post.likes, of_comment.likes, 0),
           coalesce(of_post.comments, of_comment.replies, 0),
           coalesce(of_post.likes_version, of_comment.likes_version, 0)
    FROM (SELECT DISTINCT c.p, c.n FROM unnest(of_posts, numbers) AS c (p, n)) wanted
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
