-- Favourites of any type of object. Times are Unix milliseconds.

-- `seq` orders the lists: unlike a time, it is unique, so a cursor is exact. It is taken while the two rows that count
-- are locked, the user's first: so the numbers of one list become visible in their order.
CREATE SEQUENCE favourites_seq AS bigint;

-- What a user has.
CREATE TABLE favourites (
    owner  text COLLATE "C" NOT NULL,
    type   text COLLATE "C" NOT NULL,
    object text COLLATE "C" NOT NULL,
    seq    bigint NOT NULL,
    at     bigint NOT NULL,
    PRIMARY KEY (owner, type, object)
) PARTITION BY HASH (owner);
CREATE INDEX favourites_listed ON favourites (owner, type, seq);

-- The same from the other end: who has an object.
CREATE TABLE favourite_holders (
    type   text COLLATE "C" NOT NULL,
    object text COLLATE "C" NOT NULL,
    owner  text COLLATE "C" NOT NULL,
    seq    bigint NOT NULL,
    at     bigint NOT NULL,
    PRIMARY KEY (type, object, owner)
) PARTITION BY HASH (type, object);
CREATE INDEX favourite_holders_listed ON favourite_holders (type, object, seq);

-- How many a user has, and how many have an object: kept in the transaction that changes it.
CREATE TABLE favourites_of_users (
    owner text COLLATE "C" NOT NULL,
    type  text COLLATE "C" NOT NULL,
    count bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (owner, type)
) WITH (fillfactor = 80);
CREATE TABLE favourites_of_objects (
    type   text COLLATE "C" NOT NULL,
    object text COLLATE "C" NOT NULL,
    count  bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (type, object)
) PARTITION BY HASH (type, object);

DO $$
DECLARE
    parent text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['favourites', 'favourite_holders', 'favourites_of_objects'] LOOP
        FOR part IN 0..15 LOOP
            EXECUTE format('CREATE TABLE %s_%s PARTITION OF %s FOR VALUES WITH (MODULUS 16, REMAINDER %s)',
                           parent, part, parent, part);
        END LOOP;
    END LOOP;
END $$;

-- Adds a favourite: `since` (and when), `full`, or `absent`. `of_post` is the post's id if the type is that of posts, -1 if
-- it cannot be one; NULL for any other type. Locks: what counts the user's, the post, what counts the object's.
CREATE FUNCTION feedline_favour(
    whose text, of_type text, what text, of_post bigint, now_at bigint, most bigint, OUT outcome text, OUT since bigint
) LANGUAGE plpgsql AS $$
DECLARE
    has bigint;
    new_seq bigint;
BEGIN
    PERFORM FROM users WHERE id = whose;
    IF NOT FOUND THEN
        RAISE foreign_key_violation USING MESSAGE = format('user %s does not exist', whose);
    END IF;
    INSERT INTO favourites_of_users (owner, type) VALUES (whose, of_type) ON CONFLICT DO NOTHING;
    SELECT count INTO has FROM favourites_of_users WHERE owner = whose AND type = of_type FOR NO KEY UPDATE;
    SELECT at INTO since FROM favourites WHERE owner = whose AND type = of_type AND object = what;
    IF FOUND THEN
        outcome := 'since';
        RETURN;
    END IF;
    IF of_post IS NOT NULL THEN
        -- Whoever deletes it now waits for us, and then finds what is to be forgotten.
        PERFORM FROM posts WHERE id = of_post AND deleted_at IS NULL FOR SHARE;
        IF NOT FOUND THEN
            outcome := 'absent';
            RETURN;
        END IF;
    END IF;
    IF has >= most THEN
        outcome := 'full';
        RETURN;
    END IF;
    INSERT INTO favourites_of_objects (type, object, count) VALUES (of_type, what, 1)
    ON CONFLICT (type, object) DO UPDATE SET count = favourites_of_objects.count + 1;
    UPDATE favourites_of_users SET count = count + 1 WHERE owner = whose AND type = of_type;
    new_seq := nextval('favourites_seq');
    INSERT INTO favourites (owner, type, object, seq, at) VALUES (whose, of_type, what, new_seq, now_at);
    INSERT INTO favourite_holders (type, object, owner, seq, at) VALUES (of_type, what, whose, new_seq, now_at);
    IF of_post IS NOT NULL THEN
        INSERT INTO post_counts (post, favourites) VALUES (of_post, 1)
        ON CONFLICT (post) DO UPDATE SET favourites = post_counts.favourites + 1;
    END IF;
    outcome := 'since';
    since := now_at;
END $$;

-- Takes an object out of the favourites of these users, who are not locked yet. Of how many.
CREATE FUNCTION feedline_unfavour(owners text[], of_type text, what text, of_post bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    gone text[];
    many bigint;
BEGIN
    PERFORM FROM favourites_of_users WHERE type = of_type AND owner = ANY (owners) ORDER BY owner FOR NO KEY UPDATE;
    WITH taken AS (
        DELETE FROM favourites WHERE owner = ANY (owners) AND type = of_type AND object = what RETURNING owner
    )
    SELECT array_agg(owner) INTO gone FROM taken;
    many := coalesce(array_length(gone, 1), 0);
    IF many = 0 THEN
        RETURN 0;
    END IF;
    UPDATE favourites_of_objects SET count = count - many WHERE type = of_type AND object = what;
    DELETE FROM favourite_holders WHERE type = of_type AND object = what AND owner = ANY (gone);
    UPDATE favourites_of_users SET count = count - 1 WHERE type = of_type AND owner = ANY (gone);
    UPDATE post_counts SET favourites = favourites - many WHERE post = of_post;
    RETURN many;
END $$;

-- Takes an object out of the favourites of so many who have it. How many were looked at: fewer, and there are no others.
CREATE FUNCTION feedline_forget(of_type text, what text, of_post bigint, most bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    owners text[] := ARRAY(SELECT owner FROM favourite_holders WHERE type = of_type AND object = what LIMIT most);
BEGIN
    PERFORM feedline_unfavour(owners, of_type, what, of_post);
    RETURN cardinality(owners);
END $$;
