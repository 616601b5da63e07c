-- revision: 2
-- The outlet.

-- As feedline_restrict, and writes an event for each follow that ends: `p_events` has one for each reader. The last
-- parameters are the event of the restriction itself, or NULL.
CREATE OR REPLACE FUNCTION feedline_restrict_with_events(
    p_kind text, p_maker text, p_target text, p_readers text[], p_authors text[], p_ends_follows boolean, p_jobs text[],
    p_now bigint, p_events text[], p_pending int, p_restricted text, p_restricted_pending int, p_until bigint,
    p_request_events text[], p_request_pending int[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    ended text[];
    submitted bigint[];
BEGIN
    PERFORM feedline_lock_users(p_maker, p_target);
    SELECT array_agg(edge.event ORDER BY edge.place) INTO ended
    FROM unnest(p_readers, p_authors, p_events) WITH ORDINALITY AS edge (reader, author, event, place)
    JOIN follows f ON f.follower = edge.reader AND f.followee = edge.author;
    submitted := feedline_restrict(p_kind, p_maker, p_target, p_readers, p_authors, p_ends_follows, p_jobs, p_now,
        p_until, p_request_events, p_request_pending);
    IF submitted IS NOT NULL AND p_restricted IS NOT NULL THEN
        INSERT INTO events (at, event, pending) VALUES (p_now, p_restricted, p_restricted_pending);
    END IF;
    IF submitted IS NOT NULL AND p_ends_follows AND ended IS NOT NULL THEN
        INSERT INTO events (at, event, pending) SELECT p_now, event, p_pending FROM unnest(ended) AS t (event);
    END IF;
    RETURN submitted;
END $$;

-- Appends events to the log, unless they were processed before, and marks `p_done` as processed. Returns false, and
-- changes nothing, if the partition has another owner.
CREATE OR REPLACE FUNCTION feedline_append_to_outlet(
    p_partition text, p_generation bigint, p_entries json, p_done bigint[], p_consumer_bit int, p_now bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    end_last bigint;
    appended bigint;
BEGIN
    PERFORM FROM work_partitions WHERE name = p_partition AND generation = p_generation FOR SHARE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    SELECT last INTO end_last FROM outlet_end FOR UPDATE;
    INSERT INTO outlet (position, at, published_at, kind, owner, body)
    SELECT end_last + row_number() OVER (ORDER BY t.place), (t.entry ->> 'at')::bigint, p_now, t.entry ->> 'kind',
        t.entry ->> 'owner', t.entry ->> 'body'
    FROM json_array_elements(p_entries) WITH ORDINALITY AS t (entry, place)
    JOIN events e ON e.seq = (t.entry ->> 'event')::bigint AND e.pending & p_consumer_bit <> 0;
    GET DIAGNOSTICS appended = ROW_COUNT;
    UPDATE outlet_end SET last = end_last + appended;
    PERFORM feedline_finish_events(p_done, p_consumer_bit);
    RETURN true;
END $$;

-- Settles a batch, unless the partition has another owner: holds entries (`p_held`), puts those that were given up into
-- the quarantine (`p_given_up`), removes held entries that were delivered or given up, makes the next entries of their
-- owners due, and moves the cursor forward.
CREATE OR REPLACE FUNCTION feedline_settle_outlet_batch(
    p_partition text, p_generation bigint, p_consumer text, p_cursor bigint, p_held json, p_given_up json,
    p_released bigint[], p_now bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    released_owners text[];
    first_positions bigint[];
BEGIN
    PERFORM FROM work_partitions WHERE name = p_partition AND generation = p_generation FOR SHARE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO outlet_held (consumer, position, at, kind, owner, body, held_at, attempts, due_at, reason)
    SELECT p_consumer, t.position, t.at, t.kind, t.owner, t.body, t.held_at, t.attempts, t.due_at, t.reason
    FROM json_populate_recordset(NULL::outlet_held, p_held) t ORDER BY t.position
    ON CONFLICT (consumer, position) DO UPDATE SET attempts = excluded.attempts, due_at = excluded.due_at,
        reason = excluded.reason;
    INSERT INTO quarantine (kind, name, content, reason, attempts, at)
    SELECT t.kind, t.name, t.content, t.reason, t.attempts, t.at
    FROM json_populate_recordset(NULL::quarantine, p_given_up) t
    ON CONFLICT (kind, name) DO UPDATE SET content = excluded.content, reason = excluded.reason,
        attempts = excluded.attempts, at = excluded.at, is_retried = false;
    WITH released AS (
        DELETE FROM outlet_held WHERE consumer = p_consumer AND position = ANY (p_released) RETURNING owner
    )
    SELECT array_agg(owner) INTO released_owners FROM released;
    -- In two steps: in one, the planner may look for the first entry of each owner once for each entry that waits.
    first_positions := ARRAY(
        SELECT (SELECT min(first.position) FROM outlet_held first
            WHERE first.consumer = p_consumer AND first.owner = touched.owner)
        FROM (SELECT unnest(released_owners)
            UNION SELECT t.owner FROM json_populate_recordset(NULL::outlet_held, p_held) t) AS touched (owner));
    UPDATE outlet_held SET due_at = p_now
    WHERE consumer = p_consumer AND due_at IS NULL AND position = ANY (first_positions);
    UPDATE outlet_consumers SET position = p_cursor WHERE name = p_consumer AND position < p_cursor;
    RETURN true;
END $$;
