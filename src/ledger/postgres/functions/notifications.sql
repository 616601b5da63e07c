-- revision: 2
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

-- Removes what a removed group of the application said, unless another group of the owner has the same object.
CREATE OR REPLACE FUNCTION feedline_remove_app_content(p_user text, p_kind text, p_object text) RETURNS void
LANGUAGE sql AS $$
    DELETE FROM app_notifications WHERE p_kind = 'app' AND owner = p_user AND object = p_object AND NOT EXISTS (
        SELECT FROM notifications WHERE owner = p_user AND kind = p_kind AND object = p_object)
$$;

-- The comments of a person in a group: a new one (0: none) and the newest of the former ones, `p_kept` at most.
CREATE OR REPLACE FUNCTION feedline_newest_comments(p_new bigint, p_former bigint[], p_kept int) RETURNS bigint[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN cardinality(c) > 0 THEN c[:p_kept] END
    FROM (SELECT CASE WHEN p_new = 0 THEN '{}'::bigint[] ELSE ARRAY[p_new] END || coalesce(p_former, '{}')) AS t (c)
$$;

-- Adds notifications of a user, one for each element of the arrays, with the event it comes from (0: none), and the
-- comment that caused it (0: none), of which a group keeps `p_kept_comments` of each person. Returns the ids of the
-- groups that changed, least recent first. An event that was added before changes nothing, and its group counts as
-- changed, so that its owner is informed again.
CREATE OR REPLACE FUNCTION feedline_notify(
    p_user text, p_kinds text[], p_objects text[], p_people text[], p_repeats boolean[],
    p_events bigint[], p_comments bigint[], p_now bigint, p_window bigint, p_kept bigint, p_cleared bigint,
    p_kept_comments int
) RETURNS TABLE (changed bigint) LANGUAGE plpgsql AS $$
DECLARE
    marks notified%ROWTYPE;
    newest notifications%ROWTYPE;
    has_group boolean;
    is_recent boolean;
    is_open boolean;
    known notification_people%ROWTYPE;
    is_known boolean;
    grown bigint;
    touched bigint[] := '{}';
    remains notification_remains%ROWTYPE;
    has_grown boolean := false;
BEGIN
    INSERT INTO notified (owner) VALUES (p_user) ON CONFLICT DO NOTHING;
    SELECT * INTO marks FROM notified WHERE owner = p_user FOR NO KEY UPDATE;
    FOR n IN 1 .. coalesce(array_length(p_kinds, 1), 0) LOOP
        SELECT * INTO newest FROM notifications
        WHERE owner = p_user AND kind = p_kinds[n] AND object = p_objects[n] ORDER BY id DESC LIMIT 1;
        has_group := FOUND;
        is_recent := has_group AND newest.created_at + p_window > p_now;
        -- The notifications of a key of the application stay one group.
        is_open := has_group AND (p_kinds[n] = 'app' OR is_recent AND newest.seq > marks.read_upto);
        is_known := false;
        IF has_group THEN
            SELECT * INTO known FROM notification_people
            WHERE owner = p_user AND notification = newest.id AND person = p_people[n];
            is_known := FOUND;
        END IF;
        IF is_known AND p_events[n] <> 0 AND known.event >= p_events[n] THEN
            touched := array_append(array_remove(touched, newest.id), newest.id);
            CONTINUE;
        END IF;
        -- An open group moves to the front, unless it is there already.
        IF is_open AND EXISTS (SELECT FROM notifications WHERE owner = p_user AND place > newest.place) THEN
            newest.place := marks.latest + 1;
        END IF;
        IF is_known AND p_repeats[n] AND is_open THEN
            -- The group is renewed.
            marks.latest := marks.latest + 1;
            has_grown := true;
            UPDATE notification_people SET seq = marks.latest, event = greatest(event, p_events[n]), ended = false,
                comments = feedline_newest_comments(p_comments[n], comments, p_kept_comments)
            WHERE owner = p_user AND notification = newest.id AND person = p_people[n];
            UPDATE notifications SET people = people + known.ended::int, seq = marks.latest, place = newest.place,
                position = marks.latest, updated_at = p_now
            WHERE owner = p_user AND id = newest.id;
            touched := array_append(array_remove(touched, newest.id), newest.id);
            CONTINUE;
        ELSIF is_known AND NOT p_repeats[n] AND (is_recent OR p_kinds[n] = 'mention') THEN
            UPDATE notification_people SET event = greatest(event, p_events[n]), ended = false
            WHERE owner = p_user AND notification = newest.id AND person = p_people[n];
            -- A person who had left the group returns, which does not move it.
            IF known.ended THEN
                marks.latest := marks.latest + 1;
                has_grown := true;
                UPDATE notifications SET people = people + 1, position = marks.latest
                WHERE owner = p_user AND id = newest.id;
                touched := array_append(array_remove(touched, newest.id), newest.id);
            END IF;
            CONTINUE;
        END IF;
        marks.latest := marks.latest + 1;
        has_grown := true;
        IF is_open THEN
            grown := newest.id;
            UPDATE notifications
            SET people = people + 1, seq = marks.latest, place = newest.place, position = marks.latest,
                updated_at = p_now
            WHERE owner = p_user AND id = grown;
        ELSE
            grown := nextval('notification_ids');
            marks.groups := marks.groups + 1;
            INSERT INTO notifications (owner, id, kind, object, seq, place, position, people, created_at, updated_at)
            VALUES (p_user, grown, p_kinds[n], p_objects[n], marks.latest, marks.latest, marks.latest, 1, p_now, p_now);
        END IF;
        INSERT INTO notification_people (owner, notification, person, seq, event, comments)
        VALUES (p_user, grown, p_people[n], marks.latest, p_events[n],
            feedline_newest_comments(p_comments[n], NULL, p_kept_comments));
        touched := array_append(array_remove(touched, grown), grown);
    END LOOP;
    -- Some people of a group that was removed, of any user. Skips groups that another transaction works on.
    SELECT * INTO remains FROM notification_remains LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF FOUND AND feedline_remove_group_people(remains.owner, remains.notification, p_cleared) THEN
        DELETE FROM notification_remains WHERE owner = remains.owner AND notification = remains.notification;
    END IF;
    IF has_grown THEN
        WHILE marks.groups > p_kept LOOP
            DELETE FROM notifications WHERE owner = p_user AND place = (
                SELECT place FROM notifications WHERE owner = p_user ORDER BY place LIMIT 1) RETURNING * INTO newest;
            grown := newest.id;
            PERFORM feedline_remove_app_content(p_user, newest.kind, newest.object);
            IF NOT feedline_remove_group_people(p_user, grown, p_cleared) THEN
                INSERT INTO notification_remains (owner, notification) VALUES (p_user, grown);
            END IF;
            marks.groups := marks.groups - 1;
        END LOOP;
        UPDATE notified SET latest = marks.latest, groups = marks.groups WHERE owner = p_user;
    END IF;
    RETURN QUERY SELECT unnest(touched);
END $$;

-- Removes at most `p_max` groups without an event since `p_before`, the oldest first, and up to `p_cleared` people of
-- each. Returns them; those that were not listed have no people.
CREATE OR REPLACE FUNCTION feedline_remove_old_notifications(p_before bigint, p_max bigint, p_cleared bigint)
RETURNS TABLE (notified_user text, removed bigint, people bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    old record;
    gone notifications%ROWTYPE;
BEGIN
    -- In the order of owners, whose rows are locked.
    FOR old IN
        SELECT c.owner, c.id FROM (
            SELECT owner, id FROM notifications WHERE created_at < p_before AND updated_at < p_before
            ORDER BY created_at LIMIT p_max
        ) c ORDER BY c.owner, c.id
    LOOP
        PERFORM FROM notified WHERE owner = old.owner FOR NO KEY UPDATE;
        DELETE FROM notifications AS n WHERE n.owner = old.owner AND n.id = old.id AND n.updated_at < p_before
        RETURNING n.* INTO gone;
        CONTINUE WHEN NOT FOUND;
        notified_user := gone.owner;
        removed := gone.id;
        people := gone.people;
        PERFORM feedline_remove_app_content(gone.owner, gone.kind, gone.object);
        UPDATE notified SET groups = groups - 1 WHERE owner = old.owner;
        IF NOT feedline_remove_group_people(old.owner, old.id, p_cleared) THEN
            INSERT INTO notification_remains (owner, notification) VALUES (old.owner, old.id) ON CONFLICT DO NOTHING;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- Takes people out of groups of these owners, kinds and objects: each with a comment that is gone (0: all of theirs).
-- NULL: nobody leaves. Returns the groups that the person is or was in, or all of that kind.
CREATE OR REPLACE FUNCTION feedline_end_notifications(
    p_owners text[], p_kinds text[], p_objects text[], p_people text[], p_comments bigint[]
) RETURNS TABLE (notified_user text, changed bigint) LANGUAGE plpgsql AS $$
DECLARE
    cause record;
    member notification_people%ROWTYPE;
    others bigint[];
    next_position bigint;
BEGIN
    -- In the order of owners, whose rows are locked.
    FOR cause IN
        SELECT c.owner, c.person, c.comment, n.id
        FROM unnest(p_owners, p_kinds, p_objects, p_people, p_comments) AS c (owner, kind, object, person, comment)
        CROSS JOIN LATERAL (
            SELECT id FROM notifications WHERE owner = c.owner AND kind = c.kind AND object = c.object OFFSET 0
        ) n
        ORDER BY c.owner, n.id, c.person
    LOOP
        IF cause.person IS NOT NULL THEN
            PERFORM FROM notified WHERE owner = cause.owner FOR NO KEY UPDATE;
            SELECT * INTO member FROM notification_people
            WHERE owner = cause.owner AND notification = cause.id AND person = cause.person;
            CONTINUE WHEN NOT FOUND;
            IF NOT member.ended THEN
                others := CASE WHEN cause.comment <> 0 THEN array_remove(member.comments, cause.comment) END;
                UPDATE notification_people SET comments = others, ended = coalesce(cardinality(others), 0) = 0
                WHERE owner = cause.owner AND notification = cause.id AND person = cause.person;
                UPDATE notified SET latest = latest + 1 WHERE owner = cause.owner RETURNING latest INTO next_position;
                UPDATE notifications
                SET people = people - (coalesce(cardinality(others), 0) = 0)::int, position = next_position
                WHERE owner = cause.owner AND id = cause.id;
            END IF;
        END IF;
        notified_user := cause.owner;
        changed := cause.id;
        RETURN NEXT;
    END LOOP;
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
