-- revision: 1
-- Devices that receive pushes.

-- Registers a device, or updates it, and removes the device that had its address before. Keeps the `p_max` devices that
-- were registered last. Returns the time of the first registration; NULL if the session of the device has ended.
CREATE OR REPLACE FUNCTION feedline_register_device(
    p_user text, p_id text, p_address text, p_target text, p_locale text, p_time_zone text, p_app_version text,
    p_now bigint, p_session text, p_generation bigint, p_issued_at bigint, p_max bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    first_registered bigint;
BEGIN
    -- Revocations wait for this transaction, so that they find the device, or this transaction finds them.
    PERFORM FROM revocations_end FOR SHARE;
    PERFORM FROM revocations r WHERE r.expires_at > p_now AND (
        (r.kind = 'token' AND r.subject = p_session)
        OR (r.kind = 'user_tokens' AND r.subject = p_user AND p_issued_at < r.value)
        OR (r.kind = 'sessions' AND r.subject = p_user AND p_generation < r.value
            AND r.spared IS DISTINCT FROM p_session));
    IF FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM FROM users WHERE id = p_user FOR NO KEY UPDATE;
    -- Locked in the order of keys: two users may take an address from each other.
    PERFORM FROM devices WHERE address = p_address OR (owner = p_user AND id = p_id) ORDER BY owner, id FOR UPDATE;
    DELETE FROM devices WHERE address = p_address AND (owner, id) <> (p_user, p_id);
    LOOP
        BEGIN
            INSERT INTO devices AS d (owner, id, address, target, locale, time_zone, app_version, registered_at,
                seen_at, used_at, session, generation, issued_at)
            VALUES (p_user, p_id, p_address, p_target, p_locale, p_time_zone, p_app_version, p_now,
                p_now, p_now, p_session, p_generation, p_issued_at)
            ON CONFLICT (owner, id) DO UPDATE SET address = excluded.address, target = excluded.target,
                locale = excluded.locale, time_zone = excluded.time_zone, app_version = excluded.app_version,
                seen_at = greatest(d.seen_at, excluded.seen_at), used_at = greatest(d.used_at, excluded.used_at),
                session = excluded.session, generation = excluded.generation, issued_at = excluded.issued_at
            RETURNING registered_at INTO first_registered;
            EXIT;
        EXCEPTION WHEN unique_violation THEN
            -- Another user registered the address meanwhile.
            DELETE FROM devices WHERE address = p_address AND (owner, id) <> (p_user, p_id);
        END;
    END LOOP;
    DELETE FROM devices WHERE owner = p_user AND id IN (
        SELECT id FROM devices WHERE owner = p_user AND id <> p_id
        ORDER BY seen_at DESC, id DESC OFFSET greatest(p_max - 1, 0));
    RETURN first_registered;
END $$;
