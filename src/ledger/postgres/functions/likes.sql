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

-- The live ones of comments, each with its post.
CREATE OR REPLACE FUNCTION feedline_live_comments(p_comments bigint[], OUT live bigint[], OUT posts bigint[])
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT coalesce(array_agg(wanted.n), '{}'), coalesce(array_agg(of.post), '{}') INTO live, posts
    FROM unnest(p_comments) AS wanted (n)
    CROSS JOIN LATERAL (SELECT post FROM comment_posts WHERE comment = wanted.n OFFSET 0) of
    CROSS JOIN LATERAL (SELECT FROM posts WHERE id = of.post AND deleted_at IS NULL OFFSET 0) there
    CROSS JOIN LATERAL (
        SELECT FROM comments WHERE post = of.post AND id = wanted.n AND author IS NOT NULL OFFSET 0
    ) written;
END $$;

-- Creates the unknown ones of the users who like a live object. The first `p_post_likes` likes are of posts.
-- `p_handles` are the ids of the likers as written; NULL: as in `p_likers`.
CREATE OR REPLACE FUNCTION feedline_create_likers(
    p_liked bigint[], p_likers text[], p_post_likes int, p_posts bigint[], p_comments bigint[], p_handles text[],
    p_now bigint
) RETURNS void LANGUAGE sql AS $$
    WITH made AS (
        INSERT INTO users (id, handle, name, created_at)
        SELECT DISTINCT ON (c.owner COLLATE "C") c.owner COLLATE "C", c.handle, coalesce(c.handle, c.owner), p_now
        FROM unnest(p_liked, p_likers, p_handles) WITH ORDINALITY AS c (n, owner, handle, place)
        WHERE CASE
            WHEN c.place <= p_post_likes THEN (c.n IN (SELECT unnest(p_posts))) IS TRUE
            ELSE (c.n IN (SELECT unnest(p_comments))) IS TRUE
        END
        ORDER BY 1 ON CONFLICT DO NOTHING RETURNING id
    )
    INSERT INTO user_terms (term, owner) SELECT id, id FROM made
$$;

-- Locks the counts of posts in the order of their ids, creates missing ones, and adds a step to the likes of each. The
-- posts of `p_locked` are locked, too. Returns the new counts of the changed ones.
CREATE OR REPLACE FUNCTION feedline_step_like_counts(
    p_posts bigint[], p_steps bigint[], p_locked bigint[],
    OUT posts bigint[], OUT likes bigint[], OUT comments bigint[], OUT versions bigint[]
) LANGUAGE plpgsql AS $$
BEGIN
    WITH concerned AS (
        SELECT t.post, t.by FROM unnest(p_posts, p_steps) AS t (post, by) WHERE cardinality(p_locked) = 0
        UNION ALL
        (SELECT t.post, sum(t.by)::bigint
        FROM (SELECT unnest(p_posts), unnest(p_steps) UNION ALL SELECT unnest(p_locked), 0) AS t (post, by)
        WHERE cardinality(p_locked) > 0 GROUP BY t.post ORDER BY t.post)
    ), stepped AS (
        INSERT INTO post_counts AS c (post, likes, likes_version)
        SELECT concerned.post, concerned.by, (concerned.by <> 0)::int FROM concerned
        ON CONFLICT (post) DO UPDATE SET likes = c.likes + excluded.likes, likes_version = c.likes_version + 1
        WHERE excluded.likes <> 0
        RETURNING c.post, c.likes, c.comments, c.likes_version
    )
    SELECT coalesce(array_agg(s.post), '{}'), coalesce(array_agg(s.likes), '{}'), coalesce(array_agg(s.comments), '{}'),
        coalesce(array_agg(s.likes_version), '{}')
    INTO posts, likes, comments, versions FROM stepped s WHERE s.likes_version > 0;
END $$;

