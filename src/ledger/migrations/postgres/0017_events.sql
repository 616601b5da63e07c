-- What happened, for those who work it off later. An event is written in the transaction of what happened, and goes once every
-- consumer has dealt with it. Times are Unix milliseconds. Not partitioned: what is there waits.
CREATE TABLE events (
    -- Never given twice: notifications remember up to which event they are.
    seq     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      bigint NOT NULL,
    -- JSON.
    event   text NOT NULL,
    -- A bit for each consumer that has not dealt with it yet.
    pending int NOT NULL,
    -- Why a consumer gave up on it.
    failure text
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX events_pending ON events (seq) WHERE pending <> 0;
CREATE INDEX events_failed ON events (seq) WHERE failure IS NOT NULL;

-- The one process that works for a consumer, and until when, by this server's clock.
CREATE TABLE event_leases (
    consumer text COLLATE "C" PRIMARY KEY,
    holder   text NOT NULL,
    until    timestamptz NOT NULL
);

-- Makes `new_holder` the worker of a consumer, unless another is. Whether it is now.
CREATE FUNCTION feedline_lease_events(of_consumer text, new_holder text, ttl_ms bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    new_until timestamptz := clock_timestamp() + ttl_ms * interval '1 millisecond';
BEGIN
    INSERT INTO event_leases AS lease (consumer, holder, until) VALUES (of_consumer, new_holder, new_until)
    ON CONFLICT (consumer) DO UPDATE SET holder = excluded.holder, until = excluded.until
    WHERE lease.holder = excluded.holder OR lease.until <= clock_timestamp();
    RETURN FOUND;
END $$;

-- A consumer has dealt with events: they go once no other waits for them.
CREATE FUNCTION feedline_finish_events(done bigint[], consumer_bit int) RETURNS void LANGUAGE sql AS $$
    DELETE FROM events WHERE seq = ANY (done) AND pending & ~consumer_bit = 0 AND failure IS NULL;
    UPDATE events SET pending = pending & ~consumer_bit WHERE seq = ANY (done);
$$;

-- A consumer gives up on an event; of those the newest `kept` stay.
CREATE FUNCTION feedline_fail_event(which bigint, consumer_bit int, reason text, kept bigint) RETURNS void
LANGUAGE sql AS $$
    UPDATE events SET pending = pending & ~consumer_bit, failure = reason WHERE seq = which;
    DELETE FROM events WHERE failure IS NOT NULL AND pending = 0 AND seq <= (
        SELECT seq FROM events WHERE failure IS NOT NULL ORDER BY seq DESC LIMIT 1 OFFSET kept);
$$;

-- The last event of this person in the group; 0 of what came otherwise.
ALTER TABLE notification_people ADD COLUMN event bigint NOT NULL DEFAULT 0;

-- As `feedline_notify`, of which it takes the place, with the event that each happening comes from (0: none). An event that was
-- noted before changes nothing, and its group counts as changed, so that its owner is told again.
CREATE FUNCTION feedline_notify_of_events(
    whose text, ids bigint[], kinds text[], objects text[], people_new text[], again boolean[], events_new bigint[],
    now_at bigint, recent_for bigint, kept bigint, cleared bigint
) RETURNS TABLE (changed bigint) LANGUAGE plpgsql AS $$
DECLARE
    marks notified%ROWTYPE;
    newest notifications%ROWTYPE;
    is_there boolean;
    is_recent boolean;
    is_open boolean;
    noted bigint;
    grown bigint;
    touched bigint[] := '{}';
    remains notification_remains%ROWTYPE;
    has_grown boolean := false;
BEGIN
    INSERT INTO notified (owner) VALUES (whose) ON CONFLICT DO NOTHING;
    SELECT * INTO marks FROM notified WHERE owner = whose FOR NO KEY UPDATE;
    FOR n IN 1 .. coalesce(array_length(ids, 1), 0) LOOP
        SELECT * INTO newest FROM notifications
        WHERE owner = whose AND kind = kinds[n] AND object = objects[n] ORDER BY seq DESC LIMIT 1;
        is_there := FOUND;
        is_recent := is_there AND newest.created_at + recent_for > now_at;
        is_open := is_recent AND newest.seq > marks.read_upto;
        noted := NULL;
        IF is_there THEN
            SELECT event INTO noted FROM notification_people
            WHERE owner = whose AND notification = newest.id AND person = people_new[n];
        END IF;
        IF events_new[n] <> 0 AND noted >= events_new[n] THEN
            touched := array_append(array_remove(touched, newest.id), newest.id);
            CONTINUE;
        END IF;
        IF noted IS NOT NULL AND (is_open OR (is_recent AND NOT again[n])) THEN
            IF events_new[n] <> 0 THEN
                UPDATE notification_people SET event = events_new[n]
                WHERE owner = whose AND notification = newest.id AND person = people_new[n];
            END IF;
            CONTINUE;
        END IF;
        marks.latest := marks.latest + 1;
        has_grown := true;
        IF is_open THEN
            grown := newest.id;
            UPDATE notifications SET people = people + 1, seq = marks.latest, updated_at = now_at
            WHERE owner = whose AND id = grown;
        ELSE
            grown := ids[n];
            marks.groups := marks.groups + 1;
            INSERT INTO notifications (owner, id, kind, object, seq, people, created_at, updated_at)
            VALUES (whose, grown, kinds[n], objects[n], marks.latest, 1, now_at, now_at);
        END IF;
        INSERT INTO notification_people (owner, notification, person, seq, event)
        VALUES (whose, grown, people_new[n], marks.latest, events_new[n]);
        touched := array_append(array_remove(touched, grown), grown);
    END LOOP;
    -- A part of what was left behind, by whomever; nobody waits for others who do the same.
    SELECT * INTO remains FROM notification_remains LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF FOUND AND feedline_clear_people(remains.owner, remains.notification, cleared) THEN
        DELETE FROM notification_remains WHERE owner = remains.owner AND notification = remains.notification;
    END IF;
    IF has_grown THEN
        WHILE marks.groups > kept LOOP
            DELETE FROM notifications WHERE owner = whose AND seq = (
                SELECT seq FROM notifications WHERE owner = whose ORDER BY seq LIMIT 1) RETURNING id INTO grown;
            IF NOT feedline_clear_people(whose, grown, cleared) THEN
                INSERT INTO notification_remains (owner, notification) VALUES (whose, grown);
            END IF;
            marks.groups := marks.groups - 1;
        END LOOP;
        UPDATE notified SET latest = marks.latest, groups = marks.groups WHERE owner = whose;
    END IF;
    RETURN QUERY SELECT unnest(touched);
END $$;
