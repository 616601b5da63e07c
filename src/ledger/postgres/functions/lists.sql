-- revision: 1
-- Lists of users. Each function locks the row of the owner in `users` first: what is read afterwards is what was
-- committed until then, and stays until the end of the transaction.

-- Stores a list. Returns its id; NULL if the user has `p_max` lists. A repeat with the same `p_reserved`
-- returns the id of the first call.
CREATE OR REPLACE FUNCTION feedline_create_list(
    p_owner text, p_name text, p_exclusive boolean, p_now bigint, p_max bigint, p_reserved bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    new_id bigint;
BEGIN
    PERFORM FROM users WHERE id = p_owner FOR NO KEY UPDATE;
    SELECT id INTO new_id FROM lists WHERE reserved = p_reserved;
    IF FOUND THEN
        RETURN new_id;
    END IF;
    IF (SELECT count(*) FROM lists WHERE owner = p_owner) >= p_max THEN
        RETURN NULL;
    END IF;
    INSERT INTO lists (owner, name, exclusive, created_at, reserved)
    VALUES (p_owner, p_name, p_exclusive, p_now, p_reserved)
    RETURNING id INTO new_id;
    RETURN new_id;
END $$;

-- Locks the row of a user. Returns whether the user has a list.
CREATE OR REPLACE FUNCTION feedline_lock_list(p_owner text, p_list bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM users WHERE id = p_owner FOR NO KEY UPDATE;
    PERFORM FROM lists WHERE id = p_list AND owner = p_owner;
    RETURN FOUND;
END $$;

-- Changes a list, except members that are NULL. Returns the list with the numbers of its users and topics; nothing if
-- the user has no such list.
CREATE OR REPLACE FUNCTION feedline_update_list(p_owner text, p_list bigint, p_name text, p_exclusive boolean)
RETURNS TABLE (id bigint, name text, exclusive boolean, created_at bigint, users bigint, topics bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF NOT feedline_lock_list(p_owner, p_list) THEN
        RETURN;
    END IF;
    UPDATE lists SET name = coalesce(p_name, lists.name), exclusive = coalesce(p_exclusive, lists.exclusive)
    WHERE lists.id = p_list;
    RETURN QUERY
    SELECT lists.id, lists.name, lists.exclusive, lists.created_at,
        (SELECT count(*) FROM list_users WHERE list = p_list), (SELECT count(*) FROM list_topics WHERE list = p_list)
    FROM lists WHERE lists.id = p_list;
END $$;

-- Deletes a list and its members. Returns whether the user had it.
CREATE OR REPLACE FUNCTION feedline_delete_list(p_owner text, p_list bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF NOT feedline_lock_list(p_owner, p_list) THEN
        RETURN false;
    END IF;
    DELETE FROM list_users WHERE list = p_list;
    DELETE FROM list_topics WHERE list = p_list;
    DELETE FROM lists WHERE id = p_list;
    RETURN true;
END $$;

-- Adds a user to a list. Returns `added`, `unchanged` (it was there), `full` (the list has `p_max` users), `no_list`.
CREATE OR REPLACE FUNCTION feedline_add_user_to_list(
    p_owner text, p_list bigint, p_member text, p_now bigint, p_max bigint
) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF NOT feedline_lock_list(p_owner, p_list) THEN
        RETURN 'no_list';
    ELSIF EXISTS (SELECT FROM list_users WHERE list = p_list AND member = p_member) THEN
        RETURN 'unchanged';
    ELSIF (SELECT count(*) FROM list_users WHERE list = p_list) >= p_max THEN
        RETURN 'full';
    END IF;
    INSERT INTO list_users (list, member, at) VALUES (p_list, p_member, p_now);
    RETURN 'added';
END $$;

-- As feedline_add_user_to_list, for a topic.
CREATE OR REPLACE FUNCTION feedline_add_topic_to_list(
    p_owner text, p_list bigint, p_topic text, p_now bigint, p_max bigint
) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF NOT feedline_lock_list(p_owner, p_list) THEN
        RETURN 'no_list';
    ELSIF EXISTS (SELECT FROM list_topics WHERE list = p_list AND topic = p_topic) THEN
        RETURN 'unchanged';
    ELSIF (SELECT count(*) FROM list_topics WHERE list = p_list) >= p_max THEN
        RETURN 'full';
    END IF;
    INSERT INTO list_topics (list, topic, at) VALUES (p_list, p_topic, p_now);
    RETURN 'added';
END $$;

-- Removes a user from a list. Returns whether the list had it; NULL: there is no such list.
CREATE OR REPLACE FUNCTION feedline_remove_user_from_list(p_owner text, p_list bigint, p_member text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT feedline_lock_list(p_owner, p_list) THEN
        RETURN NULL;
    END IF;
    DELETE FROM list_users WHERE list = p_list AND member = p_member;
    RETURN FOUND;
END $$;

-- As feedline_remove_user_from_list, for a topic.
CREATE OR REPLACE FUNCTION feedline_remove_topic_from_list(p_owner text, p_list bigint, p_topic text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT feedline_lock_list(p_owner, p_list) THEN
        RETURN NULL;
    END IF;
    DELETE FROM list_topics WHERE list = p_list AND topic = p_topic;
    RETURN FOUND;
END $$;

-- Creates or removes the restriction `listed`, so that it exists exactly if an exclusive list of the owner has the
-- user. `p_readers` and `p_authors` are as in feedline_restrict; `p_closing` are the jobs of a new restriction,
-- `p_opening` those of one that ends. Returns the numbers of the jobs, as that function or feedline_unrestrict; NULL:
-- nothing changed.
CREATE OR REPLACE FUNCTION feedline_sync_exclusion(
    p_owner text, p_member text, p_readers text[], p_authors text[], p_closing text[], p_opening text[], p_now bigint,
    OUT jobs bigint[], OUT is_listed boolean
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM feedline_lock_users(p_owner, p_member);
    -- One look-up for each list of the owner: others may have the user in many lists.
    is_listed := EXISTS (
        SELECT FROM lists WHERE owner = p_owner AND exclusive
            AND EXISTS (SELECT FROM list_users WHERE list = lists.id AND member = p_member OFFSET 0));
    IF is_listed = EXISTS (
        SELECT FROM restrictions WHERE maker = p_owner AND kind = 'listed' AND target = p_member)
    THEN
        RETURN;
    ELSIF is_listed THEN
        jobs := feedline_restrict(
            'listed', p_owner, p_member, p_readers, p_authors, false, p_closing, p_now, NULL, NULL, NULL);
    ELSE
        jobs := feedline_unrestrict(
            'listed', p_owner, p_member, p_readers, p_authors, p_opening, p_now, NULL);
    END IF;
END $$;

-- Removes lists of a user with their members, `p_max` rows at most. Returns the number of rows.
CREATE OR REPLACE FUNCTION feedline_erase_lists(p_owner text, p_max bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    remaining bigint := p_max;
    next_list bigint;
BEGIN
    PERFORM FROM users WHERE id = p_owner FOR NO KEY UPDATE;
    WHILE remaining > 0 LOOP
        SELECT id INTO next_list FROM lists WHERE owner = p_owner ORDER BY id LIMIT 1;
        EXIT WHEN NOT FOUND;
        remaining := remaining
            - feedline_erase_rows('list_users', 'list, member', 'list = $1::bigint', next_list::text, remaining);
        remaining := remaining
            - feedline_erase_rows('list_topics', 'list, topic', 'list = $1::bigint', next_list::text, remaining);
        IF remaining > 0 THEN
            DELETE FROM lists WHERE id = next_list;
            remaining := remaining - 1;
        END IF;
    END LOOP;
    RETURN p_max - remaining;
END $$;
