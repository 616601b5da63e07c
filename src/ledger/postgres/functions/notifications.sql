-- revision: 1
-- Notifications, in groups.

-- Removes at most `p_max` people of a removed group. Returns whether none is left.
CREATE OR REPLACE FUNCTION feedline_remove_group_people(p_user text, p_group bigint, p_max bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    cleared bigint;
BEGIN
    DELETE FROM notification_people WHERE owner = p_user AND notification = p_group AND person IN (
        SELECT person FROM notification_people WHERE owner = p_user AND notification = p_group LIMIT p_max);
    GET DIAGNOSTICS cleared = ROW_COUNT;
    RETURN cleared < p_max;
END $$;

-- Adds notifications of a user, one for each element of the arrays, with the event it comes from (0: none). Returns the
-- ids of the groups that changed, least recent first. An event that was added before changes nothing, and its group
-- counts as changed, so that its owner is informed again.
CREATE OR REPLACE FUNCTION feedline_notify(
    p_user text, p_kinds text[], p_objects text[], p_people text[], p_repeats boolean[],
    p_events bigint[], p_now bigint, p_window bigint, p_kept bigint, p_cleared bigint
) RETURNS TABLE (changed bigint) LANGUAGE plpgsql AS $$
DECLARE
    marks notified%ROWTYPE;
    newest notifications%ROWTYPE;
    has_group boolean;
    is_recent boolean;
    is_open boolean;
    known_event bigint;
    grown bigint;
    touched bigint[] := '{}';
    remains notification_remains%ROWTYPE;
    has_grown boolean := false;
BEGIN
    INSERT INTO notified (owner) VALUES (p_user) ON CONFLICT DO NOTHING;
    SELECT * INTO marks FROM notified WHERE owner = p_user FOR NO KEY UPDATE;
    FOR n IN 1 .. coalesce(array_length(p_kinds, 1), 0) LOOP
        SELECT * INTO newest FROM notifications
        WHERE owner = p_user AND kind = p_kinds[n] AND object = p_objects[n] ORDER BY seq DESC LIMIT 1;
        has_group := FOUND;
        is_recent := has_group AND newest.created_at + p_window > p_now;
        is_open := is_recent AND newest.seq > marks.read_upto;
        known_event := NULL;
        IF has_group THEN
            SELECT event INTO known_event FROM notification_people
            WHERE owner = p_user AND notification = newest.id AND person = p_people[n];
        END IF;
        IF p_events[n] <> 0 AND known_event >= p_events[n] THEN
            touched := array_append(array_remove(touched, newest.id), newest.id);
            CONTINUE;
        END IF;
        IF known_event IS NOT NULL AND (is_open OR (is_recent AND NOT p_repeats[n])) THEN
            IF p_events[n] <> 0 THEN
                UPDATE notification_people SET event = p_events[n]
                WHERE owner = p_user AND notification = newest.id AND person = p_people[n];
            END IF;
            CONTINUE;
        END IF;
        marks.latest := marks.latest + 1;
        has_grown := true;
        IF is_open THEN
            grown := newest.id;
            UPDATE notifications
            SET people = people + 1, seq = marks.latest, position = marks.latest, updated_at = p_now
            WHERE owner = p_user AND id = grown;
        ELSE
            grown := nextval('notification_ids');
            marks.groups := marks.groups + 1;
            INSERT INTO notifications (owner, id, kind, object, seq, position, people, created_at, updated_at)
            VALUES (p_user, grown, p_kinds[n], p_objects[n], marks.latest, marks.latest, 1, p_now, p_now);
        END IF;
        INSERT INTO notification_people (owner, notification, person, seq, event)
        VALUES (p_user, grown, p_people[n], marks.latest, p_events[n]);
        touched := array_append(array_remove(touched, grown), grown);
    END LOOP;
    -- Some people of a group that was removed, of any user. Skips groups that another transaction works on.
    SELECT * INTO remains FROM notification_remains LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF FOUND AND feedline_remove_group_people(remains.owner, remains.notification, p_cleared) THEN
        DELETE FROM notification_remains WHERE owner = remains.owner AND notification = remains.notification;
    END IF;
    IF has_grown THEN
        WHILE marks.groups > p_kept LOOP
            DELETE FROM notifications WHERE owner = p_user AND seq = (
                SELECT seq FROM notifications WHERE owner = p_user ORDER BY seq LIMIT 1) RETURNING id INTO grown;
            IF NOT feedline_remove_group_people(p_user, grown, p_cleared) THEN
                INSERT INTO notification_remains (owner, notification) VALUES (p_user, grown);
            END IF;
            marks.groups := marks.groups - 1;
        END LOOP;
        UPDATE notified SET latest = marks.latest, groups = marks.groups WHERE owner = p_user;
    END IF;
    RETURN QUERY SELECT unnest(touched);
END $$;

-- Marks the groups of a user as seen, or as read: up to the position of a group, or without one (0) up to `p_position`.
-- Returns the position of the mark; NULL if it did not move.
CREATE OR REPLACE FUNCTION feedline_mark_notifications(
    p_user text, p_group bigint, p_position bigint, p_is_read boolean
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    marks notified%ROWTYPE;
    upto bigint;
BEGIN
    SELECT * INTO marks FROM notified WHERE owner = p_user FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    upto := least(p_position, marks.latest);
    IF p_group <> 0 THEN
        SELECT position INTO upto FROM notifications WHERE owner = p_user AND id = p_group;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
    END IF;
    IF upto <= marks.seen_upto AND (NOT p_is_read OR upto <= marks.read_upto) THEN
        RETURN NULL;
    END IF;
    UPDATE notified SET seen_upto = greatest(seen_upto, upto),
        read_upto = CASE WHEN p_is_read THEN greatest(read_upto, upto) ELSE read_upto END
    WHERE owner = p_user;
    RETURN upto;
END $$;
