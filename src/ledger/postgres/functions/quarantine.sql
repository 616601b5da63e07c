-- revision: 1
-- Items that cannot be decoded, always fail or were given up.

-- Adds an item in place of one of that name.
CREATE OR REPLACE FUNCTION feedline_put_quarantined(
    p_kind text, p_name text, p_content text, p_reason text, p_attempts bigint, p_now bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO quarantine (kind, name, content, reason, attempts, at)
    VALUES (p_kind, p_name, p_content, p_reason, p_attempts, p_now)
    ON CONFLICT (kind, name) DO UPDATE SET content = excluded.content, reason = excluded.reason,
        attempts = excluded.attempts, at = excluded.at, is_retried = false;
END $$;

-- Moves a job to the quarantine, if its partition has this owner. Returns whether it did.
CREATE OR REPLACE FUNCTION feedline_quarantine_job(
    p_job bigint, p_partition text, p_generation bigint, p_reason text, p_attempts bigint, p_now bigint
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
    PERFORM feedline_put_quarantined('job', p_job::text, json_build_object(
        'work', job.work, 'author', job.author, 'partition', job.partition, 'cursor', job.cursor,
        'created_at', job.created_at)::text, p_reason, p_attempts, p_now);
    RETURN true;
END $$;

-- Moves an event to the quarantine for a consumer. Other consumers still get it.
CREATE OR REPLACE FUNCTION feedline_quarantine_event(
    p_event bigint, p_consumer text, p_consumer_bit int, p_reason text, p_attempts bigint, p_now bigint
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    found_event events;
BEGIN
    SELECT * INTO found_event FROM events WHERE seq = p_event AND pending & p_consumer_bit <> 0 FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM feedline_put_quarantined('event', p_consumer || '/' || p_event, json_build_object(
        'seq', p_event, 'pending', p_consumer_bit, 'at', found_event.at, 'event', found_event.event)::text,
        p_reason, p_attempts, p_now);
    PERFORM feedline_finish_events(ARRAY[p_event], p_consumer_bit);
END $$;

-- Moves the alerts about a post to the quarantine. Its job counts as done, so that it does not begin again.
CREATE OR REPLACE FUNCTION feedline_quarantine_post_alert(
    p_post bigint, p_reason text, p_attempts bigint, p_now bigint, p_done_until bigint
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    job post_alert_jobs;
BEGIN
    SELECT * INTO job FROM post_alert_jobs WHERE post = p_post AND state = 0 FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE post_alert_jobs SET state = 1, at = p_done_until WHERE post = p_post;
    PERFORM feedline_put_quarantined('post_alert', p_post::text, json_build_object(
        'post', job.post, 'cursor', job.cursor, 'created_at', job.at)::text, p_reason, p_attempts, p_now);
END $$;

-- Sets an erasure aside, if the partition has this owner: it is not due before `p_never`.
CREATE OR REPLACE FUNCTION feedline_quarantine_erasure(
    p_partition text, p_generation bigint, p_user text, p_reason text, p_attempts bigint, p_now bigint, p_never bigint
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    begun bigint;
BEGIN
    UPDATE erasures SET due_at = p_never WHERE owner = p_user AND due_at <> p_never
        AND EXISTS (SELECT FROM work_partitions WHERE name = p_partition AND generation = p_generation)
    RETURNING at INTO begun;
    IF FOUND THEN
        PERFORM feedline_put_quarantined('erasure', p_user, json_build_object('at', begun)::text, p_reason,
            p_attempts, p_now);
    END IF;
END $$;

-- Returns an item to the work of its kind, or asks running nodes to do so. Returns what became of it: `absent`,
-- `returned` or `requested`. `p_work`: the work of a job, if it differs from that in quarantine.
CREATE OR REPLACE FUNCTION feedline_retry_quarantined(p_kind text, p_name text, p_work text, p_now bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    kept json;
BEGIN
    IF p_kind IN ('like', 'revert') THEN
        UPDATE quarantine SET is_retried = true WHERE kind = p_kind AND name = p_name;
        RETURN CASE WHEN FOUND THEN 'requested' ELSE 'absent' END;
    END IF;
    DELETE FROM quarantine WHERE kind = p_kind AND name = p_name RETURNING content::json INTO kept;
    IF NOT FOUND THEN
        RETURN 'absent';
    END IF;
    CASE p_kind
    WHEN 'job' THEN
        -- The owner of its partition reads it again, although later ones are finished.
        INSERT INTO jobs (id, partition, author, work, cursor, created_at) OVERRIDING SYSTEM VALUE
        VALUES (p_name::bigint, (kept ->> 'partition')::smallint, kept ->> 'author', coalesce(p_work, kept ->> 'work'),
            kept ->> 'cursor', (kept ->> 'created_at')::bigint);
        UPDATE work_partitions SET floor = least(floor, p_name::bigint - 1)
        WHERE name = 'fanout/' || (kept ->> 'partition');
    WHEN 'event' THEN
        -- Another consumer may not have processed it yet.
        INSERT INTO events AS e (seq, at, event, pending) OVERRIDING SYSTEM VALUE
        VALUES ((kept ->> 'seq')::bigint, (kept ->> 'at')::bigint, kept ->> 'event', (kept ->> 'pending')::int)
        ON CONFLICT (seq) DO UPDATE SET pending = e.pending | excluded.pending;
    WHEN 'webhook' THEN
        -- Later entries of the owner wait behind it again.
        INSERT INTO outlet_held (consumer, position, at, kind, owner, body, held_at, attempts, due_at, reason)
        VALUES (kept ->> 'consumer', (kept ->> 'position')::bigint, (kept ->> 'at')::bigint, kept ->> 'kind',
            kept ->> 'owner', kept ->> 'body', p_now, 0, p_now, 'sent again by an operator')
        ON CONFLICT DO NOTHING;
    WHEN 'push' THEN
        -- A group that has grown since may be queued already.
        INSERT INTO push_queue AS q (owner, device, item, kind, seq, state, due_at, queued_at)
        VALUES (kept ->> 'user', kept ->> 'device', (kept ->> 'item')::bigint, kept ->> 'kind',
            (kept ->> 'seq')::bigint, 0, p_now, p_now)
        ON CONFLICT (owner, device, item) DO UPDATE SET state = 0, seq = greatest(q.seq, excluded.seq),
            due_at = excluded.due_at, queued_at = excluded.queued_at, attempts = 0, first_tried_at = 0
        WHERE q.state = 1;
    WHEN 'post_alert' THEN
        INSERT INTO post_alert_jobs (post, cursor, state, at)
        VALUES ((kept ->> 'post')::bigint, kept ->> 'cursor', 0, (kept ->> 'created_at')::bigint)
        ON CONFLICT (post) DO UPDATE SET state = 0, cursor = excluded.cursor, at = excluded.at;
    WHEN 'erasure' THEN
        UPDATE erasures SET due_at = 0 WHERE owner = p_name;
    ELSE
        RETURN 'absent';
    END CASE;
    RETURN 'returned';
END $$;
