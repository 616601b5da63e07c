-- Writes that their callers named, and how they were answered. Times are Unix milliseconds.

CREATE TABLE idempotency (
    owner     text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    operation text NOT NULL,
    -- A digest of the input.
    input     bytea NOT NULL,
    -- The id of what the write creates, if it creates something.
    reserved  bigint NOT NULL,
    begun_at  bigint NOT NULL,
    -- Until when somebody is at it, as long as there is no answer.
    until     bigint NOT NULL,
    answer    bytea,
    PRIMARY KEY (owner, key)
) PARTITION BY HASH (owner);
CREATE INDEX idempotency_begun ON idempotency (begun_at);

DO $$
BEGIN
    FOR part IN 0..15 LOOP
        EXECUTE format('CREATE TABLE idempotency_%s PARTITION OF idempotency FOR VALUES WITH (MODULUS 16, REMAINDER %s)',
                       part, part);
    END LOOP;
END $$;

-- Asks to do a write: `fresh`, `reused`, `answered` (and how), `running` or `again` (with the id reserved then). Of several
-- that ask at once one makes the row; the others wait for it, and then for each other.
CREATE FUNCTION feedline_begin(
    whose text, name text, what text, digest bytea, new_id bigint, now_at bigint, new_until bigint, since bigint,
    OUT outcome text, OUT old_id bigint, OUT old_answer bytea
) LANGUAGE plpgsql AS $$
DECLARE
    known idempotency%ROWTYPE;
BEGIN
    LOOP
        INSERT INTO idempotency (owner, key, operation, input, reserved, begun_at, until)
        VALUES (whose, name, what, digest, new_id, now_at, new_until) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            outcome := 'fresh';
            RETURN;
        END IF;
        SELECT * INTO known FROM idempotency WHERE owner = whose AND key = name FOR UPDATE;
        -- It may have been forgotten in between.
        EXIT WHEN FOUND;
    END LOOP;
    IF known.begun_at < since THEN
        UPDATE idempotency SET operation = what, input = digest, reserved = new_id, begun_at = now_at,
            until = new_until, answer = NULL
        WHERE owner = whose AND key = name;
        outcome := 'fresh';
    ELSIF known.operation <> what OR known.input <> digest THEN
        outcome := 'reused';
    ELSIF known.answer IS NOT NULL THEN
        outcome := 'answered';
        old_answer := known.answer;
    ELSIF known.until > now_at THEN
        outcome := 'running';
    ELSE
        UPDATE idempotency SET until = new_until WHERE owner = whose AND key = name;
        outcome := 'again';
        old_id := known.reserved;
    END IF;
END $$;
