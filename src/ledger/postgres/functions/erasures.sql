-- revision: 1
-- Erasures of users, in steps of a bounded number of rows.

-- Makes a user a tombstone, known or not, and begins the erasure. Returns false if the user is one already.
CREATE OR REPLACE FUNCTION feedline_begin_erasure(p_user text, p_now bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO users (id, name, created_at) VALUES (p_user, '', p_now) ON CONFLICT DO NOTHING;
    PERFORM feedline_lock_users(p_user, p_user);
    UPDATE users SET name = '', avatar = NULL, created_at = p_now, erased_at = p_now
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

-- Removes the likes, mutes, comments and favourites of one post, `p_max` rows at most. Returns the number of rows:
-- below `p_max`, none is left.
CREATE OR REPLACE FUNCTION feedline_erase_post_content(p_post bigint, p_max bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    remaining bigint := p_max;
    removed bigint;
    comment_id bigint;
BEGIN
    remaining := remaining - feedline_forget_object('post', p_post::text, p_post, remaining);
    IF remaining <= 0 THEN
        RETURN p_max;
    END IF;
    PERFORM FROM post_counts WHERE post = p_post FOR NO KEY UPDATE;
    DELETE FROM likes WHERE post = p_post AND owner IN (SELECT owner FROM likes WHERE post = p_post LIMIT remaining);
    GET DIAGNOSTICS removed = ROW_COUNT;
    remaining := remaining - removed;
    DELETE FROM muted_conversations WHERE post = p_post
        AND owner IN (SELECT owner FROM muted_conversations WHERE post = p_post LIMIT remaining);
    GET DIAGNOSTICS removed = ROW_COUNT;
    remaining := remaining - removed;
    WHILE remaining > 0 LOOP
        SELECT id INTO comment_id FROM comments WHERE post = p_post LIMIT 1;
        IF NOT FOUND THEN
            RETURN p_max - remaining;
        END IF;
        DELETE FROM comment_likes WHERE comment = comment_id
            AND owner IN (SELECT owner FROM comment_likes WHERE comment = comment_id LIMIT remaining);
        GET DIAGNOSTICS removed = ROW_COUNT;
        remaining := remaining - removed;
        IF remaining > 0 THEN
            DELETE FROM comments WHERE post = p_post AND id = comment_id;
            DELETE FROM comment_posts WHERE comment = comment_id;
            remaining := remaining - 1;
        END IF;
    END LOOP;
    RETURN p_max;
END $$;

-- Removes posts that their author deleted before a time, with their likes, comments and favourites: `p_max` rows at
-- most. Returns the number of rows.
CREATE OR REPLACE FUNCTION feedline_erase_posts(p_user text, p_before bigint, p_max bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    remaining bigint := p_max;
    next_post bigint;
BEGIN
    WHILE remaining > 0 LOOP
        SELECT id INTO next_post FROM posts WHERE author = p_user AND deleted_at IS NOT NULL AND deleted_at <= p_before
        ORDER BY id LIMIT 1;
        EXIT WHEN NOT FOUND;
        remaining := remaining - feedline_erase_post_content(next_post, remaining);
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
    comment_posts_of bigint[] := ARRAY(
        SELECT of.post FROM unnest(liked_comments) AS t (n)
        CROSS JOIN LATERAL (SELECT post FROM comment_posts WHERE comment = t.n OFFSET 0) of);
BEGIN
    PERFORM FROM post_counts WHERE post = ANY (liked_posts || comment_posts_of) ORDER BY post FOR NO KEY UPDATE;
    WITH removed AS (
        DELETE FROM likes WHERE post = ANY (liked_posts) AND owner = p_user RETURNING post
    )
    UPDATE post_counts SET likes = likes - 1, likes_version = likes_version + 1
    FROM removed WHERE post_counts.post = removed.post;
    WITH removed AS (
        DELETE FROM comment_likes WHERE comment = ANY (liked_comments) AND owner = p_user RETURNING comment
    ), there AS (
        SELECT removed.comment, of.post FROM removed
        CROSS JOIN LATERAL (SELECT post FROM comment_posts WHERE comment = removed.comment OFFSET 0) of
    )
    UPDATE comments SET likes = likes - 1, likes_version = likes_version + 1
    FROM there WHERE comments.post = there.post AND comments.id = there.comment;
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
BEGIN
    FOR entry IN
        SELECT p.owner, p.notification FROM notification_people p WHERE p.person = p_user
        ORDER BY p.owner, p.notification LIMIT p_max
    LOOP
        PERFORM FROM notified WHERE owner = entry.owner FOR NO KEY UPDATE;
        DELETE FROM notification_people
        WHERE owner = entry.owner AND notification = entry.notification AND person = p_user;
        CONTINUE WHEN NOT FOUND;
        notified_user := entry.owner;
        changed := entry.notification;
        RETURN NEXT;
        UPDATE notifications SET people = people - 1 WHERE owner = entry.owner AND id = entry.notification
        RETURNING people INTO people_left;
        IF FOUND AND people_left <= 0 THEN
            DELETE FROM notifications WHERE owner = entry.owner AND id = entry.notification;
            UPDATE notified SET groups = groups - 1 WHERE owner = entry.owner;
        END IF;
    END LOOP;
END $$;

-- Removes other rows of a user, `p_max` at most: restrictions and post alerts both ways, notifications to the user,
-- read markers, muted conversations, idempotency keys, devices, preferences. Returns the number of rows.
CREATE OR REPLACE FUNCTION feedline_erase_rest(p_user text, p_max bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    remaining bigint := p_max;
    removed bigint;
    next_group bigint;
BEGIN
    WITH gone AS (
        DELETE FROM restrictions b USING (SELECT kind, whom FROM restrictions WHERE maker = p_user LIMIT remaining) x
        WHERE b.maker = p_user AND b.kind = x.kind AND b.whom = x.whom RETURNING b.kind, b.whom
    )
    DELETE FROM restricted_by r USING gone
    WHERE r.whom = gone.whom AND r.kind = gone.kind AND r.maker = p_user;
    GET DIAGNOSTICS removed = ROW_COUNT;
    remaining := remaining - removed;
    WITH gone AS (
        DELETE FROM restricted_by b USING (SELECT kind, maker FROM restricted_by WHERE whom = p_user LIMIT remaining) x
        WHERE b.whom = p_user AND b.kind = x.kind AND b.maker = x.maker RETURNING b.kind, b.maker
    )
    DELETE FROM restrictions USING gone
    WHERE restrictions.maker = gone.maker AND restrictions.kind = gone.kind AND restrictions.whom = p_user;
    GET DIAGNOSTICS removed = ROW_COUNT;
    remaining := remaining - removed;
    WITH gone AS (
        DELETE FROM post_alerts n USING (SELECT author FROM post_alerts WHERE owner = p_user LIMIT remaining) x
        WHERE n.owner = p_user AND n.author = x.author RETURNING n.author
    )
    DELETE FROM post_alerts_of o USING gone WHERE o.author = gone.author AND o.owner = p_user;
    GET DIAGNOSTICS removed = ROW_COUNT;
    remaining := remaining - removed;
    WITH gone AS (
        DELETE FROM post_alerts_of o USING (SELECT owner FROM post_alerts_of WHERE author = p_user LIMIT remaining) x
        WHERE o.author = p_user AND o.owner = x.owner RETURNING o.owner
    )
    DELETE FROM post_alerts n USING gone WHERE n.owner = gone.owner AND n.author = p_user;
    GET DIAGNOSTICS removed = ROW_COUNT;
    remaining := remaining - removed;
    PERFORM FROM notified WHERE owner = p_user FOR NO KEY UPDATE;
    WHILE remaining > 0 LOOP
        SELECT id INTO next_group FROM notifications WHERE owner = p_user LIMIT 1;
        EXIT WHEN NOT FOUND;
        DELETE FROM notification_people WHERE owner = p_user AND notification = next_group AND person IN (
            SELECT person FROM notification_people WHERE owner = p_user AND notification = next_group LIMIT remaining);
        GET DIAGNOSTICS removed = ROW_COUNT;
        remaining := remaining - removed;
        IF remaining > 0 THEN
            DELETE FROM notifications WHERE owner = p_user AND id = next_group;
            remaining := remaining - 1;
        END IF;
    END LOOP;
    IF remaining <= 0 THEN
        RETURN p_max;
    END IF;
    DELETE FROM idempotency i USING (SELECT key FROM idempotency WHERE owner = p_user LIMIT remaining) x
    WHERE i.owner = p_user AND i.key = x.key;
    GET DIAGNOSTICS removed = ROW_COUNT;
    remaining := remaining - removed;
    DELETE FROM muted_conversations m USING (
        SELECT post FROM muted_conversations WHERE owner = p_user LIMIT remaining
    ) x
    WHERE m.owner = p_user AND m.post = x.post;
    GET DIAGNOSTICS removed = ROW_COUNT;
    remaining := remaining - removed;
    DELETE FROM devices d USING (SELECT id FROM devices WHERE owner = p_user LIMIT remaining) x
    WHERE d.owner = p_user AND d.id = x.id;
    GET DIAGNOSTICS removed = ROW_COUNT;
    remaining := remaining - removed;
    IF remaining <= 0 THEN
        RETURN p_max;
    END IF;
    DELETE FROM push_queue q USING (SELECT device, item FROM push_queue WHERE owner = p_user LIMIT remaining) x
    WHERE q.owner = p_user AND q.device = x.device AND q.item = x.item;
    GET DIAGNOSTICS removed = ROW_COUNT;
    remaining := remaining - removed;
    -- The names of pushes begin with the user and `/`; `0` follows `/`.
    DELETE FROM quarantine WHERE id IN (
        SELECT id FROM quarantine WHERE kind = 'push' AND name >= p_user || '/' AND name < p_user || '0'
        LIMIT remaining);
    GET DIAGNOSTICS removed = ROW_COUNT;
    remaining := remaining - removed;
    IF remaining <= 0 THEN
        RETURN p_max;
    END IF;
    DELETE FROM push_preferences WHERE owner = p_user;
    GET DIAGNOSTICS removed = ROW_COUNT;
    remaining := remaining - removed;
    DELETE FROM read_markers WHERE owner = p_user AND remaining > 0;
    GET DIAGNOSTICS removed = ROW_COUNT;
    remaining := remaining - removed;
    DELETE FROM notified WHERE owner = p_user AND remaining > 0;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN p_max - (remaining - removed);
END $$;
