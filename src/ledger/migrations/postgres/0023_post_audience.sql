-- Posts that are not for everyone, by their audience: profiles count and list what a reader may see without a look at any other
-- post. Triggers keep the rows, so they are right whoever writes: an older node does not know them. The indexes of step 10 stay
-- for older nodes. Writes of posts by other nodes wait until this step is committed; reads do not.
LOCK TABLE posts IN SHARE ROW EXCLUSIVE MODE;

-- One row a post with `viewer` '', and one for each user whom `only_to` or `not_to` names.
CREATE TABLE audience_posts (
    author text COLLATE "C" NOT NULL,
    -- `followers`, `friends`, `only_to`, `not_to`.
    kind   text COLLATE "C" NOT NULL,
    viewer text COLLATE "C" NOT NULL,
    post   bigint NOT NULL,
    PRIMARY KEY (author, kind, viewer, post)
) PARTITION BY HASH (author);

DO $$
BEGIN
    FOR part IN 0..15 LOOP
        EXECUTE format('CREATE TABLE audience_posts_%s PARTITION OF audience_posts FOR VALUES WITH (MODULUS 16, REMAINDER %s)',
                       part, part);
    END LOOP;
END $$;

-- How many rows with `viewer` '' an author has. Without any there is no row.
CREATE TABLE audience_counts (
    author    text COLLATE "C" PRIMARY KEY,
    followers bigint NOT NULL,
    friends   bigint NOT NULL,
    only_to   bigint NOT NULL,
    not_to    bigint NOT NULL
) WITH (fillfactor = 80);

CREATE INDEX posts_public ON posts (author, id) WHERE visibility = '"public"' AND deleted_at IS NULL;

-- The kind of audience that a visibility means; NULL for everyone.
CREATE FUNCTION feedline_audience_kind(visibility text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN visibility = '"followers"' THEN 'followers' WHEN visibility = '"friends"' THEN 'friends'
                WHEN left(visibility, 9) = '{"only_to' THEN 'only_to' WHEN left(visibility, 1) = '{' THEN 'not_to' END
$$;

-- The viewers of a post's rows in `audience_posts`: '' and who is named. A visibility that cannot be read names nobody.
CREATE FUNCTION feedline_audience_viewers(visibility text, kind text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF kind NOT IN ('only_to', 'not_to') THEN
        RETURN ARRAY[''];
    END IF;
    RETURN ARRAY(SELECT '' UNION SELECT name FROM jsonb_array_elements_text(visibility::jsonb -> kind) AS named (name)
                 WHERE name IS NOT NULL);
EXCEPTION WHEN data_exception THEN
    RETURN ARRAY[''];
END $$;

-- Adds the rows of a post (`step` 1), or removes them (-1).
CREATE FUNCTION feedline_audience(whose text, which bigint, of_visibility text, step int) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    of_kind text := feedline_audience_kind(of_visibility);
BEGIN
    IF of_kind IS NULL THEN
        RETURN;
    END IF;
    IF step > 0 THEN
        INSERT INTO audience_posts (author, kind, viewer, post)
        SELECT whose, of_kind, name, which FROM unnest(feedline_audience_viewers(of_visibility, of_kind)) AS named (name)
        ON CONFLICT DO NOTHING;
    ELSE
        DELETE FROM audience_posts WHERE author = whose AND kind = of_kind
            AND viewer = ANY (feedline_audience_viewers(of_visibility, of_kind)) AND post = which;
    END IF;
    INSERT INTO audience_counts AS counted (author, followers, friends, only_to, not_to)
    VALUES (whose, step * (of_kind = 'followers')::int, step * (of_kind = 'friends')::int,
            step * (of_kind = 'only_to')::int, step * (of_kind = 'not_to')::int)
    ON CONFLICT (author) DO UPDATE SET
        followers = counted.followers + excluded.followers, friends = counted.friends + excluded.friends,
        only_to = counted.only_to + excluded.only_to, not_to = counted.not_to + excluded.not_to;
    IF step < 0 THEN
        DELETE FROM audience_counts
        WHERE author = whose AND followers = 0 AND friends = 0 AND only_to = 0 AND not_to = 0;
    END IF;
END $$;

CREATE FUNCTION feedline_post_audience() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        -- The row of the author first, as all writers of posts do: two of them never wait for each other.
        PERFORM feedline_lock(OLD.author, OLD.author);
        IF OLD.deleted_at IS NULL THEN
            PERFORM feedline_audience(OLD.author, OLD.id, OLD.visibility, -1);
        END IF;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        PERFORM feedline_lock(NEW.author, NEW.author);
        IF NEW.deleted_at IS NULL THEN
            PERFORM feedline_audience(NEW.author, NEW.id, NEW.visibility, 1);
        END IF;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER posts_audience_added AFTER INSERT ON posts FOR EACH ROW
WHEN (NEW.visibility <> '"public"' AND NEW.deleted_at IS NULL)
EXECUTE FUNCTION feedline_post_audience();

CREATE TRIGGER posts_audience_removed AFTER DELETE ON posts FOR EACH ROW
WHEN (OLD.visibility <> '"public"' AND OLD.deleted_at IS NULL)
EXECUTE FUNCTION feedline_post_audience();

CREATE TRIGGER posts_audience_changed AFTER UPDATE OF visibility, deleted_at ON posts FOR EACH ROW
WHEN ((OLD.visibility <> '"public"' OR NEW.visibility <> '"public"')
    AND (OLD.visibility <> NEW.visibility OR OLD.deleted_at IS DISTINCT FROM NEW.deleted_at))
EXECUTE FUNCTION feedline_post_audience();

INSERT INTO audience_posts (author, kind, viewer, post)
SELECT author, kind, viewer, id FROM posts
CROSS JOIN LATERAL (SELECT feedline_audience_kind(visibility) AS kind OFFSET 0) audience
CROSS JOIN LATERAL unnest(feedline_audience_viewers(visibility, kind)) AS named (viewer)
WHERE visibility <> '"public"' AND deleted_at IS NULL AND kind IS NOT NULL;

INSERT INTO audience_counts (author, followers, friends, only_to, not_to)
SELECT author, count(*) FILTER (WHERE kind = 'followers'), count(*) FILTER (WHERE kind = 'friends'),
       count(*) FILTER (WHERE kind = 'only_to'), count(*) FILTER (WHERE kind = 'not_to')
FROM audience_posts WHERE viewer = '' GROUP BY author;
