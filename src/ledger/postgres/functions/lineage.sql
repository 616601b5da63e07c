-- revision: 1
-- The incarnation of the database.

-- Begins a new incarnation: no number up to the given ones, nor one of the next `p_skipped`, is used again. Returns
-- whether the stored name was the expected one; if not, nothing changed.
CREATE OR REPLACE FUNCTION feedline_begin_incarnation(
    p_expected text, p_fresh text, p_least_job bigint, p_least_pulled bigint, p_skipped bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE meta SET value = p_fresh WHERE name = 'incarnation' AND value = p_expected;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM setval(pg_get_serial_sequence('jobs', 'id'),
        greatest(p_least_job, nextval(pg_get_serial_sequence('jobs', 'id'))) + p_skipped);
    -- The broker does not record these numbers. More notifications than jobs may have been lost.
    PERFORM setval('notification_ids', nextval('notification_ids') + 1000 * p_skipped);
    -- Nodes follow this log by number, too.
    UPDATE revocations_end SET seq = seq + p_skipped;
    UPDATE outlet_end SET last = last + p_skipped;
    UPDATE pulled_end SET mark = greatest(p_least_pulled, mark) + p_skipped;
    RETURN true;
END $$;
