-- revision: 2
-- Restrictions between two users. The caller decides which inboxes they concern (those of `p_readers`, each with the
-- posts of the author at the same place of `p_authors`), and the job of each.

-- Creates a restriction and submits the jobs. If `p_ends_follows`, the follows and the requests of the readers to
-- the authors end.
-- `p_until`: when the restriction ends by itself (NULL: never); it replaces that of an existing one. `p_request_events`
-- are the events of ended requests, or NULL; `p_request_pending` their consumers. Returns the numbers of the jobs, two
-- each; NULL: the restriction existed.
CREATE OR REPLACE FUNCTION feedline_restrict(
    p_kind text, p_maker text, p_target text, p_readers text[], p_authors text[], p_ends_follows boolean, p_jobs text[],
    p_now bigint, p_until bigint, p_request_events text[], p_request_pending int[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    submitted bigint[] := '{}';
BEGIN
    PERFORM feedline_lock_users(p_maker, p_target);
    INSERT INTO restrictions (maker, kind, target, at, until) VALUES (p_maker, p_kind, p_target, p_now, p_until)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        UPDATE restrictions SET until = p_until WHERE maker = p_maker AND kind = p_kind AND target = p_target;
        RETURN NULL;
    END IF;
    INSERT INTO restricted_by (target, kind, maker) VALUES (p_target, p_kind, p_maker);
    FOR n IN 1 .. array_length(p_readers, 1) LOOP
        IF p_ends_follows THEN
            PERFORM feedline_remove_follow(p_readers[n], p_authors[n]);
            PERFORM feedline_end_request(
                p_readers[n], p_authors[n], p_now, p_request_events[n], p_request_pending[n]);
        END IF;
        submitted := submitted || feedline_submit_job(p_jobs[n], p_now);
    END LOOP;
    RETURN submitted;
END $$;

-- Removes a restriction, and submits the jobs of the readers who follow the author or any topic, or
-- have a list, which exclusive lists do not concern. `p_due`, if it is not
-- NULL: only if the restriction ends by itself, at this time at the latest. Returns the numbers of the jobs, two each,
-- 0 for the other readers; NULL: there was no restriction.
CREATE OR REPLACE FUNCTION feedline_unrestrict(
    p_kind text, p_maker text, p_target text, p_readers text[], p_authors text[], p_jobs text[], p_now bigint,
    p_due bigint
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    submitted bigint[] := '{}';
BEGIN
    PERFORM feedline_lock_users(p_maker, p_target);
    DELETE FROM restrictions
    WHERE maker = p_maker AND kind = p_kind AND target = p_target AND (p_due IS NULL OR until <= p_due);
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    DELETE FROM restricted_by WHERE target = p_target AND kind = p_kind AND maker = p_maker;
    FOR n IN 1 .. array_length(p_readers, 1) LOOP
        IF EXISTS (SELECT FROM follows WHERE follower = p_readers[n] AND followee = p_authors[n])
            OR EXISTS (SELECT FROM topic_follows WHERE follower = p_readers[n])
            OR (p_kind <> 'listed' AND EXISTS (SELECT FROM lists WHERE owner = p_readers[n]))
        THEN
            submitted := submitted || feedline_submit_job(p_jobs[n], p_now);
        ELSE
            submitted := submitted || ARRAY[0, 0]::bigint[];
        END IF;
    END LOOP;
    RETURN submitted;
END $$;
