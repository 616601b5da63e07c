-- revision: 1
-- Favourites.

-- Adds `p_change` to the numbers of users who have an object among their favourites that are not private.
CREATE OR REPLACE FUNCTION feedline_count_favourites(p_type text, p_object text, p_post bigint, p_change bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_change = 0 THEN
        RETURN;
    END IF;
    INSERT INTO favourites_of_objects (type, object, count) VALUES (p_type, p_object, p_change)
    ON CONFLICT (type, object) DO UPDATE SET count = favourites_of_objects.count + p_change;
    -- Users choose types and ids: without favourites they leave nothing.
    DELETE FROM favourites_of_objects WHERE type = p_type AND object = p_object AND count <= 0;
    IF p_post IS NOT NULL THEN
        INSERT INTO post_counts (post, favourites) VALUES (p_post, p_change)
        ON CONFLICT (post) DO UPDATE SET favourites = post_counts.favourites + p_change;
    END IF;
END $$;

-- Adds a favourite, or makes it private or public. `outcome`: `since` (with the time), `full`, `absent`. `p_post` is
-- the id of the post if the type is that of posts, -1 if it cannot be one; NULL for any other type. Locks: the count
-- of the user, the post, the count of the object.
CREATE OR REPLACE FUNCTION feedline_add_favourite(
    p_user text, p_type text, p_object text, p_post bigint, p_now bigint, p_max bigint, p_private boolean,
    OUT outcome text, OUT since bigint
) LANGUAGE plpgsql AS $$
DECLARE
    has bigint;
    new_seq bigint;
    was_private boolean;
BEGIN
    PERFORM FROM users WHERE id = p_user;
    IF NOT FOUND THEN
        RAISE foreign_key_violation USING MESSAGE = format('user %s does not exist', p_user);
    END IF;
    LOOP
        INSERT INTO favourites_of_users (owner, type) VALUES (p_user, p_type) ON CONFLICT DO NOTHING;
        SELECT count INTO has FROM favourites_of_users WHERE owner = p_user AND type = p_type FOR NO KEY UPDATE;
        -- Otherwise the last favourite was removed meanwhile.
        EXIT WHEN FOUND;
    END LOOP;
    SELECT at, private INTO since, was_private FROM favourites
    WHERE owner = p_user AND type = p_type AND object = p_object;
    IF FOUND THEN
        outcome := 'since';
        IF was_private <> p_private THEN
            PERFORM feedline_count_favourites(p_type, p_object, p_post, CASE WHEN p_private THEN -1 ELSE 1 END);
            UPDATE favourites SET private = p_private WHERE owner = p_user AND type = p_type AND object = p_object;
            UPDATE favourite_holders SET private = p_private
            WHERE type = p_type AND object = p_object AND owner = p_user;
        END IF;
        RETURN;
    END IF;
    IF p_post IS NOT NULL THEN
        -- A deletion waits for this transaction, and then finds the favourite.
        PERFORM FROM posts WHERE id = p_post AND deleted_at IS NULL FOR SHARE;
        IF NOT FOUND THEN
            DELETE FROM favourites_of_users WHERE owner = p_user AND type = p_type AND count <= 0;
            outcome := 'absent';
            RETURN;
        END IF;
    END IF;
    IF has >= p_max THEN
        outcome := 'full';
        RETURN;
    END IF;
    PERFORM feedline_count_favourites(p_type, p_object, p_post, CASE WHEN p_private THEN 0 ELSE 1 END);
    UPDATE favourites_of_users SET count = count + 1 WHERE owner = p_user AND type = p_type;
    new_seq := nextval('favourites_seq');
    INSERT INTO favourites (owner, type, object, seq, at, private)
    VALUES (p_user, p_type, p_object, new_seq, p_now, p_private);
    INSERT INTO favourite_holders (type, object, owner, seq, at, private)
    VALUES (p_type, p_object, p_user, new_seq, p_now, p_private);
    outcome := 'since';
    since := p_now;
END $$;

-- Removes an object from the favourites of these users, who are not locked yet. Returns the number of removed rows. A
-- user without a row in `favourites_of_users` has no favourites. Nothing is removed for a user whose row could not be
-- locked, because it was deleted meanwhile: another transaction may have inserted it again and hold it.
CREATE OR REPLACE FUNCTION feedline_remove_favourites(
    p_users text[], p_type text, p_object text, p_post bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    locked text[];
    gone text[];
    many bigint;
    many_public bigint;
BEGIN
    SELECT array_agg(owner) INTO locked FROM (
        SELECT owner FROM favourites_of_users WHERE type = p_type AND owner = ANY (p_users)
        ORDER BY owner FOR NO KEY UPDATE
    ) t;
    WITH taken AS (
        DELETE FROM favourites WHERE owner = ANY (locked) AND type = p_type AND object = p_object
        RETURNING owner, private
    )
    SELECT array_agg(owner), count(*) FILTER (WHERE NOT private) INTO gone, many_public FROM taken;
    many := coalesce(array_length(gone, 1), 0);
    IF many = 0 THEN
        RETURN 0;
    END IF;
    UPDATE favourites_of_objects SET count = count - many_public WHERE type = p_type AND object = p_object;
    DELETE FROM favourites_of_objects WHERE type = p_type AND object = p_object AND count <= 0;
    DELETE FROM favourite_holders WHERE type = p_type AND object = p_object AND owner = ANY (gone);
    UPDATE favourites_of_users SET count = count - 1 WHERE type = p_type AND owner = ANY (gone);
    DELETE FROM favourites_of_users WHERE type = p_type AND owner = ANY (gone) AND count <= 0;
    UPDATE post_counts SET favourites = favourites - many_public WHERE post = p_post;
    RETURN many;
END $$;

-- Removes an object from the favourites of at most `p_max` users. Returns the number of users found: below `p_max`,
-- there are no others.
CREATE OR REPLACE FUNCTION feedline_forget_object(p_type text, p_object text, p_post bigint, p_max bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    owners text[] := ARRAY(SELECT owner FROM favourite_holders WHERE type = p_type AND object = p_object LIMIT p_max);
BEGIN
    PERFORM feedline_remove_favourites(owners, p_type, p_object, p_post);
    RETURN cardinality(owners);
END $$;
