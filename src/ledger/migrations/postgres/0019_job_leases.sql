-- Leases of jobs count up, are measured by this server's clock, and keep an author's jobs in order across nodes.

ALTER TABLE jobs
    -- Every claim raises it: a worker that lost a lease is told from the one that has it.
    ADD COLUMN IF NOT EXISTS generation bigint NOT NULL DEFAULT 1,
    -- Whether the job is done after the author's earlier ones.
    ADD COLUMN IF NOT EXISTS ordered boolean NOT NULL DEFAULT true;
UPDATE jobs SET ordered = false WHERE work ~ '^\s*\{\s*"(follow|unfollow|part)"';
CREATE INDEX IF NOT EXISTS jobs_ordered ON jobs (author, id) WHERE ordered;

-- The clock of leases, in Unix milliseconds.
CREATE OR REPLACE FUNCTION feedline_clock() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;

-- Makes a job. `until` is the length of the maker's lease in milliseconds; nodes of an older version pass the time at which it
-- ends. Answers the job's id, negated if the job waits for a claim: if the length is 0, or if the job is ordered and an earlier
-- one of the author waits or is held by another node. The author's row in `users` is locked by now, so no other job of theirs
-- is being made at the same time.
CREATE OR REPLACE FUNCTION feedline_job(
    what text, whose text, carries boolean, now_at bigint, for_holder text, until bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    clock bigint := feedline_clock();
    of_old_node boolean := until > 1000000000000;
    in_order boolean := what !~ '^\s*\{\s*"(follow|unfollow|part)"';
    is_held boolean;
    made bigint;
BEGIN
    is_held := of_old_node OR (until > 0 AND NOT (in_order AND EXISTS (
        SELECT FROM jobs WHERE author = whose AND ordered AND (holder <> for_holder OR lease_until <= clock))));
    INSERT INTO jobs (work, author, carries_post, ordered, created_at, holder, lease_until, generation)
    VALUES (what, whose, carries, in_order, now_at, for_holder,
            CASE WHEN of_old_node THEN until WHEN is_held THEN clock + until ELSE 0 END, is_held::int)
    RETURNING id INTO made;
    RETURN CASE WHEN is_held THEN made ELSE -made END;
END $$;

-- Leases up to `most` jobs to a node, oldest first. Nodes claim one after the other: of two at the same moment the second
-- could take later jobs of an author whose earlier ones the first is taking.
CREATE OR REPLACE FUNCTION feedline_claim_jobs(for_holder text, length bigint, most bigint) RETURNS SETOF jobs
LANGUAGE plpgsql AS $$
DECLARE
    clock bigint;
    claimed bigint[];
BEGIN
    PERFORM pg_advisory_xact_lock(7306080414946847333);
    clock := feedline_clock();
    WITH held AS MATERIALIZED (
        SELECT DISTINCT j.author FROM jobs j WHERE j.lease_until > clock AND j.holder <> for_holder AND j.ordered
    ), due AS MATERIALIZED (
        SELECT j.id FROM jobs j
        WHERE j.lease_until <= clock AND NOT (j.ordered AND j.author IN (SELECT held.author FROM held))
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
