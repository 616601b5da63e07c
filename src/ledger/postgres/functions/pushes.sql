-- revision: 1
-- The queue of pushes.

-- As feedline_notify, and queues the changed groups for the devices of the user, to be pushed at `p_due`. A group that
-- was pushed before is pushed again if it has grown, likes and follows `p_digest` after the last push.
CREATE OR REPLACE FUNCTION feedline_notify_and_push(
    p_user text, p_kinds text[], p_objects text[], p_people text[], p_repeats boolean[],
    p_events bigint[], p_now bigint, p_window bigint, p_kept bigint, p_cleared bigint, p_due bigint, p_digest bigint
) RETURNS TABLE (changed bigint) LANGUAGE plpgsql AS $$
DECLARE
    touched bigint[];
BEGIN
    SELECT array_agg(n.changed ORDER BY n.ordinality) INTO touched
    FROM feedline_notify(p_user, p_kinds, p_objects, p_people, p_repeats, p_events, p_now, p_window, p_kept,
        p_cleared) WITH ORDINALITY AS n (changed, ordinality);
    IF touched IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO push_queue AS q (owner, device, item, kind, seq, state, due_at, queued_at)
    SELECT p_user, d.id, g.id, g.kind, g.seq, 0, p_due, p_now
    FROM devices d CROSS JOIN notifications g
    WHERE d.owner = p_user AND g.owner = p_user AND g.id = ANY (touched) ORDER BY d.id, g.id
    ON CONFLICT (owner, device, item) DO UPDATE SET
        seq = excluded.seq,
        due_at = CASE WHEN q.state = 0 THEN q.due_at ELSE greatest(excluded.due_at,
            q.sent_at + CASE WHEN q.kind IN ('like', 'follow') THEN p_digest ELSE 0 END) END,
        queued_at = CASE WHEN q.state = 0 THEN q.queued_at ELSE excluded.queued_at END,
        attempts = CASE WHEN q.state = 0 THEN q.attempts ELSE 0 END,
        state = 0
    WHERE excluded.seq > q.seq;
    RETURN QUERY SELECT unnest(touched);
END $$;

-- The pause after silent messages to a device, as in `ledger/pushes.rs`.
CREATE OR REPLACE FUNCTION feedline_clear_pause(p_user text, p_device text, p_sends bigint)
RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN EXISTS (
            SELECT FROM devices WHERE owner = p_user AND id = p_device AND target::jsonb ->> 'platform' = 'apns')
        THEN least(300000 * p_sends, 1200000) ELSE least(10000 * p_sends, 180000) END;
$$;

