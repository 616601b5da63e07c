-- revision: 1
-- Jobs and likes that cannot be decoded or always fail.

-- Removes the oldest entries of a kind but for the newest `p_kept`.
CREATE OR REPLACE FUNCTION feedline_trim_quarantine(p_kind text, p_kept bigint) RETURNS void LANGUAGE sql AS $$
    DELETE FROM quarantine WHERE kind = p_kind AND id <= (
        SELECT id FROM quarantine WHERE kind = p_kind ORDER BY id DESC LIMIT 1 OFFSET p_kept)
$$;

-- Moves a job to the quarantine, if its partition has this owner. Returns whether it did.
CREATE OR REPLACE FUNCTION feedline_quarantine_job(
    p_job bigint, p_partition text, p_generation bigint, p_reason text, p_now bigint, p_kept bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    job jobs;
BEGIN
    DELETE FROM jobs WHERE id = p_job
        AND EXISTS (SELECT FROM work_partitions WHERE name = p_partition AND generation = p_generation)
    RETURNING * INTO job;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO quarantine (kind, name, content, reason, at)
    VALUES ('job', p_job::text, json_build_object(
        'work', job.work, 'author', job.author, 'partition', job.partition, 'cursor', job.cursor,
        'created_at', job.created_at)::text, p_reason, p_now)
    ON CONFLICT (kind, name) DO UPDATE SET content = excluded.content, reason = excluded.reason, at = excluded.at;
    PERFORM feedline_trim_quarantine('job', p_kept);
    RETURN true;
END $$;

-- Moves a job back, for the owner of its partition. Returns whether it existed.
CREATE OR REPLACE FUNCTION feedline_release_job(p_job bigint, p_work text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    job json;
BEGIN
    DELETE FROM quarantine WHERE kind = 'job' AND name = p_job::text RETURNING content::json INTO job;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO jobs (id, partition, author, work, cursor, created_at) OVERRIDING SYSTEM VALUE
    VALUES (p_job, (job ->> 'partition')::smallint, job ->> 'author', coalesce(p_work, job ->> 'work'),
        job ->> 'cursor', (job ->> 'created_at')::bigint);
    -- The job is read again, although later ones are finished.
    UPDATE work_partitions SET floor = least(floor, p_job - 1) WHERE name = 'fanout/' || (job ->> 'partition');
    RETURN true;
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
