-- revision: 1
-- Jobs and likes that cannot be decoded or always fail.

-- Removes the oldest entries of a kind but for the newest `p_kept`.
CREATE OR REPLACE FUNCTION feedline_trim_quarantine(p_kind text, p_kept bigint) RETURNS void LANGUAGE sql AS $$
    DELETE FROM quarantine WHERE kind = p_kind AND id <= (
        SELECT id FROM quarantine WHERE kind = p_kind ORDER BY id DESC LIMIT 1 OFFSET p_kept)
$$;

-- Moves a job to the quarantine if its generation is this one. Returns whether jobs of the same author wait for a
-- claim; no row if the job was claimed since, or is finished.
CREATE OR REPLACE FUNCTION feedline_quarantine_job(
    p_job bigint, p_generation bigint, p_reason text, p_now bigint, p_kept bigint
) RETURNS TABLE (more boolean) LANGUAGE plpgsql AS $$
DECLARE
    job jobs;
BEGIN
    DELETE FROM jobs WHERE id = p_job AND generation = p_generation RETURNING * INTO job;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    INSERT INTO quarantine (kind, name, content, reason, at)
    VALUES ('job', p_job::text, json_build_object(
        'work', job.work, 'author', job.author, 'carries_post', job.carries_post, 'ordered', job.ordered,
        'cursor', job.cursor, 'created_at', job.created_at, 'generation', job.generation)::text, p_reason, p_now)
    ON CONFLICT (kind, name) DO UPDATE SET content = excluded.content, reason = excluded.reason, at = excluded.at;
    PERFORM feedline_trim_quarantine('job', p_kept);
    RETURN QUERY SELECT EXISTS (
        SELECT FROM jobs j WHERE j.author = job.author AND j.lease_until <= feedline_clock());
END $$;

-- Moves a job back, for any node to claim. Its generation continues, so that earlier attempts stay fenced. Returns
-- whether it existed.
CREATE OR REPLACE FUNCTION feedline_release_job(p_job bigint, p_work text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    WITH gone AS (
        DELETE FROM quarantine WHERE kind = 'job' AND name = p_job::text RETURNING content::json AS job
    )
    INSERT INTO jobs (id, work, author, carries_post, ordered, cursor, created_at, generation, holder, lease_until)
    OVERRIDING SYSTEM VALUE
    SELECT p_job, coalesce(p_work, job ->> 'work'), job ->> 'author', (job ->> 'carries_post')::boolean,
        (job ->> 'ordered')::boolean, job ->> 'cursor', (job ->> 'created_at')::bigint, (job ->> 'generation')::bigint,
        '', 0
    FROM gone;
    RETURN FOUND;
END $$;

-- Sets an entry of the queue of likes aside and moves its partition on, if it stands at `p_from`. A like is stored as
-- reverted. `moved`: whether the partition stood there; `note`: the revert.
CREATE OR REPLACE FUNCTION feedline_skip_like(
    p_partition int, p_from text, p_to text, p_name text, p_content text, p_reason text, p_now bigint, p_kept bigint,
    p_user text, p_object text, p_revert_reason text
) RETURNS TABLE (moved boolean, note bigint) LANGUAGE plpgsql AS $$
DECLARE
    current_position text;
    revert_id bigint;
BEGIN
    INSERT INTO like_positions (partition, position) VALUES (p_partition, '') ON CONFLICT DO NOTHING;
    SELECT position INTO current_position FROM like_positions WHERE partition = p_partition FOR UPDATE;
    IF current_position <> p_from THEN
        RETURN QUERY SELECT false, NULL::bigint;
        RETURN;
    END IF;
    INSERT INTO quarantine (kind, name, content, reason, at) VALUES ('like', p_name, p_content, p_reason, p_now)
    ON CONFLICT (kind, name) DO NOTHING;
    PERFORM feedline_trim_quarantine('like', p_kept);
    IF p_user IS NOT NULL THEN
        INSERT INTO like_reverts (partition, owner, object, reason)
        VALUES (p_partition, p_user, p_object, p_revert_reason) RETURNING id INTO revert_id;
    END IF;
    UPDATE like_positions SET position = p_to WHERE partition = p_partition;
    RETURN QUERY SELECT true, revert_id;
END $$;