-- Settles pushes that `p_holder` leased until `p_until`; the elements of the arrays are ordered by key. Results:
-- `accepted`, `accepted_in_digest` (not counted in `sends`), `unwanted`, `deferred`, `retry`, `postponed`, `failed`.
-- Returns the number of settled pushes.
CREATE OR REPLACE FUNCTION feedline_settle_pushes(
    p_holder text, p_until bigint, p_owners text[], p_devices text[], p_items bigint[], p_seqs bigint[],
    p_results text[], p_dues bigint[], p_reasons text[], p_now bigint, p_kept bigint, p_digest bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    held push_queue%ROWTYPE;
    settled bigint := 0;
BEGIN
    FOR n IN 1 .. coalesce(array_length(p_owners, 1), 0) LOOP
        SELECT * INTO held FROM push_queue
        WHERE owner = p_owners[n] AND device = p_devices[n] AND item = p_items[n] AND holder = p_holder
            AND due_at = p_until AND state = 0 FOR UPDATE;
        CONTINUE WHEN NOT FOUND;
        settled := settled + 1;
        IF p_results[n] = 'failed' THEN
            INSERT INTO quarantine (kind, name, content, reason, attempts, at)
            VALUES ('push', held.owner || '/' || held.device || '/' || held.item, json_build_object(
                'user', held.owner, 'device', held.device, 'item', held.item, 'kind', held.kind,
                'seq', p_seqs[n])::text, p_reasons[n], held.attempts, p_now)
            ON CONFLICT (kind, name) DO UPDATE SET content = excluded.content, reason = excluded.reason,
                attempts = excluded.attempts, at = excluded.at, is_retried = false;
        END IF;
        IF p_results[n] IN ('unwanted', 'failed') AND held.seq <= p_seqs[n] AND held.sent_at = 0 THEN
            DELETE FROM push_queue WHERE owner = held.owner AND device = held.device AND item = held.item;
            CONTINUE;
        END IF;
        UPDATE push_queue SET
            holder = NULL,
            attempts = CASE WHEN p_results[n] IN ('retry', 'postponed') THEN held.attempts ELSE 0 END,
            first_tried_at = CASE WHEN p_results[n] NOT IN ('retry', 'postponed') THEN 0
                WHEN p_results[n] = 'retry' AND held.first_tried_at = 0 THEN p_now ELSE held.first_tried_at END,
            sent_at = CASE WHEN p_results[n] IN ('accepted', 'accepted_in_digest') THEN p_now ELSE held.sent_at END,
            sends = held.sends + CASE WHEN p_results[n] = 'accepted' THEN 1 ELSE 0 END,
            state = CASE WHEN p_results[n] IN ('deferred', 'retry', 'postponed') OR held.seq > p_seqs[n] THEN 0
                ELSE 1 END,
            due_at = CASE
                WHEN p_results[n] IN ('deferred', 'retry', 'postponed') THEN p_dues[n]
                WHEN held.seq > p_seqs[n] AND p_results[n] IN ('accepted', 'accepted_in_digest')
                    AND held.kind IN ('like', 'follow') THEN p_now + p_digest
                WHEN held.seq > p_seqs[n] AND p_results[n] = 'accepted' AND held.kind = 'clear'
                    THEN p_now + feedline_clear_pause(held.owner, held.device, held.sends + 1)
                WHEN held.seq > p_seqs[n] THEN p_now
                ELSE p_now + p_kept END,
            queued_at = CASE WHEN p_results[n] IN ('deferred', 'retry', 'postponed') THEN held.queued_at ELSE p_now END
        WHERE owner = held.owner AND device = held.device AND item = held.item;
    END LOOP;
    RETURN settled;
END $$;

-- Queues a silent message for the devices of a user, except that of a session (NULL: none), that were sent pushes: of
-- posts behind `p_after` up to `p_upto`, or of notifications (NULL). A message that waits already is the same one; the
-- next one follows after a pause that grows, as in `ledger/pushes.rs`.
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
        attempts = CASE WHEN q.state = 0 THEN q.attempts ELSE 0 END,
        state = 0;
END $$;

-- As feedline_mark_notifications, and tells it to the other devices.
CREATE OR REPLACE FUNCTION feedline_mark_notifications_and_clear(
    p_user text, p_group bigint, p_is_read boolean, p_session text, p_now bigint, p_due bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    outcome text := feedline_mark_notifications(p_user, p_group, p_is_read);
BEGIN
    IF outcome = 'anew' THEN
        PERFORM feedline_queue_clears(p_user, p_session, NULL, NULL, p_now, p_due);
    END IF;
    RETURN outcome;
END $$;

-- Moves the read marker of a user forward, and tells it to the other devices. Returns its position.
CREATE OR REPLACE FUNCTION feedline_mark_read_and_clear(
    p_user text, p_post bigint, p_session text, p_now bigint, p_due bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    former bigint;
    marked bigint;
BEGIN
    SELECT post INTO former FROM read_markers WHERE owner = p_user FOR NO KEY UPDATE;
    INSERT INTO read_markers (owner, post) VALUES (p_user, p_post)
    ON CONFLICT (owner) DO UPDATE SET post = greatest(read_markers.post, excluded.post) RETURNING post INTO marked;
    IF marked > coalesce(former, 0) THEN
        PERFORM feedline_queue_clears(p_user, p_session, coalesce(former, 0), marked, p_now, p_due);
    END IF;
    RETURN marked;
END $$;
