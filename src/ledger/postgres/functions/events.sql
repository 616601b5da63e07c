-- revision: 1
-- The event outbox.

-- Leases the events of a consumer to a holder, unless another one has the lease. Returns whether it has it now.
CREATE OR REPLACE FUNCTION feedline_lease_events(p_consumer text, p_holder text, p_ttl_ms bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    new_until timestamptz := clock_timestamp() + p_ttl_ms * interval '1 millisecond';
BEGIN
    INSERT INTO event_leases AS lease (consumer, holder, until) VALUES (p_consumer, p_holder, new_until)
    ON CONFLICT (consumer) DO UPDATE SET holder = excluded.holder, until = excluded.until
    WHERE lease.holder = excluded.holder OR lease.until <= clock_timestamp();
    RETURN FOUND;
END $$;

-- A consumer has processed events: they are removed if no other waits for them.
CREATE OR REPLACE FUNCTION feedline_finish_events(p_done bigint[], p_consumer_bit int) RETURNS void LANGUAGE sql AS $$
    DELETE FROM events WHERE seq = ANY (p_done) AND pending & ~p_consumer_bit = 0 AND failure IS NULL;
    UPDATE events SET pending = pending & ~p_consumer_bit WHERE seq = ANY (p_done);
$$;

-- A consumer gives up on an event. Of failed events the newest `p_kept` are kept.
CREATE OR REPLACE FUNCTION feedline_fail_event(p_event bigint, p_consumer_bit int, p_reason text, p_kept bigint)
RETURNS void LANGUAGE sql AS $$
    UPDATE events SET pending = pending & ~p_consumer_bit, failure = p_reason WHERE seq = p_event;
    DELETE FROM events WHERE failure IS NOT NULL AND pending = 0 AND seq <= (
        SELECT seq FROM events WHERE failure IS NOT NULL ORDER BY seq DESC LIMIT 1 OFFSET p_kept);
$$;
