-- revision: 1
-- The outlet.

-- As feedline_restrict, and writes an event for each follow that ends: `p_events` has one for each reader.
CREATE OR REPLACE FUNCTION feedline_restrict_with_events(
    p_kind text, p_maker text, p_whom text, p_readers text[], p_authors text[], p_ends_follows boolean, p_jobs text[],
    p_now bigint, p_events text[], p_pending int
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    ended text[];
    submitted bigint[];
BEGIN
    PERFORM feedline_lock_users(p_maker, p_whom);
    SELECT array_agg(edge.event ORDER BY edge.place) INTO ended
    FROM unnest(p_readers, p_authors, p_events) WITH ORDINALITY AS edge (reader, author, event, place)
    JOIN follows f ON f.follower = edge.reader AND f.followee = edge.author;
    submitted := feedline_restrict(p_kind, p_maker, p_whom, p_readers, p_authors, p_ends_follows, p_jobs, p_now);
    IF submitted IS NOT NULL AND p_ends_follows AND ended IS NOT NULL THEN
        INSERT INTO events (at, event, pending) SELECT p_now, event, p_pending FROM unnest(ended) AS t (event);
    END IF;
    RETURN submitted;
END $$;

-- Appends events to the log, unless they were processed before, and marks `p_done` as processed. Returns the end of the
-- log; NULL if the partition has another owner.
CREATE OR REPLACE FUNCTION feedline_publish_outlet(
    p_partition text, p_generation bigint, p_events bigint[], p_ats bigint[], p_kinds text[], p_owners text[],
    p_bodies text[], p_done bigint[], p_consumer_bit int, p_now bigint, OUT end_last bigint, OUT end_trimmed bigint
) LANGUAGE plpgsql AS $$
DECLARE
    appended bigint;
BEGIN
    PERFORM FROM work_partitions WHERE name = p_partition AND generation = p_generation FOR SHARE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT last, trimmed INTO end_last, end_trimmed FROM outlet_end FOR UPDATE;
    INSERT INTO outlet (position, at, published_at, kind, owner, body)
    SELECT end_last + row_number() OVER (ORDER BY new.place), new.at, p_now, new.kind, new.owner, new.body
    FROM unnest(p_events, p_ats, p_kinds, p_owners, p_bodies) WITH ORDINALITY
        AS new (event, at, kind, owner, body, place)
    JOIN events e ON e.seq = new.event AND e.pending & p_consumer_bit <> 0;
    GET DIAGNOSTICS appended = ROW_COUNT;
    end_last := end_last + appended;
    UPDATE outlet_end SET last = end_last;
    PERFORM feedline_finish_events(p_done, p_consumer_bit);
END $$;

-- Removes up to `p_max` of the oldest entries, if they were published before a time, and entries that were held or
-- given up before another. Returns the number of entries removed from the log.
CREATE OR REPLACE FUNCTION feedline_trim_outlet(p_before bigint, p_held_before bigint, p_max bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    removed bigint;
    top bigint;
BEGIN
    WITH gone AS (
        DELETE FROM outlet WHERE published_at < p_before
            AND position IN (SELECT o.position FROM outlet o ORDER BY o.position LIMIT p_max)
        RETURNING position
    )
    SELECT count(*), max(position) INTO removed, top FROM gone;
    IF removed > 0 THEN
        UPDATE outlet_end SET trimmed = greatest(trimmed, top);
    END IF;
    DELETE FROM outlet_held WHERE held_at < p_held_before;
    DELETE FROM quarantine WHERE kind = 'webhook' AND at < p_held_before;
    RETURN removed;
END $$;

-- The work of a consumer: rows of four kinds. `cursor`: its cursor, the end of the log and what was trimmed, and the
-- number of held entries. `due`: a held entry that is due. `new`: an entry after the cursor. `user`: a user with
-- held entries. No row: it is not registered.
CREATE OR REPLACE FUNCTION feedline_outlet_batch(p_consumer text, p_now bigint, p_max bigint, p_max_held bigint)
RETURNS TABLE (
    row_kind text, row_position bigint, row_at bigint, row_type text, row_owner text, row_body text,
    row_held_at bigint, row_attempts bigint
) LANGUAGE plpgsql STABLE AS $$
DECLARE
    cursor_position bigint;
    held bigint;
    upto bigint;
BEGIN
    SELECT c.position INTO cursor_position FROM outlet_consumers c WHERE c.name = p_consumer;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT count(*) INTO held FROM (
        SELECT FROM outlet_held h WHERE h.consumer = p_consumer LIMIT p_max_held) t;
    RETURN QUERY SELECT 'cursor'::text, cursor_position, e.last, NULL::text, NULL::text, NULL::text, e.trimmed, held
        FROM outlet_end e;
    IF held < p_max_held THEN
        RETURN QUERY SELECT 'new'::text, o.position, o.at, o.kind, o.owner, o.body, 0::bigint, 0::bigint
            FROM outlet o WHERE o.position > cursor_position ORDER BY o.position LIMIT p_max;
    END IF;
    IF held > 0 THEN
        RETURN QUERY SELECT 'due'::text, h.position, h.at, h.kind, h.owner, h.body, h.held_at, h.attempts
            FROM outlet_held h
            WHERE h.consumer = p_consumer AND h.due_at <= p_now
            ORDER BY h.due_at LIMIT p_max;
        RETURN QUERY SELECT DISTINCT 'user'::text, 0::bigint, 0::bigint, NULL::text, n.owner, NULL::text, 0::bigint,
                0::bigint
            FROM (SELECT o.owner FROM outlet o WHERE o.position > cursor_position ORDER BY o.position LIMIT p_max) n
            WHERE EXISTS (
                SELECT FROM outlet_held h
                WHERE h.consumer = p_consumer AND h.owner = n.owner);
    END IF;
END $$;

-- Settles a batch, unless the partition has another owner: holds entries (`p_positions` and the arrays after it), moves
-- those that were given up to the quarantine, removes held entries that were delivered, makes the next entries of their
-- users due, and moves the cursor forward. `p_prefix`: that of the names in quarantine.
CREATE OR REPLACE FUNCTION feedline_settle_outlet(
    p_partition text, p_generation bigint, p_consumer text, p_cursor bigint, p_positions bigint[], p_ats bigint[],
    p_kinds text[], p_owners text[], p_bodies text[], p_held_ats bigint[], p_attempts bigint[], p_dues bigint[],
    p_reasons text[], p_failed_ats bigint[], p_delivered bigint[], p_now bigint, p_prefix text
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    touched text[];
BEGIN
    PERFORM FROM work_partitions WHERE name = p_partition AND generation = p_generation FOR SHARE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO outlet_held (consumer, position, at, kind, owner, body, held_at, attempts, due_at, reason)
    SELECT p_consumer, t.position, t.at, t.kind, t.owner, t.body, t.held_at, t.attempts, t.due_at, t.reason
    FROM unnest(p_positions, p_ats, p_kinds, p_owners, p_bodies, p_held_ats, p_attempts, p_dues, p_reasons,
        p_failed_ats) AS t (position, at, kind, owner, body, held_at, attempts, due_at, reason, failed_at)
    WHERE t.failed_at IS NULL
    ON CONFLICT (consumer, position) DO UPDATE SET attempts = excluded.attempts, due_at = excluded.due_at,
        reason = excluded.reason;
    INSERT INTO quarantine (kind, name, content, reason, attempts, at)
    SELECT 'webhook', p_prefix || t.position, json_build_object('consumer', p_consumer, 'position', t.position,
        'at', t.at, 'kind', t.kind, 'owner', t.owner, 'body', t.body)::text, t.reason, t.attempts, t.failed_at
    FROM unnest(p_positions, p_ats, p_kinds, p_owners, p_bodies, p_attempts, p_reasons, p_failed_ats)
        AS t (position, at, kind, owner, body, attempts, reason, failed_at)
    WHERE t.failed_at IS NOT NULL
    ON CONFLICT (kind, name) DO UPDATE SET content = excluded.content, reason = excluded.reason,
        attempts = excluded.attempts, at = excluded.at, is_retried = false;
    DELETE FROM outlet_held h USING unnest(p_positions, p_failed_ats) AS t (position, failed_at)
    WHERE h.consumer = p_consumer AND h.position = t.position AND t.failed_at IS NOT NULL;
    WITH gone AS (
        DELETE FROM outlet_held WHERE consumer = p_consumer AND position = ANY (p_delivered) RETURNING owner
    )
    SELECT array_agg(owner) INTO touched FROM gone;
    UPDATE outlet_held h SET due_at = p_now
    FROM (SELECT DISTINCT owner FROM unnest(touched || p_owners) AS t (owner)) u
    WHERE h.consumer = p_consumer AND h.due_at IS NULL AND h.owner = u.owner
        AND h.position = (
            SELECT min(first.position) FROM outlet_held first
            WHERE first.consumer = p_consumer AND first.owner = u.owner);
    UPDATE outlet_consumers SET position = p_cursor WHERE name = p_consumer AND position < p_cursor;
    RETURN true;
END $$;