-- Corrects counts after `feedline_step_like_counts`: `p_added` are the posts of the new rows, `p_removed` those of the
-- removed ones. Returns the changed posts.
CREATE OR REPLACE FUNCTION feedline_correct_like_counts(
    p_posts bigint[], p_steps bigint[], p_added bigint[], p_removed bigint[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    corrected bigint[];
BEGIN
    WITH actual AS (
        SELECT d.post, sum(d.by) AS by
        FROM (SELECT unnest(p_added), 1 UNION ALL SELECT unnest(p_removed), -1) AS d (post, by) GROUP BY d.post
    ), wrong AS (
        SELECT t.post, t.by AS assumed, coalesce(actual.by, 0) AS by
        FROM unnest(p_posts, p_steps) AS t (post, by) LEFT JOIN actual ON actual.post = t.post
        WHERE t.by <> coalesce(actual.by, 0)
    ), changed AS (
        UPDATE post_counts SET likes = likes + wrong.by - wrong.assumed,
            likes_version = likes_version + (wrong.by <> 0)::int - (wrong.assumed <> 0)::int
        FROM wrong WHERE post_counts.post = wrong.post RETURNING post_counts.post
    )
    SELECT coalesce(array_agg(post), '{}') INTO corrected FROM changed;
    RETURN corrected;
END $$;

-- Stores and removes likes of posts, whose counts are locked. Returns the places of the new likes, and the posts of the
-- removed ones.
CREATE OR REPLACE FUNCTION feedline_settle_post_likes(
    p_gone bigint[], p_liked bigint[], p_likers text[], p_times bigint[], p_unliked bigint[], p_unlikers text[],
    OUT added int[], OUT removed bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    first_seq bigint := nextval('likes_seq') << 20;
BEGIN
    WITH liked AS (
        INSERT INTO likes (post, owner, seq, at)
        SELECT c.n, c.owner, first_seq + c.place, c.at
        FROM unnest(p_liked, p_likers, p_times) WITH ORDINALITY AS c (n, owner, at, place)
        WHERE (c.n IN (SELECT unnest(p_gone))) IS NOT TRUE
        ON CONFLICT DO NOTHING RETURNING seq
    )
    SELECT coalesce(array_agg((seq - first_seq)::int), '{}') INTO added FROM liked;
    removed := '{}';
    IF cardinality(p_unliked) > 0 THEN
        WITH unliked AS (
            DELETE FROM likes USING unnest(p_unliked, p_unlikers) AS x (n, owner)
            WHERE likes.post = x.n AND likes.owner = x.owner AND (x.n IN (SELECT unnest(p_gone))) IS NOT TRUE
            RETURNING likes.post
        )
        SELECT coalesce(array_agg(post), '{}') INTO removed FROM unliked;
    END IF;
END $$;

-- Stores and removes likes of comments, and counts them. The counts of the comments' posts are locked. Returns the
-- places of the new likes.
CREATE OR REPLACE FUNCTION feedline_settle_comment_likes(
    p_comments bigint[], p_posts bigint[], p_liked bigint[], p_likers text[], p_times bigint[], p_unliked bigint[],
    p_unlikers text[]
) RETURNS int[] LANGUAGE plpgsql AS $$
DECLARE
    places int[];
BEGIN
    WITH changes AS MATERIALIZED (
        SELECT c.n, c.owner, c.at, c.place
        FROM unnest(p_liked, p_likers, p_times) WITH ORDINALITY AS c (n, owner, at, place)
        WHERE (c.n IN (SELECT unnest(p_comments))) IS TRUE
    ), added AS (
        INSERT INTO comment_likes (comment, owner, at) SELECT n, owner, at FROM changes
        ON CONFLICT DO NOTHING RETURNING comment, owner
    ), removed AS (
        DELETE FROM comment_likes USING unnest(p_unliked, p_unlikers) AS x (n, owner)
        WHERE comment_likes.comment = x.n AND comment_likes.owner = x.owner
            AND (x.n IN (SELECT unnest(p_comments))) IS TRUE
        RETURNING comment_likes.comment
    ), differences AS (
        SELECT d.comment, of.post, sum(d.by) AS by
        FROM (SELECT comment, 1 AS by FROM added UNION ALL SELECT comment, -1 FROM removed) d
        JOIN unnest(p_comments, p_posts) AS of (comment, post) ON of.comment = d.comment GROUP BY d.comment, of.post
    ), counted AS (
        UPDATE comments SET likes = likes + differences.by, likes_version = likes_version + 1
        FROM differences WHERE comments.post = differences.post AND comments.id = differences.comment
            AND differences.by <> 0
    )
    SELECT coalesce(array_agg(changes.place::int ORDER BY changes.place), '{}') INTO places
    FROM added JOIN changes ON changes.n = added.comment AND changes.owner = added.owner;
    RETURN places;
END $$;

-- Writes the events of new likes: of each object the first `p_max`, `p_size` likes an event. `p_format` has the parts
-- of the text of an event: the prefixes of posts and of comments, the beginning, what follows an object, a user, the
-- users of an object, and the end.
CREATE OR REPLACE FUNCTION feedline_append_like_events(
    p_liked bigint[], p_likers text[], p_post_likes int, p_added int[], p_max bigint, p_size bigint, p_format text[],
    p_pending int, p_now bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH new_likes AS (
        SELECT p_format[CASE WHEN c.place <= p_post_likes THEN 1 ELSE 2 END] || c.n AS object, c.owner, c.place,
            row_number() OVER (PARTITION BY c.place <= p_post_likes, c.n ORDER BY c.place) AS number
        FROM unnest(p_liked, p_likers) WITH ORDINALITY AS c (n, owner, place)
        WHERE (c.place IN (SELECT unnest(p_added))) IS TRUE
    ), parts AS (
        SELECT object, owner, place, (row_number() OVER (ORDER BY place) - 1) / p_size AS part
        FROM new_likes WHERE number <= p_max
    ), objects AS (
        SELECT part, min(place) AS place,
            object || p_format[4] || string_agg(owner, p_format[5] ORDER BY place) AS likes
        FROM parts GROUP BY part, object
    )
    INSERT INTO events (at, event, pending)
    SELECT p_now, p_format[3] || string_agg(likes, p_format[6] ORDER BY place) || p_format[7], p_pending
    FROM objects GROUP BY part ORDER BY part;
END $$;

-- The reverted ones of a batch: likes of objects that are not live, and unseen ones.
CREATE OR REPLACE FUNCTION feedline_reverted_likes(
    p_liked bigint[], p_likers text[], p_post_likes int, p_posts bigint[], p_comments bigint[],
    p_unseen_of_post boolean[], p_unseen bigint[], p_unseen_by text[], p_format text[],
    OUT users text[], OUT objects text[], OUT reasons text[]
) LANGUAGE sql STABLE AS $$
    WITH reverted AS (
        SELECT c.n, c.owner, c.place, c.place <= p_post_likes AS of_post, 'gone' AS reason
        FROM unnest(p_liked, p_likers) WITH ORDINALITY AS c (n, owner, place)
        WHERE NOT CASE
            WHEN c.place <= p_post_likes THEN (c.n IN (SELECT unnest(p_posts))) IS TRUE
            ELSE (c.n IN (SELECT unnest(p_comments))) IS TRUE
        END
        UNION ALL
        SELECT c.n, c.owner, cardinality(p_liked) + c.place, c.p,
            CASE WHEN feedline_likeable(c.p, c.n) THEN 'hidden' ELSE 'gone' END
        FROM unnest(p_unseen_of_post, p_unseen, p_unseen_by) WITH ORDINALITY AS c (p, n, owner, place)
    )
    SELECT coalesce(array_agg(owner ORDER BY place), '{}'),
        coalesce(array_agg(p_format[CASE WHEN of_post THEN 1 ELSE 2 END] || n ORDER BY place), '{}'),
        coalesce(array_agg(reason ORDER BY place), '{}') FROM reverted
$$;

-- Applies a batch, unless the partition of the queue does not stand at `p_from` (`applied`). `p_posts` and `p_comments`
-- are the objects, each once and in ascending order; `p_steps`: by how much the likes of each post grow if every change
-- has an effect. Changes are in the order of their objects; those of posts come first, `p_post_likes` likes and
-- `p_post_unlikes` unlikes. `p_users` are the users who like, each once. Unseen changes are only returned as reverted.
-- `p_format`: see `feedline_append_like_events`. `p_events` are the events if all likes are new, which they nearly
-- always are: the caller assembles them at a tenth of the cost.
--
-- `added` are the places of the new likes in `p_liked`. Locks: the position, new users, then the counts of all posts
-- concerned in the order of their ids, as writers of comments do.
--
-- This runs for every like, so each row is touched as rarely as possible. Nearly all likes are new: the counts of posts
-- are locked, changed and returned in one step, as if all were, and corrected afterwards where they were not. Rows of
-- partitioned tables are looked up one by one: `= ANY` would look for every element in every partition. Whether an
-- element is in an array is looked up by hash (`IN (SELECT unnest(...))`, with `IS TRUE` so that the planner makes no
-- join of it: connections of Feedline have hash joins disabled).
CREATE OR REPLACE FUNCTION feedline_apply_like_batch(
    p_partition int, p_from text, p_to text, p_now bigint, p_posts bigint[], p_steps bigint[], p_comments bigint[],
    p_liked bigint[], p_likers text[], p_times bigint[], p_post_likes int, p_users text[], p_handles text[],
    p_unliked bigint[], p_unlikers text[], p_post_unlikes int, p_unseen_of_post boolean[], p_unseen bigint[],
    p_unseen_by text[], p_max_noted bigint, p_event_size bigint, p_format text[], p_events text[], p_pending int,
    OUT applied boolean, OUT added int[], OUT tally_of_post boolean[], OUT tally_of bigint[], OUT tally_likes bigint[],
    OUT tally_comments bigint[], OUT tally_versions bigint[], OUT reverted_by text[],
    OUT revert_objects text[], OUT revert_reasons text[]
) LANGUAGE plpgsql AS $$
DECLARE
    current_position text;
    live_posts bigint[] := p_posts;
    steps bigint[] := p_steps;
    gone_posts bigint[] := '{}';
    live_comments bigint[] := '{}';
    comment_posts_of bigint[] := '{}';
    removed bigint[];
    to_tally bigint[] := '{}';
BEGIN
    INSERT INTO like_positions (partition, position) VALUES (p_partition, '') ON CONFLICT DO NOTHING;
    SELECT position INTO current_position FROM like_positions WHERE partition = p_partition FOR UPDATE;
    applied := current_position = p_from;
    IF NOT applied THEN
        RETURN;
    END IF;

    SELECT coalesce(array_agg(t.n ORDER BY t.n), '{}') INTO live_posts FROM unnest(p_posts) AS t (n)
    CROSS JOIN LATERAL (SELECT FROM posts WHERE id = t.n AND deleted_at IS NULL OFFSET 0) there;
    IF cardinality(live_posts) < cardinality(p_posts) THEN
        gone_posts := ARRAY(SELECT unnest(p_posts) EXCEPT SELECT unnest(live_posts));
        SELECT coalesce(array_agg(t.by ORDER BY t.n), '{}') INTO steps FROM unnest(p_posts, p_steps) AS t (n, by)
        WHERE (t.n IN (SELECT unnest(gone_posts))) IS NOT TRUE;
    END IF;
    IF cardinality(p_comments) > 0 THEN
        SELECT live, posts INTO live_comments, comment_posts_of FROM feedline_live_comments(p_comments);
    END IF;
    IF (SELECT count(*) FROM users WHERE id = ANY (p_users)) < cardinality(p_users) THEN
        PERFORM feedline_create_likers(
            p_liked, p_likers, p_post_likes, live_posts, live_comments, p_handles, p_now);
    END IF;

    SELECT posts, likes, comments, versions INTO tally_of, tally_likes, tally_comments, tally_versions
    FROM feedline_step_like_counts(live_posts, steps, comment_posts_of);
    SELECT s.added, s.removed INTO added, removed FROM feedline_settle_post_likes(
        gone_posts, p_liked[:p_post_likes], p_likers[:p_post_likes], p_times[:p_post_likes],
        p_unliked[:p_post_unlikes], p_unlikers[:p_post_unlikes]) s;
    IF cardinality(added) < p_post_likes OR cardinality(removed) < p_post_unlikes THEN
        to_tally := feedline_correct_like_counts(
            live_posts, steps, ARRAY(SELECT p_liked[place] FROM unnest(added) AS t (place)), removed);
        SELECT coalesce(array_agg(t.n), '{}'), coalesce(array_agg(t.l), '{}'), coalesce(array_agg(t.c), '{}'),
            coalesce(array_agg(t.v), '{}')
        INTO tally_of, tally_likes, tally_comments, tally_versions
        FROM unnest(tally_of, tally_likes, tally_comments, tally_versions) AS t (n, l, c, v)
        WHERE (t.n IN (SELECT unnest(to_tally))) IS NOT TRUE;
    END IF;
    IF cardinality(p_comments) > 0 THEN
        -- Comments may have been deleted while this waited. Posts may, too, but likes of deleted posts are harmless.
        SELECT live, posts INTO live_comments, comment_posts_of FROM feedline_live_comments(live_comments);
        added := added || ARRAY(SELECT p_post_likes + place FROM unnest(feedline_settle_comment_likes(
            live_comments, comment_posts_of, p_liked[p_post_likes + 1:], p_likers[p_post_likes + 1:],
            p_times[p_post_likes + 1:], p_unliked[p_post_unlikes + 1:], p_unlikers[p_post_unlikes + 1:])) AS t (place));
    END IF;
    IF cardinality(added) = cardinality(p_liked) THEN
        INSERT INTO events (at, event, pending)
        SELECT p_now, e.event, p_pending FROM unnest(p_events) WITH ORDINALITY AS e (event, place) ORDER BY place;
    ELSIF p_max_noted > 0 AND cardinality(added) > 0 THEN
        PERFORM feedline_append_like_events(
            p_liked, p_likers, p_post_likes, added, p_max_noted, p_event_size, p_format, p_pending, p_now);
    END IF;
    IF cardinality(gone_posts) > 0 OR cardinality(live_comments) < cardinality(p_comments)
        OR cardinality(p_unseen) > 0 THEN
        SELECT r.users, r.objects, r.reasons INTO reverted_by, revert_objects, revert_reasons
        FROM feedline_reverted_likes(
            p_liked, p_likers, p_post_likes, live_posts, live_comments, p_unseen_of_post, p_unseen,
            p_unseen_by, p_format) r;
    END IF;
    UPDATE like_positions SET position = p_to WHERE partition = p_partition;

    tally_of_post := array_fill(true, ARRAY[cardinality(tally_of)]);
    IF cardinality(tally_of) < cardinality(p_posts) OR cardinality(p_comments) + cardinality(p_unseen) > 0 THEN
        to_tally := ARRAY(SELECT unnest(p_posts) EXCEPT SELECT unnest(tally_of));
        SELECT tally_of_post || array_agg(t.p), tally_of || array_agg(t.n), tally_likes || array_agg(t.new_likes),
            tally_comments || array_agg(t.new_comments), tally_versions || array_agg(t.new_version)
        INTO tally_of_post, tally_of, tally_likes, tally_comments, tally_versions
        FROM feedline_like_tallies(
            array_fill(true, ARRAY[cardinality(to_tally)]) || array_fill(false, ARRAY[cardinality(p_comments)])
                || p_unseen_of_post,
            to_tally || p_comments || p_unseen) t
        WHERE NOT (t.p AND (t.n IN (SELECT unnest(tally_of))) IS TRUE);
    END IF;
END $$;
