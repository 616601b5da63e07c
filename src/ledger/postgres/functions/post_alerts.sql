-- revision: 1
-- Alerts about posts.

-- Queues the alerts of a post for the next `p_users` users who asked for them, for the owner of a partition. Returns
-- `more`, `done` (nobody is left, or the post is deleted) or `lost` (the partition, or the job is done).
CREATE OR REPLACE FUNCTION feedline_queue_post_alerts(
    p_partition text, p_generation bigint, p_post bigint, p_now bigint, p_due bigint, p_users bigint,
    p_kept_until bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    held post_alert_jobs%ROWTYPE;
    of_author text;
    page text[];
BEGIN
    SELECT * INTO held FROM post_alert_jobs
    WHERE post = p_post AND state = 0
        AND EXISTS (SELECT FROM work_partitions WHERE name = p_partition AND generation = p_generation) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'lost';
    END IF;
    SELECT author INTO of_author FROM posts WHERE id = p_post AND deleted_at IS NULL;
    IF FOUND THEN
        SELECT array_agg(next.owner ORDER BY next.owner) INTO page FROM (
            SELECT owner FROM post_alerts_of WHERE author = of_author AND owner > held.cursor
            ORDER BY owner LIMIT p_users) next;
    END IF;
    IF page IS NULL THEN
        UPDATE post_alert_jobs SET state = 1, cursor = '', at = p_kept_until WHERE post = p_post;
        RETURN 'done';
    END IF;
    INSERT INTO push_queue (owner, device, item, kind, seq, state, due_at, queued_at)
    SELECT d.owner, d.id, p_post, 'post', 1, 0, p_due, p_now
    FROM devices d WHERE d.owner = ANY (page) ORDER BY d.owner, d.id
    ON CONFLICT DO NOTHING;
    UPDATE post_alert_jobs SET cursor = page[array_upper(page, 1)] WHERE post = p_post;
    RETURN 'more';
END $$;
