-- revision: 1
-- The log of revocations.

-- Appends an entry, replacing the one of the same kind and subject, and removes the devices of the sessions that it
-- ends. Returns its number. If `p_keeps`, the greater value and the later expiry of the two stay in force.
CREATE OR REPLACE FUNCTION feedline_revoke(
    p_kind text, p_subject text, p_owner text, p_value bigint, p_spared text, p_now bigint, p_expires_at bigint,
    p_keeps boolean
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    new_seq bigint;
BEGIN
    UPDATE revocations_end SET seq = seq + 1 RETURNING seq INTO new_seq;
    INSERT INTO revocations (seq, kind, subject, owner, value, spared, at, expires_at)
    VALUES (new_seq, p_kind, p_subject, p_owner, p_value, p_spared, p_now, p_expires_at)
    ON CONFLICT (kind, subject) DO UPDATE SET
        seq = excluded.seq,
        owner = coalesce(excluded.owner, revocations.owner),
        value = CASE WHEN p_keeps THEN greatest(revocations.value, excluded.value) ELSE excluded.value END,
        spared = excluded.spared,
        at = excluded.at,
        expires_at = CASE WHEN p_keeps THEN greatest(revocations.expires_at, excluded.expires_at)
                     ELSE excluded.expires_at END;
    IF p_kind = 'token' THEN
        DELETE FROM devices WHERE session = p_subject;
    ELSIF p_kind = 'user_tokens' THEN
        DELETE FROM devices WHERE owner = p_subject AND issued_at < p_value;
    ELSIF p_kind = 'sessions' THEN
        DELETE FROM devices WHERE owner = p_subject AND (generation IS NULL OR generation < p_value)
            AND (p_spared IS NULL OR session IS DISTINCT FROM p_spared);
    ELSIF p_kind = 'erased' THEN
        DELETE FROM devices WHERE owner = p_subject;
    END IF;
    RETURN new_seq;
END $$;

-- Ends all sessions of an account but `p_spared`. With a new password, only if the old one is still in force. Returns
-- the new generation; NULL: no such account, or another password.
CREATE OR REPLACE FUNCTION feedline_end_sessions(
    p_user text, p_old_password text, p_new_password text, p_spared text, p_now bigint, p_expires_at bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    new_generation bigint;
BEGIN
    UPDATE accounts SET password = coalesce(p_new_password, password), generation = generation + 1
    WHERE "user" = p_user AND (p_old_password IS NULL OR password = p_old_password)
    RETURNING generation INTO new_generation;
    IF new_generation IS NOT NULL THEN
        PERFORM feedline_revoke('sessions', p_user, NULL, new_generation, p_spared, p_now, p_expires_at, true);
    END IF;
    RETURN new_generation;
END $$;
