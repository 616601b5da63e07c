-- revision: 1
-- Filters of users.

-- Stores a filter. Returns its id; NULL if the user has `p_max` filters. A repeat with the same `p_reserved`
-- returns the id of the first call.
CREATE OR REPLACE FUNCTION feedline_create_filter(
    p_user text, p_words text[], p_action text, p_contexts text[], p_whole_word boolean, p_until bigint, p_now bigint,
    p_max bigint, p_reserved bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    new_id bigint;
BEGIN
    PERFORM FROM users WHERE id = p_user FOR NO KEY UPDATE;
    SELECT id INTO new_id FROM filters WHERE reserved = p_reserved;
    IF FOUND THEN
        RETURN new_id;
    END IF;
    IF (SELECT count(*) FROM filters WHERE owner = p_user) >= p_max THEN
        RETURN NULL;
    END IF;
    INSERT INTO filters (owner, words, action, contexts, whole_word, until, created_at, reserved)
    VALUES (p_user, p_words, p_action, p_contexts, p_whole_word, p_until, p_now, p_reserved)
    RETURNING id INTO new_id;
    RETURN new_id;
END $$;
