-- revision: 1
-- The live nodes, and the record of the broker: see `ledger/nodes.rs`.

-- Changes the record of the broker, and registers a node of it. Returns the end of the node's lease; 0, and nothing
-- changes, if a node of another broker is alive or the record is not the expected one. Without a node, no node at all
-- may be alive, all rows are removed, and the result is 1.
CREATE OR REPLACE FUNCTION feedline_register_node(
    p_node text, p_description text, p_broker text, p_expected text, p_record text, p_liveness bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    clock bigint;
BEGIN
    -- One registration at a time: of two starts at once with different brokers, the second sees the first.
    PERFORM FROM meta WHERE name = 'ledger_id' FOR UPDATE;
    clock := feedline_clock();
    -- A lease that ends later is from before the clock was set back.
    IF EXISTS (
        SELECT FROM nodes
        WHERE (p_node IS NULL OR broker <> p_broker) AND lease_until > clock AND lease_until <= clock + p_liveness
    ) OR (SELECT value FROM meta WHERE name = 'broker') IS DISTINCT FROM p_expected THEN
        RETURN 0;
    END IF;
    DELETE FROM nodes WHERE p_node IS NULL OR broker <> p_broker OR lease_until <= clock - 3600000;
    INSERT INTO meta (name, value) VALUES ('broker', p_record)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value;
    IF p_node IS NULL THEN
        RETURN 1;
    END IF;
    INSERT INTO nodes (id, broker, description, lease_until)
    VALUES (p_node, p_broker, p_description, clock + p_liveness)
    ON CONFLICT (id) DO UPDATE
    SET broker = excluded.broker, description = excluded.description, lease_until = excluded.lease_until;
    RETURN clock + p_liveness;
END $$;

-- Renews a node. Returns the end of its lease; 0 if it is not registered.
CREATE OR REPLACE FUNCTION feedline_renew_node(p_node text, p_description text, p_liveness bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    until bigint;
BEGIN
    -- The order of commits of these leases need not survive a crash: they expire.
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE nodes SET lease_until = feedline_clock() + p_liveness, description = p_description WHERE id = p_node
    RETURNING lease_until INTO until;
    RETURN coalesce(until, 0);
END $$;
