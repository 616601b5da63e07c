-- revision: 2
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
    DELETE FROM events WHERE seq = ANY (p_done) AND pending & ~p_consumer_bit = 0;
    UPDATE events SET pending = pending & ~p_consumer_bit WHERE seq = ANY (p_done);
$$;
