-- Erased users. The row in `users` stays as a tombstone: nobody else can take the id. Times are Unix milliseconds.
ALTER TABLE users ADD COLUMN erased_at bigint;

-- Erasures under way. The rows of the user that are left say how far one is, so a node that takes one over needs nothing else.
CREATE TABLE erasures (
    owner       text COLLATE "C" PRIMARY KEY,
    at          bigint NOT NULL,
    holder      text NOT NULL,
    lease_until bigint NOT NULL,
    -- When the user was first found to have nothing left. NULL: something was found since.
    quiet_since bigint
) WITH (fillfactor = 70);

CREATE INDEX posts_deleted ON posts (author, id) WHERE deleted_at IS NOT NULL;
CREATE INDEX notification_people_person ON notification_people (person, owner, notification);

-- Makes a user a tombstone, known or not, and begins the erasure. `false` if the user is one already.
CREATE FUNCTION feedline_erase(whose text, now_at bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO users (id, name, created_at) VALUES (whose, '', now_at) ON CONFLICT DO NOTHING;
    PERFORM feedline_lock(whose, whose);
    UPDATE users SET name = '', avatar = NULL, created_at = now_at, erased_at = now_at
    WHERE id = whose AND erased_at IS NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM user_terms WHERE owner = whose;
    DELETE FROM accounts WHERE "user" = whose;
    INSERT INTO erasures (owner, at, holder, lease_until) VALUES (whose, now_at, '', 0);
    PERFORM feedline_revoke('erased', whose, NULL, now_at, NULL, now_at, 9223372036854775807, true);
    RETURN true;
END $$;

-- Removes what is under one post, `most` rows at most. How many: fewer, and nothing is left.
CREATE FUNCTION feedline_erase_under(one bigint, most bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    remaining bigint := most;
    removed bigint;
    said bigint;
BEGIN
    remaining := remaining - feedline_forget('post', one::text, one, remaining);
    IF remaining <= 0 THEN
        RETURN most;
    END IF;
    PERFORM FROM post_counts WHERE post = one FOR NO KEY UPDATE;
    DELETE FROM likes WHERE post = one AND owner IN (SELECT owner FROM likes WHERE post = one LIMIT remaining);
    GET DIAGNOSTICS removed = ROW_COUNT;
    remaining := remaining - removed;
    WHILE remaining > 0 LOOP
        SELECT id INTO said FROM comments WHERE post = one LIMIT 1;
        IF NOT FOUND THEN
            RETURN most - remaining;
        END IF;
        DELETE FROM comment_likes WHERE comment = said
            AND owner IN (SELECT owner FROM comment_likes WHERE comment = said LIMIT remaining);
        GET DIAGNOSTICS removed = ROW_COUNT;
        remaining := remaining - removed;
        IF remaining > 0 THEN
            DELETE FROM comments WHERE post = one AND id = said;
            DELETE FROM comment_posts WHERE comment = said;
            remaining := remaining - 1;
        END IF;
    END LOOP;
    RETURN most;
END $$;

-- Removes posts of an author that were deleted before a time, with what is under them: `most` rows at most. How many.
CREATE FUNCTION feedline_erase_posts(whose text, before bigint, most bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    remaining bigint := most;
    one bigint;
BEGIN
    WHILE remaining > 0 LOOP
        SELECT id INTO one FROM posts WHERE author = whose AND deleted_at IS NOT NULL AND deleted_at <= before
        ORDER BY id LIMIT 1;
        EXIT WHEN NOT FOUND;
        remaining := remaining - feedline_erase_under(one, remaining);
        IF remaining > 0 THEN
            DELETE FROM post_counts WHERE post = one;
            DELETE FROM posts WHERE id = one;
            remaining := remaining - 1;
        END IF;
    END LOOP;
    RETURN most - remaining;
END $$;

-- Takes back a user's likes, `most` at most. The tallies of what was liked.
CREATE FUNCTION feedline_erase_likes(whose text, most bigint)
RETURNS TABLE (is_post boolean, number bigint, new_likes bigint, new_comments bigint, new_version bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    liked bigint[] := ARRAY(SELECT post FROM likes WHERE owner = whose LIMIT most);
    said bigint[] := ARRAY(SELECT comment FROM comment_likes WHERE owner = whose LIMIT most - cardinality(liked));
    under bigint[] := ARRAY(
        SELECT of.post FROM unnest(said) AS t (n)
        CROSS JOIN LATERAL (SELECT post FROM comment_posts WHERE comment = t.n OFFSET 0) of);
BEGIN
    PERFORM FROM post_counts WHERE post = ANY (liked || under) ORDER BY post FOR NO KEY UPDATE;
    WITH removed AS (
        DELETE FROM likes WHERE post = ANY (liked) AND owner = whose RETURNING post
    )
    UPDATE post_counts SET likes = likes - 1, likes_version = likes_version + 1
    FROM removed WHERE post_counts.post = removed.post;
    WITH removed AS (
        DELETE FROM comment_likes WHERE comment = ANY (said) AND owner = whose RETURNING comment
    ), there AS (
        SELECT removed.comment, of.post FROM removed
        CROSS JOIN LATERAL (SELECT post FROM comment_posts WHERE comment = removed.comment OFFSET 0) of
    )
    UPDATE comments SET likes = likes - 1, likes_version = likes_version + 1
    FROM there WHERE comments.post = there.post AND comments.id = there.comment;
    RETURN QUERY SELECT t.p, t.n, t.likes, t.comments, t.version
    FROM feedline_tallies(
        array_fill(true, ARRAY[cardinality(liked)]) || array_fill(false, ARRAY[cardinality(said)]), liked || said
    ) AS t (p, n, likes, comments, version);
END $$;

-- Takes a user out of what others are notified of, out of `most` groups at most. The groups, each with its owner.
CREATE FUNCTION feedline_erase_notices(whose text, most bigint) RETURNS TABLE (told text, changed bigint)
LANGUAGE plpgsql AS $$
DECLARE
    one record;
    others bigint;
BEGIN
    FOR one IN
        SELECT p.owner, p.notification FROM notification_people p WHERE p.person = whose
        ORDER BY p.owner, p.notification LIMIT most
    LOOP
        PERFORM FROM notified WHERE owner = one.owner FOR NO KEY UPDATE;
        DELETE FROM notification_people
        WHERE owner = one.owner AND notification = one.notification AND person = whose;
        CONTINUE WHEN NOT FOUND;
        told := one.owner;
        changed := one.notification;
        RETURN NEXT;
        UPDATE notifications SET people = people - 1 WHERE owner = one.owner AND id = one.notification
        RETURNING people INTO others;
        IF FOUND AND others <= 0 THEN
            DELETE FROM notifications WHERE owner = one.owner AND id = one.notification;
            UPDATE notified SET groups = groups - 1 WHERE owner = one.owner;
        END IF;
    END LOOP;
END $$;

-- Removes a user's other rows, `most` at most: restrictions and post alerts both ways, notifications to the user, read markers,
-- idempotency keys. How many.
CREATE FUNCTION feedline_erase_rest(whose text, most bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    remaining bigint := most;
    removed bigint;
    one bigint;
BEGIN
    WITH gone AS (
        DELETE FROM barriers b USING (SELECT kind, whom FROM barriers WHERE maker = whose LIMIT remaining) x
        WHERE b.maker = whose AND b.kind = x.kind AND b.whom = x.whom RETURNING b.kind, b.whom
    )
    DELETE FROM barred USING gone WHERE barred.whom = gone.whom AND barred.kind = gone.kind AND barred.maker = whose;
    GET DIAGNOSTICS removed = ROW_COUNT;
    remaining := remaining - removed;
    WITH gone AS (
        DELETE FROM barred b USING (SELECT kind, maker FROM barred WHERE whom = whose LIMIT remaining) x
        WHERE b.whom = whose AND b.kind = x.kind AND b.maker = x.maker RETURNING b.kind, b.maker
    )
    DELETE FROM barriers USING gone
    WHERE barriers.maker = gone.maker AND barriers.kind = gone.kind AND barriers.whom = whose;
    GET DIAGNOSTICS removed = ROW_COUNT;
    remaining := remaining - removed;
    WITH gone AS (
        DELETE FROM post_notices n USING (SELECT author FROM post_notices WHERE owner = whose LIMIT remaining) x
        WHERE n.owner = whose AND n.author = x.author RETURNING n.author
    )
    DELETE FROM post_notices_of o USING gone WHERE o.author = gone.author AND o.owner = whose;
    GET DIAGNOSTICS removed = ROW_COUNT;
    remaining := remaining - removed;
    WITH gone AS (
        DELETE FROM post_notices_of o USING (SELECT owner FROM post_notices_of WHERE author = whose LIMIT remaining) x
        WHERE o.author = whose AND o.owner = x.owner RETURNING o.owner
    )
    DELETE FROM post_notices n USING gone WHERE n.owner = gone.owner AND n.author = whose;
    GET DIAGNOSTICS removed = ROW_COUNT;
    remaining := remaining - removed;
    PERFORM FROM notified WHERE owner = whose FOR NO KEY UPDATE;
    WHILE remaining > 0 LOOP
        SELECT id INTO one FROM notifications WHERE owner = whose LIMIT 1;
        EXIT WHEN NOT FOUND;
        DELETE FROM notification_people WHERE owner = whose AND notification = one AND person IN (
            SELECT person FROM notification_people WHERE owner = whose AND notification = one LIMIT remaining);
        GET DIAGNOSTICS removed = ROW_COUNT;
        remaining := remaining - removed;
        IF remaining > 0 THEN
            DELETE FROM notifications WHERE owner = whose AND id = one;
            remaining := remaining - 1;
        END IF;
    END LOOP;
    IF remaining <= 0 THEN
        RETURN most;
    END IF;
    DELETE FROM idempotency i USING (SELECT key FROM idempotency WHERE owner = whose LIMIT remaining) x
    WHERE i.owner = whose AND i.key = x.key;
    GET DIAGNOSTICS removed = ROW_COUNT;
    remaining := remaining - removed;
    DELETE FROM read_markers WHERE owner = whose;
    GET DIAGNOSTICS removed = ROW_COUNT;
    remaining := remaining - removed;
    DELETE FROM notified WHERE owner = whose;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN most - (remaining - removed);
END $$;

-- As before, but a tombstone has no profile any more.
CREATE OR REPLACE FUNCTION feedline_update_user(
    whose text, new_name text, folded text, moves boolean, new_avatar text
) RETURNS SETOF users LANGUAGE plpgsql AS $$
BEGIN
    UPDATE users SET name = coalesce(new_name, name), avatar = CASE WHEN moves THEN new_avatar ELSE avatar END
    WHERE id = whose AND erased_at IS NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF new_name IS NOT NULL THEN
        DELETE FROM user_terms WHERE owner = whose;
        INSERT INTO user_terms (term, owner) VALUES (lower(whose COLLATE "C"), whose), (folded, whose)
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN QUERY SELECT * FROM users WHERE id = whose;
END $$;
