-- revision: 10
-- Erasures of users, in steps of a bounded number of rows.

-- Makes a user a tombstone, known or not, and begins the erasure. Returns false if the user is one already.
CREATE OR REPLACE FUNCTION feedline_begin_erasure(p_user text, p_now bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO users (id, name, created_at) VALUES (p_user, '', p_now) ON CONFLICT DO NOTHING;
    PERFORM feedline_lock_users(p_user, p_user);
    UPDATE users SET handle = NULL, name = '', avatar = NULL, created_at = p_now, erased_at = p_now
    WHERE id = p_user AND erased_at IS NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM user_terms WHERE owner = p_user;
    DELETE FROM accounts WHERE "user" = p_user;
    DELETE FROM profiles WHERE owner = p_user;
    INSERT INTO erasures (owner, at, due_at) VALUES (p_user, p_now, 0);
    PERFORM feedline_revoke('erased', p_user, NULL, p_now, NULL, p_now, 9223372036854775807, true);
    RETURN true;
END $$;

-- Deletes up to `p_max` rows of a table that meet `p_condition` (its $1: `p_value`), and the same rows of `p_mirror`,
-- if there is one: the columns of `p_key`, the primary key of the table, have the same names there. Returns the number
-- of rows. The rows are chosen first, and without bitmaps of all that meet the condition: a post may have a million
-- likes.
CREATE OR REPLACE FUNCTION feedline_erase_rows(
    p_table text, p_key text, p_condition text, p_value text, p_max bigint, p_mirror text DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql SET enable_bitmapscan = off AS $$
DECLARE
    removed bigint;
BEGIN
    EXECUTE format('
        WITH chosen AS MATERIALIZED (
            SELECT %2$s FROM %1$I WHERE %3$s LIMIT $2
        ), gone AS (
            DELETE FROM %1$I WHERE %3$s AND (%2$s) IN (SELECT * FROM chosen) RETURNING %2$s
        ), mirrored AS (
            %4$s
        )
        SELECT count(*) FROM gone', p_table, p_key, p_condition,
        coalesce('DELETE FROM ' || p_mirror || ' WHERE (' || p_key || ') IN (SELECT * FROM gone)', 'SELECT'))
    INTO removed USING p_value, p_max;
    RETURN removed;
END $$;

-- Removes posts that their author deleted before a time, with their likes, mutes, comments, favourites, and the rows of
-- their reposts and quotes: `p_max` rows at most. Returns the number of rows.
CREATE OR REPLACE FUNCTION feedline_erase_posts(p_user text, p_before bigint, p_max bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    remaining bigint := p_max;
    next_post bigint;
    next_comment bigint;
BEGIN
    WHILE remaining > 0 LOOP
        SELECT id INTO next_post FROM posts WHERE author = p_user AND deleted_at IS NOT NULL AND deleted_at <= p_before
        ORDER BY id LIMIT 1;
        EXIT WHEN NOT FOUND;
        remaining := remaining - feedline_forget_object('post', next_post::text, next_post, remaining);
        PERFORM FROM post_counts WHERE post = next_post FOR NO KEY UPDATE;
        remaining := remaining
            - feedline_erase_rows('likes', 'owner, post', 'post = $1::bigint', next_post::text, remaining);
        remaining := remaining - feedline_erase_rows(
            'muted_conversations', 'owner, post', 'post = $1::bigint', next_post::text, remaining);
        remaining := remaining
            - feedline_erase_rows('removed_comments', 'comment', 'post = $1::bigint', next_post::text, remaining);
        remaining := remaining
            - feedline_erase_rows('reposts', 'post, author', 'post = $1::bigint', next_post::text, remaining);
        remaining := remaining
            - feedline_erase_rows('quotes', 'quote', 'post = $1::bigint', next_post::text, remaining);
        WHILE remaining > 0 LOOP
            SELECT id INTO next_comment FROM comments WHERE post = next_post LIMIT 1;
            EXIT WHEN NOT FOUND;
            remaining := remaining - feedline_erase_rows(
                'comment_likes', 'comment, owner', 'comment = $1::bigint', next_comment::text, remaining);
            IF remaining > 0 THEN
                DELETE FROM comments WHERE post = next_post AND id = next_comment;
                DELETE FROM comment_posts WHERE comment = next_comment;
                remaining := remaining - 1;
            END IF;
        END LOOP;
        IF remaining > 0 THEN
            DELETE FROM post_counts WHERE post = next_post;
            DELETE FROM posts WHERE id = next_post;
            remaining := remaining - 1;
        END IF;
    END LOOP;
    RETURN p_max - remaining;
END $$;

-- Removes likes of a user, `p_max` at most. Returns the tallies of the liked objects.
CREATE OR REPLACE FUNCTION feedline_erase_likes(p_user text, p_max bigint)
RETURNS TABLE (is_post boolean, number bigint, new_likes bigint, new_comments bigint, new_version bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    liked_posts bigint[] := ARRAY(SELECT post FROM likes WHERE owner = p_user LIMIT p_max);
    liked_comments bigint[] := ARRAY(
        SELECT comment FROM comment_likes WHERE owner = p_user LIMIT p_max - cardinality(liked_posts));
    posts_of_comments bigint[] := ARRAY(
        SELECT (SELECT post FROM comment_posts WHERE comment = t.n) FROM unnest(liked_comments) AS t (n));
BEGIN
    PERFORM FROM post_counts WHERE post = ANY (liked_posts || posts_of_comments) ORDER BY post FOR NO KEY UPDATE;
    WITH removed AS (
        DELETE FROM likes WHERE post = ANY (liked_posts) AND owner = p_user RETURNING post
    )
    UPDATE post_counts SET likes = likes - 1, likes_version = likes_version + 1
    FROM removed WHERE post_counts.post = removed.post;
    PERFORM feedline_settle_comment_likes(liked_comments, posts_of_comments, '{}', '{}', '{}', liked_comments,
        array_fill(p_user, ARRAY[cardinality(liked_comments)]));
    RETURN QUERY SELECT t.p, t.n, t.likes, t.comments, t.version
    FROM feedline_like_tallies(
        array_fill(true, ARRAY[cardinality(liked_posts)]) || array_fill(false, ARRAY[cardinality(liked_comments)]),
        liked_posts || liked_comments
    ) AS t (p, n, likes, comments, version);
END $$;

-- Removes a user from notifications of others, from `p_max` groups at most. Returns the groups, each with its owner.
CREATE OR REPLACE FUNCTION feedline_erase_from_notifications(p_user text, p_max bigint)
RETURNS TABLE (notified_user text, changed bigint) LANGUAGE plpgsql AS $$
DECLARE
    entry record;
    people_left bigint;
    next_position bigint;
    had_left boolean;
    left_group notifications%ROWTYPE;
BEGIN
    FOR entry IN
        SELECT p.owner, p.notification FROM notification_people p WHERE p.person = p_user
        ORDER BY p.owner, p.notification LIMIT p_max
    LOOP
        UPDATE notified SET latest = latest + 1 WHERE owner = entry.owner RETURNING latest INTO next_position;
        DELETE FROM notification_people
        WHERE owner = entry.owner AND notification = entry.notification AND person = p_user
        RETURNING ended INTO had_left;
        CONTINUE WHEN NOT FOUND;
        notified_user := entry.owner;
        changed := entry.notification;
        RETURN NEXT;
        CONTINUE WHEN had_left;
        UPDATE notifications AS n SET people = people - 1, position = next_position
        WHERE n.owner = entry.owner AND n.id = entry.notification
        RETURNING n.* INTO left_group;
        CONTINUE WHEN NOT FOUND;
        people_left := left_group.people;
        IF left_group.kind = 'app' THEN
            -- The application's data may contain an escaped NUL, which the JSON functions refuse.
            DELETE FROM app_notifications
            WHERE owner = entry.owner AND object = left_group.object
                AND lower(replace(content, '\u0000', '\ufffd')::json ->> 'from') = p_user;
            -- Nothing else is known of what the group says.
            IF FOUND THEN
                people_left := 0;
            END IF;
        END IF;
        IF people_left <= 0 THEN
            DELETE FROM notifications WHERE owner = entry.owner AND id = entry.notification;
            PERFORM feedline_remove_app_content(entry.owner, left_group.kind, left_group.object);
            UPDATE notified SET groups = groups - 1 WHERE owner = entry.owner;
            -- Rows of people who left it.
            INSERT INTO notification_remains (owner, notification) VALUES (entry.owner, entry.notification)
            ON CONFLICT DO NOTHING;
        END IF;
    END LOOP;
END $$;

-- Removes other rows of a user, `p_max` at most: lists and their members, the user from lists of others, restrictions
-- and post alerts both ways, filters, followed topics, notifications to the user, read markers, muted conversations,
-- idempotency keys, devices, preferences, pushes, counters of favourites. Returns the number of rows.
CREATE OR REPLACE FUNCTION feedline_erase_rest(p_user text, p_max bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    remaining bigint := p_max;
    rest record;
BEGIN
    -- Locks the row in `users`: before that in `notified`, as everywhere.
    remaining := remaining - feedline_erase_lists(p_user, remaining);
    PERFORM FROM notified WHERE owner = p_user FOR NO KEY UPDATE;
    FOR rest IN SELECT * FROM (VALUES
        ('restrictions', 'maker, kind, target', 'maker = $1', 'restricted_by'),
        ('restricted_by', 'target, kind, maker', 'target = $1', 'restrictions'),
        ('follow_requests', 'seq', 'follower = $1', NULL),
        ('follow_requests', 'seq', 'followee = $1', NULL),
        ('follow_rejections', 'followee, follower', 'followee = $1', NULL),
        ('follow_rejections', 'followee, follower', 'follower = $1', NULL),
        ('post_alerts', 'owner, author', 'owner = $1', 'post_alerts_of'),
        ('post_alerts_of', 'author, owner', 'author = $1', 'post_alerts'),
        ('filters', 'id', 'owner = $1', NULL),
        ('topic_follows', 'follower, topic', 'follower = $1', NULL),
        ('list_users', 'list, member', 'member = $1', NULL),
        ('notification_people', 'owner, notification, person', 'owner = $1', NULL),
        ('notifications', 'owner, id', 'owner = $1', NULL),
        ('app_notifications', 'owner, object', 'owner = $1', NULL),
        ('notified', 'owner', 'owner = $1', NULL),
        ('idempotency', 'owner, key', 'owner = $1', NULL),
        ('muted_conversations', 'owner, post', 'owner = $1', NULL),
        ('devices', 'owner, id', 'owner = $1', NULL),
        ('push_queue', 'owner, device, item', 'owner = $1', NULL),
        -- The names of pushes begin with the user and `/`; `0` follows `/`.
        ('quarantine', 'id', $q$kind = 'push' AND name >= $1 || '/' AND name < $1 || '0'$q$, NULL),
        ('push_preferences', 'owner', 'owner = $1', NULL),
        ('read_markers', 'owner', 'owner = $1', NULL),
        ('favourites_of_users', 'owner, type', 'owner = $1', NULL),
        ('standings', 'seq', 'owner = $1', NULL),
        ('removed_comments', 'comment', 'author = $1', NULL),
        ('reports', 'id', 'reporter = $1', NULL),
        ('reports', 'id', 'about = $1', NULL)
    ) AS t (name, key, condition, mirror) LOOP
        EXIT WHEN remaining <= 0;
        remaining := remaining
            - feedline_erase_rows(rest.name, rest.key, rest.condition, p_user, remaining, rest.mirror);
    END LOOP;
    RETURN p_max - remaining;
END $$;
