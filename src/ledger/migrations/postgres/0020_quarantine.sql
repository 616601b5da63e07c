-- Jobs and likes that cannot be read or always fail, with the reason. Times are Unix milliseconds.
CREATE TABLE IF NOT EXISTS quarantine (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind    text COLLATE "C" NOT NULL,
    name    text COLLATE "C" NOT NULL,
    -- Of a job: its row as JSON.
    content text NOT NULL,
    reason  text NOT NULL,
    at      bigint NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS quarantine_name ON quarantine (kind, name);
CREATE INDEX IF NOT EXISTS quarantine_kind ON quarantine (kind, id);

-- Drops the oldest entries of a kind but for the newest `kept`.
CREATE OR REPLACE FUNCTION feedline_trim_quarantine(of_kind text, kept bigint) RETURNS void LANGUAGE sql AS $$
    DELETE FROM quarantine WHERE kind = of_kind AND id <= (
        SELECT id FROM quarantine WHERE kind = of_kind ORDER BY id DESC LIMIT 1 OFFSET kept)
$$;

-- Moves a job to the quarantine if its generation is this one. Answers whether jobs of the same author wait for a claim; nothing
-- if the job was claimed since, or is finished.
CREATE OR REPLACE FUNCTION feedline_quarantine_job(which bigint, of_generation bigint, why text, now_at bigint, kept bigint)
RETURNS TABLE (more boolean) LANGUAGE plpgsql AS $$
DECLARE
    job jobs;
BEGIN
    DELETE FROM jobs WHERE id = which AND generation = of_generation RETURNING * INTO job;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    INSERT INTO quarantine (kind, name, content, reason, at)
    VALUES ('job', which::text, json_build_object(
        'work', job.work, 'author', job.author, 'carries_post', job.carries_post, 'ordered', job.ordered,
        'cursor', job.cursor, 'created_at', job.created_at, 'generation', job.generation)::text, why, now_at)
    ON CONFLICT (kind, name) DO UPDATE SET content = excluded.content, reason = excluded.reason, at = excluded.at;
    PERFORM feedline_trim_quarantine('job', kept);
    RETURN QUERY SELECT EXISTS (
        SELECT FROM jobs j WHERE j.author = job.author AND j.lease_until <= feedline_clock());
END $$;

-- Moves a job back, for any node to claim. Its generation continues, so that earlier attempts stay fenced. Whether there was one.
CREATE OR REPLACE FUNCTION feedline_release_job(which bigint, new_work text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    WITH gone AS (
        DELETE FROM quarantine WHERE kind = 'job' AND name = which::text RETURNING content::json AS job
    )
    INSERT INTO jobs (id, work, author, carries_post, ordered, cursor, created_at, generation, holder, lease_until)
    OVERRIDING SYSTEM VALUE
    SELECT which, coalesce(new_work, job ->> 'work'), job ->> 'author', (job ->> 'carries_post')::boolean,
        (job ->> 'ordered')::boolean, job ->> 'cursor', (job ->> 'created_at')::bigint, (job ->> 'generation')::bigint, '', 0
    FROM gone;
    RETURN FOUND;
END $$;

-- Puts an entry of the queue of likes aside and moves its partition on, if it stands at `begins`. A like is noted as reverted.
-- Answers whether the partition stood there, and the note.
CREATE OR REPLACE FUNCTION feedline_skip_like(
    in_partition int, begins text, ends text, named text, said text, why text, now_at bigint, kept bigint,
    of_owner text, of_object text, for_reason text
) RETURNS TABLE (moved boolean, note bigint) LANGUAGE plpgsql AS $$
DECLARE
    stands text;
    noted bigint;
BEGIN
    INSERT INTO like_positions (partition, position) VALUES (in_partition, '') ON CONFLICT DO NOTHING;
    SELECT position INTO stands FROM like_positions WHERE partition = in_partition FOR UPDATE;
    IF stands <> begins THEN
        RETURN QUERY SELECT false, NULL::bigint;
        RETURN;
    END IF;
    INSERT INTO quarantine (kind, name, content, reason, at) VALUES ('like', named, said, why, now_at)
    ON CONFLICT (kind, name) DO NOTHING;
    PERFORM feedline_trim_quarantine('like', kept);
    IF of_owner IS NOT NULL THEN
        INSERT INTO like_reverts (partition, owner, object, reason)
        VALUES (in_partition, of_owner, of_object, for_reason) RETURNING id INTO noted;
    END IF;
    UPDATE like_positions SET position = ends WHERE partition = in_partition;
    RETURN QUERY SELECT true, noted;
END $$;
