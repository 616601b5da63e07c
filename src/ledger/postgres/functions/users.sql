-- revision: 2
-- Users, their rows' locks, search terms and post alerts.

-- Locks the rows of two users, in the order of their ids, before a write that concerns both: what is read afterwards is
-- what was committed until then. Returns whether both exist.
CREATE OR REPLACE FUNCTION feedline_lock_users(p_user text, p_other text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    found_rows bigint;
BEGIN
    PERFORM FROM users WHERE id IN (p_user, p_other) ORDER BY id FOR NO KEY UPDATE;
    GET DIAGNOSTICS found_rows = ROW_COUNT;
    RETURN found_rows = CASE WHEN p_user = p_other THEN 1 ELSE 2 END;
END $$;

-- Creates a user if it does not exist; `p_handle` is the id as it was written, NULL: as `p_user`. Returns the id as
-- first written, and whether there is an account with that id. Of a sign-up and a first visit
-- at the same time one comes first: each statement sees what was committed before it, so the other sees which one.
CREATE OR REPLACE FUNCTION feedline_ensure_user(
    p_user text, p_handle text, p_now bigint, OUT shown text, OUT is_account boolean
) LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM users WHERE id = p_user) THEN
        INSERT INTO users (id, handle, name, created_at)
        VALUES (p_user, p_handle, coalesce(p_handle, p_user), p_now) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            INSERT INTO user_terms (term, owner) VALUES (p_user, p_user);
        END IF;
    END IF;
    is_account := EXISTS (SELECT FROM accounts WHERE "user" = p_user);
    SELECT coalesce(handle, id) INTO shown FROM users WHERE id = p_user;
END $$;

-- Changes a user and the profile. The name and its search terms change unless they are NULL; the picture, the text, the
-- data, the posts that are shown first and who may quote change if `p_sets_...`. Returns nothing for an unknown or
-- erased user.
CREATE OR REPLACE FUNCTION feedline_update_profile(
    p_user text, p_name text, p_terms text[], p_sets_avatar boolean, p_avatar text, p_sets_bio boolean, p_bio text,
    p_sets_data boolean, p_data text, p_sets_pinned boolean, p_pinned text, p_sets_quotable boolean,
    p_quotable text
) RETURNS TABLE (
    id text, name text, avatar text, created_at bigint, bio text, data text, pinned text, quotable text, locked boolean
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    UPDATE users SET name = coalesce(p_name, users.name),
        avatar = CASE WHEN p_sets_avatar THEN p_avatar ELSE users.avatar END
    WHERE users.id = p_user AND erased_at IS NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF p_name IS NOT NULL THEN
        DELETE FROM user_terms WHERE owner = p_user;
        INSERT INTO user_terms (term, owner) SELECT term, p_user FROM unnest(p_terms || p_user) AS t (term)
        ON CONFLICT DO NOTHING;
    END IF;
    IF p_sets_bio OR p_sets_data OR p_sets_pinned OR p_sets_quotable THEN
        INSERT INTO profiles AS p (owner, bio, data, pinned, quotable)
        VALUES (p_user, p_bio, p_data, p_pinned, p_quotable)
        ON CONFLICT (owner) DO UPDATE
        SET bio = CASE WHEN p_sets_bio THEN p_bio ELSE p.bio END,
            data = CASE WHEN p_sets_data THEN p_data ELSE p.data END,
            pinned = CASE WHEN p_sets_pinned THEN p_pinned ELSE p.pinned END,
            quotable = CASE WHEN p_sets_quotable THEN p_quotable ELSE p.quotable END;
        DELETE FROM profiles
        WHERE owner = p_user AND profiles.bio IS NULL AND profiles.data IS NULL AND profiles.pinned IS NULL
            AND profiles.quotable IS NULL;
    END IF;
    RETURN QUERY
    SELECT coalesce(u.handle, u.id)::text, u.name, u.avatar, u.created_at, p.bio, p.data, p.pinned, p.quotable,
        u.locked
    FROM users u LEFT JOIN profiles p ON p.owner = u.id WHERE u.id = p_user;
END $$;

-- Enables notifications of an author's posts. Returns false if the user has `p_max` of them.
CREATE OR REPLACE FUNCTION feedline_enable_post_alerts(p_user text, p_author text, p_now bigint, p_max bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM users WHERE id = p_user FOR NO KEY UPDATE;
    PERFORM FROM post_alerts WHERE owner = p_user AND author = p_author;
    IF FOUND THEN
        RETURN true;
    ELSIF (SELECT count(*) FROM post_alerts WHERE owner = p_user) >= p_max THEN
        RETURN false;
    END IF;
    INSERT INTO post_alerts (owner, author, at) VALUES (p_user, p_author, p_now);
    INSERT INTO post_alerts_of (author, owner) VALUES (p_author, p_user);
    RETURN true;
END $$;
