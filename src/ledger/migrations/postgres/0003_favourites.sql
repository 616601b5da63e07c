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
