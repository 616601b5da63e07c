-- What the database is, as opposed to what it holds. `incarnation` names its history: it is copied with the data, and
-- rewritten by a node that finds the database older than what the broker remembers of it.
CREATE TABLE meta (
    name  text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);
INSERT INTO meta (name, value) VALUES ('incarnation', substr(md5(gen_random_uuid()::text), 1, 12));

-- Begins a new incarnation: no number up to the given ones, nor shortly after, is given out again. Whether the stored name
-- was the expected one; if not, nothing changed.
CREATE FUNCTION feedline_begin_incarnation(
    expected text, fresh text, least_job bigint, least_pulled bigint, least_revert bigint, skipped bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE meta SET value = fresh WHERE name = 'incarnation' AND value = expected;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM setval(pg_get_serial_sequence('jobs', 'id'),
        greatest(least_job, nextval(pg_get_serial_sequence('jobs', 'id'))) + skipped);
    PERFORM setval(pg_get_serial_sequence('like_reverts', 'id'),
        greatest(least_revert, nextval(pg_get_serial_sequence('like_reverts', 'id'))) + skipped);
    -- Nodes follow this log by number, too.
    UPDATE revocations_end SET seq = seq + skipped;
    UPDATE pulled_end SET mark = greatest(least_pulled, mark) + skipped;
    RETURN true;
END $$;
