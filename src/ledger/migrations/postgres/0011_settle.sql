-- Settling likes again, as it was but for how it is found out whether an object is there: by a hash of those that are. In a
-- large batch each change was compared with each object. `IS TRUE` keeps it from being made a join: this program's connections
-- have those by hash switched off.

-- Applies a batch: an element of the arrays for each change; an unseen one is only noted as reverted. Answers `stale` alone
-- if the queue's partition does not stand at `begins`; else `added` (who, and what); for each that is reverted why: `gone`,
-- or `hidden` of an unseen one of what is there (with the note, whose it is, and of what); and `tally` for each object. Locks: the position, new users, then the counts of all posts concerned in the order of their
-- ids, which is also what comments are changed under.
CREATE OR REPLACE FUNCTION feedline_settle(
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
        WHERE c.liking AND NOT c.u AND CASE
            WHEN c.p THEN (c.n IN (SELECT unnest(posts_there))) IS TRUE ELSE (c.n IN (SELECT unnest(comments_there))) IS TRUE
        END
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
        WHERE c.p AND NOT c.u AND (c.n IN (SELECT unnest(posts_there))) IS TRUE
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
        WHERE NOT c.p AND NOT c.u AND (c.n IN (SELECT unnest(comments_there))) IS TRUE
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
        SELECT in_partition, x.owner, CASE WHEN x.p THEN 'p' ELSE 'c' END || x.n,
               CASE WHEN x.u AND feedline_likeable(x.p, x.n) THEN 'hidden' ELSE 'gone' END
        FROM (
            SELECT c.owner, c.p, c.n, c.u
            FROM unnest(owners, of_posts, numbers, likings, unseen) WITH ORDINALITY
                AS c (owner, p, n, liking, u, place)
            WHERE c.u OR (c.liking AND NOT CASE
                WHEN c.p THEN (c.n IN (SELECT unnest(posts_there))) IS TRUE ELSE (c.n IN (SELECT unnest(comments_there))) IS TRUE
            END)
            ORDER BY c.place
        ) x RETURNING id, owner, object, reason
    )
    SELECT noted.reason, noted.id, noted.owner, noted.object LIKE 'p%', substr(noted.object, 2)::bigint,
           0::bigint, 0::bigint, 0::bigint
    FROM noted;

    UPDATE like_positions SET position = ends WHERE partition = in_partition;
    RETURN QUERY
    SELECT 'tally', 0::bigint, ''::text, t.p, t.n, t.likes, t.comments, t.version
    FROM feedline_tallies(of_posts, numbers) AS t (p, n, likes, comments, version);
END $$;
