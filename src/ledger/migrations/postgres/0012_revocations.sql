-- Tokens and sessions that ended before their time, and blocked users. Times are Unix milliseconds.

-- Counts how often all sessions of an account were ended. A session carries the number it was opened with.
ALTER TABLE accounts ADD COLUMN generation bigint NOT NULL DEFAULT 0;

-- A log with one row for each (kind, subject): a later entry replaces the row and takes a new number. Every node follows
-- it by number. Not partitioned: it is read by number, and expired entries are dropped.
CREATE TABLE revocations (
    seq        bigint PRIMARY KEY,
    kind       text COLLATE "C" NOT NULL,
    -- The id of a token, or of a user.
    subject    text COLLATE "C" NOT NULL,
    -- Of a token: the user it belongs to, if known.
    owner      text COLLATE "C",
    -- What it means depends on the kind: see RevocationKind.
    value      bigint NOT NULL,
    -- The id of the one session that goes on.
    spared     text COLLATE "C",
    at         bigint NOT NULL,
    -- When the entry has no effect any more and may be dropped.
    expires_at bigint NOT NULL
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX revocations_subject ON revocations (kind, subject);
CREATE INDEX revocations_expiry ON revocations (expires_at);

-- The last number given out, in one row. The transaction that takes the next one holds the row until its commit, so
-- numbers become visible in their order. The row stays when entries are dropped.
CREATE TABLE revocations_end (
    alone boolean PRIMARY KEY DEFAULT true CHECK (alone),
    seq   bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO revocations_end (seq) VALUES (0);

-- Puts an entry at the end in place of the one of the same kind and subject; its number. `keeps` leaves the greater value
-- and the later expiry of the two in force.
CREATE FUNCTION feedline_revoke(
    of_kind text, of_subject text, of_owner text, new_value bigint, new_spared text, now_at bigint, new_expiry bigint,
    keeps boolean
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    taken bigint;
BEGIN
    UPDATE revocations_end SET seq = seq + 1 RETURNING seq INTO taken;
    INSERT INTO revocations (seq, kind, subject, owner, value, spared, at, expires_at)
    VALUES (taken, of_kind, of_subject, of_owner, new_value, new_spared, now_at, new_expiry)
    ON CONFLICT (kind, subject) DO UPDATE SET
        seq = excluded.seq,
        owner = coalesce(excluded.owner, revocations.owner),
        value = CASE WHEN keeps THEN greatest(revocations.value, excluded.value) ELSE excluded.value END,
        spared = excluded.spared,
        at = excluded.at,
        expires_at = CASE WHEN keeps THEN greatest(revocations.expires_at, excluded.expires_at)
                     ELSE excluded.expires_at END;
    RETURN taken;
END $$;

-- Ends all sessions of an account but one; where a new password is given, only if the old one is still in force. The new
-- generation, or NULL: no such account, or another password.
CREATE FUNCTION feedline_end_sessions(
    whose text, old_password text, new_password text, new_spared text, now_at bigint, new_expiry bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    taken bigint;
BEGIN
    UPDATE accounts SET password = coalesce(new_password, password), generation = generation + 1
    WHERE "user" = whose AND (old_password IS NULL OR password = old_password) RETURNING generation INTO taken;
    IF taken IS NOT NULL THEN
        PERFORM feedline_revoke('sessions', whose, NULL, taken, new_spared, now_at, new_expiry, true);
    END IF;
    RETURN taken;
END $$;

-- Makes sure that a user exists; whether there is an account with that id. Of a sign-up and a first visit at the same time
-- one comes first: each statement of a function sees what was committed before it, so the other sees who won.
CREATE FUNCTION feedline_ensure_user(whose text, now_at bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM users WHERE id = whose) THEN
        INSERT INTO users (id, name, created_at) VALUES (whose, whose, now_at) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            INSERT INTO user_terms (term, owner) VALUES (lower(whose), whose);
        END IF;
    END IF;
    RETURN EXISTS (SELECT FROM accounts WHERE "user" = whose);
END $$;
