-- revision: 1
-- The audience of posts that are not public, for the triggers on `posts`.

-- The kind of audience of a visibility; NULL: everybody.
CREATE OR REPLACE FUNCTION feedline_audience_kind(p_visibility text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_visibility = '"followers"' THEN 'followers' WHEN p_visibility = '"friends"' THEN 'friends'
                WHEN left(p_visibility, 9) = '{"only_to' THEN 'only_to'
                WHEN left(p_visibility, 1) = '{' THEN 'not_to' END
$$;

-- The viewers of a post's rows in `audience_posts`: '' and the named users. A visibility that cannot be decoded names
-- nobody.
CREATE OR REPLACE FUNCTION feedline_audience_viewers(p_visibility text, p_kind text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_kind NOT IN ('only_to', 'not_to') THEN
        RETURN ARRAY[''];
    END IF;
    RETURN ARRAY(
        SELECT '' UNION
        SELECT lower(name COLLATE "C") FROM jsonb_array_elements_text(p_visibility::jsonb -> p_kind) AS named (name)
        WHERE name IS NOT NULL);
EXCEPTION WHEN data_exception THEN
    RETURN ARRAY[''];
END $$;

-- Adds the rows of a post (`p_step` 1), or removes them (-1).
CREATE OR REPLACE FUNCTION feedline_count_audience(p_author text, p_post bigint, p_visibility text, p_step int)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    of_kind text := feedline_audience_kind(p_visibility);
BEGIN
    IF of_kind IS NULL THEN
        RETURN;
    END IF;
    IF p_step > 0 THEN
        INSERT INTO audience_posts (author, kind, viewer, post)
        SELECT p_author, of_kind, name, p_post
        FROM unnest(feedline_audience_viewers(p_visibility, of_kind)) AS named (name)
        ON CONFLICT DO NOTHING;
    ELSE
        DELETE FROM audience_posts WHERE author = p_author AND kind = of_kind
            AND viewer = ANY (feedline_audience_viewers(p_visibility, of_kind)) AND post = p_post;
    END IF;
    INSERT INTO audience_counts AS counted (author, followers, friends, only_to, not_to)
    VALUES (p_author, p_step * (of_kind = 'followers')::int, p_step * (of_kind = 'friends')::int,
            p_step * (of_kind = 'only_to')::int, p_step * (of_kind = 'not_to')::int)
    ON CONFLICT (author) DO UPDATE SET
        followers = counted.followers + excluded.followers, friends = counted.friends + excluded.friends,
        only_to = counted.only_to + excluded.only_to, not_to = counted.not_to + excluded.not_to;
    IF p_step < 0 THEN
        DELETE FROM audience_counts
        WHERE author = p_author AND followers = 0 AND friends = 0 AND only_to = 0 AND not_to = 0;
    END IF;
END $$;

-- The trigger: replaces the rows of the old visibility by those of the new one.
CREATE OR REPLACE FUNCTION feedline_post_audience() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        -- The row of the author first, as all writers of posts do, so that two of them never deadlock.
        PERFORM feedline_lock_users(OLD.author, OLD.author);
        IF OLD.deleted_at IS NULL THEN
            PERFORM feedline_count_audience(OLD.author, OLD.id, OLD.visibility, -1);
        END IF;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        PERFORM feedline_lock_users(NEW.author, NEW.author);
        IF NEW.deleted_at IS NULL THEN
            PERFORM feedline_count_audience(NEW.author, NEW.id, NEW.visibility, 1);
        END IF;
    END IF;
    RETURN NULL;
END $$;
