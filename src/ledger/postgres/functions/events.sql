-- revision: 1
-- The event outbox.

-- A consumer has processed events: they are removed if no other waits for them. The update comes first: it waits for
-- other consumers that finish the same events, so the deletion sees their changes.
CREATE OR REPLACE FUNCTION feedline_finish_events(p_done bigint[], p_consumer_bit int) RETURNS void LANGUAGE sql AS $$
    UPDATE events SET pending = pending & ~p_consumer_bit
    WHERE seq = ANY (p_done) AND pending & ~p_consumer_bit <> 0;
    DELETE FROM events WHERE seq = ANY (p_done) AND pending & ~p_consumer_bit = 0;
$$;
