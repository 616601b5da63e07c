-- What people are found by, and whose posts one wants to be told of. Times are Unix milliseconds.

-- Ids and names in lower case, as the program folds them. Not partitioned: it is searched by the beginning of a term.
CREATE TABLE user_terms (
    term  text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    PRIMARY KEY (term, owner)
);
CREATE INDEX user_terms_of ON user_terms (owner, term);

CREATE TABLE post_notices (
    owner  text COLLATE "C" NOT NULL,
    author text COLLATE "C" NOT NULL,
    at     bigint NOT NULL,
    PRIMARY KEY (owner, author)
) PARTITION BY HASH (owner);

-- The same from the other end, for those who tell: whom to, in ascending order.
CREATE TABLE post_notices_of (
    author text COLLATE "C" NOT NULL,
    owner  text COLLATE "C" NOT NULL,
    PRIMARY KEY (author, owner)
) PARTITION BY HASH (author);

DO $$
DECLARE
    parent text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['post_notices', 'post_notices_of'] LOOP
        FOR part IN 0..15 LOOP
            EXECUTE format('CREATE TABLE %s_%s PARTITION OF %s FOR VALUES WITH (MODULUS 16, REMAINDER %s)',
                           parent, part, parent, part);
        END LOOP;
    END LOOP;
END $$;

-- Changes a user's name (and what it is folded to) unless that is NULL, and the avatar if asked to.
CREATE FUNCTION feedline_update_user(whose text, new_name text, folded text, moves boolean, new_avatar text)
RETURNS SETOF users LANGUAGE plpgsql AS $$
BEGIN
    UPDATE users SET name = coalesce(new_name, name), avatar = CASE WHEN moves THEN new_avatar ELSE avatar END
    WHERE id = whose;
    IF FOUND AND new_name IS NOT NULL THEN
        DELETE FROM user_terms WHERE owner = whose;
        INSERT INTO user_terms (term, owner) VALUES (lower(whose COLLATE "C"), whose), (folded, whose)
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN QUERY SELECT * FROM users WHERE id = whose;
END $$;

-- Notes that a user wants to be told of an author's posts. `false` if they are told of so many already.
CREATE FUNCTION feedline_notify_of(whose text, of_author text, now_at bigint, most bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM users WHERE id = whose FOR NO KEY UPDATE;
    PERFORM FROM post_notices WHERE owner = whose AND author = of_author;
    IF FOUND THEN
        RETURN true;
    ELSIF (SELECT count(*) FROM post_notices WHERE owner = whose) >= most THEN
        RETURN false;
    END IF;
    INSERT INTO post_notices (owner, author, at) VALUES (whose, of_author, now_at);
    INSERT INTO post_notices_of (author, owner) VALUES (of_author, whose);
    RETURN true;
END $$;
