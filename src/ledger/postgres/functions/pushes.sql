-- revision: 2
-- The queue of pushes.

-- As feedline_notify, and queues the changed groups for the devices of the user, to be pushed at `p_due` (NULL: none
-- is). A group that was pushed before is pushed again if it has grown, likes and follows `p_digest` after the last
-- push.
CREATE OR REPLACE FUNCTION feedline_notify_and_push(
    p_user text, p_kinds text[], p_objects text[], p_people text[], p_repeats boolean[],
    p_events bigint[], p_comments bigint[], p_now bigint, p_window bigint, p_kept bigint, p_cleared bigint,
    p_kept_comments int, p_due bigint, p_digest bigint
) RETURNS TABLE (changed bigint) LANGUAGE plpgsql AS $$
DECLARE
    touched bigint[] := ARRAY(SELECT n.changed FROM feedline_notify(p_user, p_kinds, p_objects, p_people,
        p_repeats, p_events, p_comments, p_now, p_window, p_kept, p_cleared, p_kept_comments) AS n (changed));
BEGIN
    INSERT INTO push_queue AS q (owner, device, item, kind, seq, state, due_at, queued_at)
    SELECT p_user, d.id, g.id, g.kind, g.seq, 0, p_due, p_now
    FROM devices d CROSS JOIN notifications g
    WHERE p_due IS NOT NULL AND d.owner = p_user AND g.owner = p_user AND g.id = ANY (touched) ORDER BY d.id, g.id
    ON CONFLICT (owner, device, item) DO UPDATE SET
        seq = excluded.seq,
        due_at = CASE WHEN q.state = 0 THEN q.due_at ELSE greatest(excluded.due_at,
            q.sent_at + CASE WHEN q.kind IN ('like', 'follow') THEN p_digest ELSE 0 END) END,
        queued_at = CASE WHEN q.state = 0 THEN q.queued_at ELSE excluded.queued_at END,
        state = 0
    WHERE excluded.seq > q.seq;
    RETURN QUERY SELECT unnest(touched);
END $$;

-- As `feedline_notify_and_push`, with the content of each event of the application (NULL: an event of the feed). It is
-- stored unless the event was added before: a repeat must not restore what a later event has replaced.
CREATE OR REPLACE FUNCTION feedline_notify_with_contents(
    p_user text, p_kinds text[], p_objects text[], p_people text[], p_repeats boolean[],
    p_events bigint[], p_comments bigint[], p_now bigint, p_window bigint, p_kept bigint, p_cleared bigint,
    p_kept_comments int, p_due bigint, p_digest bigint, p_contents text[]
) RETURNS TABLE (changed bigint) LANGUAGE plpgsql AS $$
BEGIN
    IF array_remove(p_contents, NULL) <> '{}' THEN
        INSERT INTO notified (owner) VALUES (p_user) ON CONFLICT DO NOTHING;
        PERFORM FROM notified WHERE owner = p_user FOR NO KEY UPDATE;
    END IF;
    FOR n IN 1 .. coalesce(array_length(p_contents, 1), 0) LOOP
        CONTINUE WHEN p_contents[n] IS NULL OR p_events[n] <> 0 AND EXISTS (
            SELECT FROM notification_people p
            WHERE p.owner = p_user AND p.person = p_people[n] AND p.event >= p_events[n] AND p.notification = (
                SELECT id FROM notifications
                WHERE owner = p_user AND kind = p_kinds[n] AND object = p_objects[n] ORDER BY id DESC LIMIT 1));
        INSERT INTO app_notifications (owner, object, content) VALUES (p_user, p_objects[n], p_contents[n])
        ON CONFLICT (owner, object) DO UPDATE SET content = excluded.content;
    END LOOP;
    RETURN QUERY SELECT n.changed FROM feedline_notify_and_push(
        p_user, p_kinds, p_objects, p_people, p_repeats, p_events, p_comments, p_now, p_window, p_kept, p_cleared,
        p_kept_comments, p_due, p_digest) AS n (changed);
END $$;

-- The pause after this number of silent messages to a device in a day. FCM gives a device a new one every three
-- minutes, after some at once; APNs delivers two or three in an hour.
CREATE OR REPLACE FUNCTION feedline_clear_pause(p_user text, p_device text, p_sends bigint)
RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN EXISTS (
            SELECT FROM devices WHERE owner = p_user AND id = p_device AND target::jsonb ->> 'platform' = 'apns')
        THEN least(300000 * p_sends, 1200000) ELSE least(10000 * p_sends, 180000) END;
$$;

-- Queues a silent message for the devices of a user, except that of a session (NULL: none), that were sent pushes: of
-- posts behind `p_after` up to `p_upto`, or of notifications (NULL). A message that waits already is the same one; the
-- next one follows after a pause that grows.
CREATE OR REPLACE FUNCTION feedline_queue_clears(
    p_user text, p_session text, p_after bigint, p_upto bigint, p_now bigint, p_due bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO push_queue AS q (owner, device, item, kind, seq, state, due_at, queued_at)
    SELECT d.owner, d.id, 0, 'clear', p_now, 0, p_due, p_now FROM devices d
    WHERE d.owner = p_user AND (p_session IS NULL OR d.session IS DISTINCT FROM p_session) AND EXISTS (
        SELECT FROM push_queue s WHERE s.owner = d.owner AND s.device = d.id AND s.item > 0
        AND (s.sent_at > 0 OR s.holder IS NOT NULL)
        AND CASE WHEN p_upto IS NULL THEN s.kind <> 'post'
            ELSE s.kind = 'post' AND s.item > p_after AND s.item <= p_upto END)
    ORDER BY d.id
    ON CONFLICT (owner, device, item) DO UPDATE SET
        seq = greatest(q.seq + 1, excluded.seq),
        queued_at = excluded.queued_at,
        due_at = CASE WHEN q.state = 0 THEN q.due_at
            ELSE greatest(excluded.due_at, q.sent_at + feedline_clear_pause(q.owner, q.device, q.sends)) END,
        state = 0;
END $$;

-- Queues a silent message for the devices of users that were sent a push of an item, in the order of users.
CREATE OR REPLACE FUNCTION feedline_clear_pushes(
    p_users text[], p_items bigint[], p_session text, p_now bigint, p_due bigint
) RETURNS void LANGUAGE sql AS $$
    INSERT INTO push_queue AS q (owner, device, item, kind, seq, state, due_at, queued_at)
    SELECT d.owner, d.id, 0, 'clear', p_now, 0, p_due, p_now
    FROM (
        SELECT DISTINCT s.owner, s.device FROM unnest(p_users, p_items) AS c (owner, item)
        CROSS JOIN LATERAL (SELECT id FROM devices WHERE owner = c.owner OFFSET 0) own
        CROSS JOIN LATERAL (
            SELECT owner, device FROM push_queue WHERE owner = c.owner AND device = own.id AND item = c.item
            AND item > 0 AND (sent_at > 0 OR holder IS NOT NULL) OFFSET 0
        ) s
    ) sent
    JOIN devices d ON d.owner = sent.owner AND d.id = sent.device
    WHERE p_session IS NULL OR d.session IS DISTINCT FROM p_session
    ORDER BY d.owner, d.id
    ON CONFLICT (owner, device, item) DO UPDATE SET
        seq = greatest(q.seq + 1, excluded.seq),
        queued_at = excluded.queued_at,
        due_at = CASE WHEN q.state = 0 THEN q.due_at
            ELSE greatest(excluded.due_at, q.sent_at + feedline_clear_pause(q.owner, q.device, q.sends)) END,
        state = 0;
$$;
