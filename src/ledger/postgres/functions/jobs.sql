-- revision: 1
-- Fan-out jobs and their leases.

-- The clock of leases, in Unix milliseconds.
CREATE OR REPLACE FUNCTION feedline_clock() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;

-- Submits a job. `p_job` is JSON with the columns `work`, `author`, `carries_post` and `ordered`; `p_lease` is the
-- length of the lease of its creator in milliseconds. Returns the id, negated if the job waits for a claim: if the
-- length is 0, or if the job is ordered and an earlier one of the author waits or is held by another node. The row of
-- the author in `users` is locked by the caller, so no other job of theirs is submitted meanwhile.
CREATE OR REPLACE FUNCTION feedline_submit_job(p_job text, p_now bigint, p_holder text, p_lease bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    clock bigint := feedline_clock();
    job json := p_job::json;
    of_author text := job ->> 'author';
    is_ordered boolean := job ->> 'ordered';
    is_held boolean;
    new_id bigint;
BEGIN
    is_held := p_lease > 0 AND NOT (is_ordered AND EXISTS (
        SELECT FROM jobs WHERE author = of_author AND ordered AND (holder <> p_holder OR lease_until <= clock)));
    INSERT INTO jobs (work, author, carries_post, ordered, created_at, holder, lease_until, generation)
    VALUES (job ->> 'work', of_author, (job ->> 'carries_post')::boolean, is_ordered, p_now, p_holder,
            CASE WHEN is_held THEN clock + p_lease ELSE 0 END, is_held::int)
    RETURNING id INTO new_id;
    RETURN CASE WHEN is_held THEN new_id ELSE -new_id END;
END $$;

-- Leases up to `p_max` jobs to a node, oldest first, chosen from the oldest 2,048 that wait. A holder has at most 8
-- jobs of one author, so that others' jobs do not wait behind all of a prolific author's. Nodes claim one after the
-- other: of two at the same moment the second could take later jobs of an author whose earlier ones the first is
-- taking.
--
-- A lease that ends later than the longest one possible is from before the clock was set back, and counts as expired:
-- `fanout.lease` is at most 10 minutes, and one more is for leases that begin during the claim.
CREATE OR REPLACE FUNCTION feedline_claim_jobs(p_holder text, p_lease bigint, p_max bigint) RETURNS SETOF jobs
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
        WHERE j.lease_until > clock AND j.lease_until <= clock + longest AND j.holder <> p_holder AND j.ordered
    ), mine AS MATERIALIZED (
        SELECT j.author, count(*) AS held FROM jobs j
        WHERE j.lease_until > clock AND j.lease_until <= clock + longest AND j.holder = p_holder GROUP BY j.author
    ), due AS MATERIALIZED (
        SELECT j.id, j.author FROM jobs j
        WHERE (j.lease_until <= clock OR j.lease_until > clock + longest)
            AND NOT (j.ordered AND j.author IN (SELECT held.author FROM held))
        ORDER BY j.id LIMIT 2048
    ), chosen AS MATERIALIZED (
        SELECT ranked.id FROM (
            SELECT due.id, due.author, row_number() OVER (PARTITION BY due.author ORDER BY due.id) AS place FROM due
        ) AS ranked LEFT JOIN mine ON mine.author = ranked.author
        WHERE ranked.place + coalesce(mine.held, 0) <= of_author ORDER BY ranked.id LIMIT p_max
    ), locked AS MATERIALIZED (
        SELECT j.id FROM jobs j
        WHERE j.id IN (SELECT chosen.id FROM chosen) AND (j.lease_until <= clock OR j.lease_until > clock + longest)
        ORDER BY j.id FOR UPDATE OF j
    ), taken AS (
        UPDATE jobs SET holder = p_holder, lease_until = clock + p_lease, generation = jobs.generation + 1
        FROM locked WHERE jobs.id = locked.id RETURNING jobs.id
    )
    SELECT array_agg(taken.id) INTO claimed FROM taken;
    -- A holder may have renewed an expired lease while this waited for the row: its job was skipped, but not the later
    -- ones of the same author. This statement sees the renewal.
    UPDATE jobs SET lease_until = 0 WHERE jobs.id = ANY (claimed) AND jobs.ordered AND EXISTS (
        SELECT FROM jobs earlier
        WHERE earlier.author = jobs.author AND earlier.ordered AND earlier.id < jobs.id
            AND earlier.holder <> p_holder AND earlier.lease_until > clock);
    RETURN QUERY SELECT * FROM jobs WHERE jobs.id = ANY (claimed) AND jobs.lease_until > 0;
END $$;
