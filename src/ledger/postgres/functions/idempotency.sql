-- revision: 1
-- Writes with an idempotency key.

-- Begins a write. `outcome`: `fresh`, `reused` (the key is another write's), `answered` (with the answer), `running`,
-- or `again` (with the id reserved then). Of several calls at once one creates the row; the others wait for it, and
-- then for each other.
CREATE OR REPLACE FUNCTION feedline_begin_write(
    p_user text, p_key text, p_operation text, p_input bytea, p_reserved bigint, p_now bigint, p_until bigint,
    p_since bigint, OUT outcome text, OUT old_id bigint, OUT old_answer bytea
) LANGUAGE plpgsql AS $$
DECLARE
    known idempotency%ROWTYPE;
BEGIN
    LOOP
        INSERT INTO idempotency (owner, key, operation, input, reserved, begun_at, until)
        VALUES (p_user, p_key, p_operation, p_input, p_reserved, p_now, p_until) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            outcome := 'fresh';
            RETURN;
        END IF;
        SELECT * INTO known FROM idempotency WHERE owner = p_user AND key = p_key FOR UPDATE;
        -- Old keys may have been dropped in between.
        EXIT WHEN FOUND;
    END LOOP;
    IF known.begun_at < p_since THEN
        UPDATE idempotency SET operation = p_operation, input = p_input, reserved = p_reserved, begun_at = p_now,
            until = p_until, answer = NULL
        WHERE owner = p_user AND key = p_key;
        outcome := 'fresh';
    ELSIF known.operation <> p_operation OR known.input <> p_input THEN
        outcome := 'reused';
    ELSIF known.answer IS NOT NULL THEN
        outcome := 'answered';
        old_answer := known.answer;
    ELSIF known.until > p_now THEN
        outcome := 'running';
    ELSE
        UPDATE idempotency SET until = p_until WHERE owner = p_user AND key = p_key;
        outcome := 'again';
        old_id := known.reserved;
    END IF;
END $$;
