-- revision: 1
-- Fan-out jobs: see `ledger/jobs.rs`.

-- Submits a job. `p_job` is JSON with the columns `partition`, `author` and `work`. Returns its number, and that of the
-- unfinished job of the author before it, or 0. The row of the author in `users` is locked by the caller, so no other
-- job of theirs is submitted meanwhile.
CREATE OR REPLACE FUNCTION feedline_submit_job(p_job text, p_now bigint) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    job json := p_job::json;
    of_author text := job ->> 'author';
    in_partition smallint := (job ->> 'partition')::smallint;
    finished bigint;
    previous bigint;
    new_id bigint;
BEGIN
    SELECT floor INTO finished FROM work_partitions WHERE name = 'fanout/' || in_partition;
    SELECT id INTO previous FROM jobs
    WHERE author = of_author AND id - 0 > coalesce(finished, 0) ORDER BY id - 0 DESC LIMIT 1;
    INSERT INTO jobs (partition, author, work, created_at) VALUES (in_partition, of_author, job ->> 'work', p_now)
    RETURNING id INTO new_id;
    RETURN ARRAY[new_id, coalesce(previous, 0)];
END $$;
