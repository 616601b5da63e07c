-- revision: 1
-- Owners of durable work: see `ledger/work.rs`.

-- The clock of leases, in Unix milliseconds.
CREATE OR REPLACE FUNCTION feedline_clock() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;

-- Whether a process has a valid lease. A lease that ends later than the longest one possible is from before the clock
-- was set back.
CREATE OR REPLACE FUNCTION feedline_has_work_lease(p_holder text, p_clock bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM work_nodes WHERE holder = p_holder AND lease_until > p_clock AND lease_until <= p_clock + 660000)
$$;

-- Begins or renews the lease of a process. A process whose lease had expired owns nothing from now on. Returns a
-- `WorkView` as JSON.
CREATE OR REPLACE FUNCTION feedline_renew_work_lease(p_holder text, p_lease bigint, p_kinds text[]) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    clock bigint := feedline_clock();
    view json;
BEGIN
    -- The order of commits of these leases need not survive a crash: they expire.
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE work_nodes SET lease_until = clock + p_lease, kinds = p_kinds
    WHERE holder = p_holder AND lease_until > clock AND lease_until <= clock + 660000;
    IF NOT FOUND THEN
        UPDATE work_partitions SET holder = NULL WHERE holder = p_holder;
        DELETE FROM work_nodes WHERE lease_until <= clock - 3600000;
        INSERT INTO work_nodes (holder, lease_until, kinds) VALUES (p_holder, clock + p_lease, p_kinds)
        ON CONFLICT (holder) DO UPDATE SET lease_until = excluded.lease_until, kinds = excluded.kinds;
    END IF;
    SELECT json_build_object(
        'nodes', coalesce((
            SELECT json_agg(n.kinds) FROM work_nodes n
            WHERE n.lease_until > clock AND n.lease_until <= clock + 660000
        ), '[]'),
        'partitions', coalesce((
            SELECT json_agg(json_build_object('name', p.name, 'owner', n.holder, 'generation', p.generation))
            FROM work_partitions p LEFT JOIN work_nodes n
                ON n.holder = p.holder AND n.lease_until > clock AND n.lease_until <= clock + 660000
        ), '[]')
    ) INTO view;
    RETURN view::text;
END $$;

-- Takes partitions that nobody owns, if their last generations are these. Returns the new ones. The rows are locked in
-- the order of their names, so that two processes do not deadlock.
CREATE OR REPLACE FUNCTION feedline_take_partitions(p_holder text, p_names text[], p_generations bigint[])
RETURNS TABLE (name text, generation bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    clock bigint;
BEGIN
    IF NOT feedline_has_work_lease(p_holder, feedline_clock()) THEN
        RETURN;
    END IF;
    INSERT INTO work_partitions (name)
    SELECT wanted FROM unnest(p_names) AS wanted
    WHERE NOT EXISTS (SELECT FROM work_partitions known WHERE known.name = wanted)
    ORDER BY wanted ON CONFLICT DO NOTHING;
    PERFORM FROM work_partitions WHERE name = ANY (p_names) ORDER BY name FOR UPDATE;
    -- The lease may have run out while this waited for the rows.
    clock := feedline_clock();
    RETURN QUERY
    UPDATE work_partitions p SET holder = p_holder, generation = p.generation + 1
    FROM unnest(p_names, p_generations) AS wanted (name, generation)
    WHERE p.name = wanted.name AND p.generation = wanted.generation AND feedline_has_work_lease(p_holder, clock)
        AND NOT coalesce(feedline_has_work_lease(p.holder, clock), false)
    RETURNING p.name, p.generation;
END $$;

-- Ends the lease of a process.
CREATE OR REPLACE FUNCTION feedline_end_work_lease(p_holder text) RETURNS void LANGUAGE sql AS $$
    UPDATE work_partitions SET holder = NULL WHERE holder = p_holder;
    DELETE FROM work_nodes WHERE holder = p_holder
$$;
