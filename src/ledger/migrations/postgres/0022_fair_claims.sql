-- A claim takes the oldest jobs, but leaves a holder with at most so many of one author: others' jobs do not wait behind all of a
-- prolific author's. It chooses from the oldest 2,048 jobs that wait.
CREATE OR REPLACE FUNCTION feedline_claim_jobs(for_holder text, length bigint, most bigint) RETURNS SETOF jobs
LANGUAGE plpgsql AS $$
DECLARE
    longest CONSTANT bigint := 660000;
    of_author CONSTANT bigint := 8;
    clock bigint;
    claimed bigint[];
BEGIN
    PERFORM pg_advisory_xact_lock(7306080414946847333);
    clock := feedline_clock();
    WITH held AS MATERIALIZED (
        SELECT DISTINCT j.author FROM jobs j
        WHERE j.lease_until > clock AND j.lease_until <= clock + longest AND j.holder <> for_holder AND j.ordered
    ), mine AS MATERIALIZED (
        SELECT j.author, count(*) AS held FROM jobs j
        WHERE j.lease_until > clock AND j.lease_until <= clock + longest AND j.holder = for_holder GROUP BY j.author
    ), due AS MATERIALIZED (
        SELECT j.id, j.author FROM jobs j
        WHERE (j.lease_until <= clock OR j.lease_until > clock + longest)
            AND NOT (j.ordered AND j.author IN (SELECT held.author FROM held))
        ORDER BY j.id LIMIT 2048
    ), chosen AS MATERIALIZED (
        SELECT ranked.id FROM (
            SELECT due.id, due.author, row_number() OVER (PARTITION BY due.author ORDER BY due.id) AS place FROM due
        ) AS ranked LEFT JOIN mine ON mine.author = ranked.author
        WHERE ranked.place + coalesce(mine.held, 0) <= of_author ORDER BY ranked.id LIMIT most
    ), locked AS MATERIALIZED (
        SELECT j.id FROM jobs j
        WHERE j.id IN (SELECT chosen.id FROM chosen) AND (j.lease_until <= clock OR j.lease_until > clock + longest)
        ORDER BY j.id FOR UPDATE OF j
    ), taken AS (
        UPDATE jobs SET holder = for_holder, lease_until = clock + length, generation = jobs.generation + 1
        FROM locked WHERE jobs.id = locked.id RETURNING jobs.id
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
