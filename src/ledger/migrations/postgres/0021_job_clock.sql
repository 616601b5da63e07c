-- A lease that ends later than the longest one could is from before the clock was set back: it counts as run out. `fanout.lease`
-- is at most 10 minutes; one more is for leases that begin while this runs.
CREATE OR REPLACE FUNCTION feedline_claim_jobs(for_holder text, length bigint, most bigint) RETURNS SETOF jobs
LANGUAGE plpgsql AS $$
DECLARE
    longest CONSTANT bigint := 660000;
    clock bigint;
    claimed bigint[];
BEGIN
    PERFORM pg_advisory_xact_lock(7306080414946847333);
    clock := feedline_clock();
    WITH held AS MATERIALIZED (
        SELECT DISTINCT j.author FROM jobs j
        WHERE j.lease_until > clock AND j.lease_until <= clock + longest AND j.holder <> for_holder AND j.ordered
    ), due AS MATERIALIZED (
        SELECT j.id FROM jobs j
        WHERE (j.lease_until <= clock OR j.lease_until > clock + longest)
            AND NOT (j.ordered AND j.author IN (SELECT held.author FROM held))
        ORDER BY j.id LIMIT most FOR UPDATE OF j
    ), taken AS (
        UPDATE jobs SET holder = for_holder, lease_until = clock + length, generation = jobs.generation + 1
        FROM due WHERE jobs.id = due.id RETURNING jobs.id
    )
    SELECT array_agg(taken.id) INTO claimed FROM taken;
    -- A holder that renewed an expired lease at this moment was waited for above: its job was passed over, but not the later
    -- ones of the same author. This statement sees the renewal.
    UPDATE jobs SET lease_until = 0 WHERE jobs.id = ANY (claimed) AND jobs.ordered AND EXISTS (
        SELECT FROM jobs earlier
        WHERE earlier.author = jobs.author AND earlier.ordered AND earlier.id < jobs.id
            AND earlier.holder <> for_holder AND earlier.lease_until > clock);
    RETURN QUERY SELECT * FROM jobs WHERE jobs.id = ANY (claimed) AND jobs.lease_until > 0;
END $$;
