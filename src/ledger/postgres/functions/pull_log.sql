-- revision: 2
-- The pull log.

-- Appends an entry, unless the job has one. Returns its mark.
CREATE OR REPLACE FUNCTION feedline_append_pulled(
    p_job bigint, p_author text, p_kind text, p_post bigint, p_repeated boolean, p_now bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    new_mark bigint;
BEGIN
    SELECT mark INTO new_mark FROM pulled_end FOR UPDATE;
    new_mark := new_mark + 1;
    INSERT INTO pulled (mark, job, author, kind, post, repeated, at)
    VALUES (new_mark, p_job, p_author, p_kind, p_post, p_repeated, p_now) ON CONFLICT (job) DO NOTHING;
    IF NOT FOUND THEN
        SELECT mark INTO new_mark FROM pulled WHERE job = p_job;
        RETURN new_mark;
    END IF;
    UPDATE pulled_end SET mark = new_mark;
    RETURN new_mark;
END $$;

-- Appends an entry for the followers of topics. Returns its mark.
CREATE OR REPLACE FUNCTION feedline_append_pulled_by_topics(
    p_author text, p_kind text, p_post bigint, p_topics text[], p_now bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    new_mark bigint;
BEGIN
    UPDATE pulled_end SET mark = mark + 1 RETURNING mark INTO new_mark;
    INSERT INTO pulled (mark, author, kind, post, repeated, at, topics)
    VALUES (new_mark, p_author, p_kind, p_post, true, p_now, p_topics);
    INSERT INTO pulled_topics (topic, mark) SELECT DISTINCT topic, new_mark FROM unnest(p_topics) AS named (topic);
    RETURN new_mark;
END $$;
