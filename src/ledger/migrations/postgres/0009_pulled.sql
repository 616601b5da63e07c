-- The pulled log: what authors wrote, edited and deleted who have too many followers to write to each of them. Every
-- node reads it in order, and every inbox knows up to which mark it has been brought. Times are Unix milliseconds. Not
-- partitioned: it is read by mark, and what is old is dropped.
CREATE TABLE pulled (
    mark     bigint PRIMARY KEY,
    job      bigint NOT NULL UNIQUE,
    author   text COLLATE "C" NOT NULL,
    -- What happened, as the kind letter of an entry, and to which post.
    kind     text COLLATE "C" NOT NULL,
    post     bigint NOT NULL,
    -- Whether it may have been written to some inboxes before.
    repeated boolean NOT NULL,
    at       bigint NOT NULL
);
CREATE INDEX pulled_author ON pulled (author, mark);

-- The last mark given out, in one row. Whoever takes the next one holds the row until the commit, so marks become
-- visible in their order: a sequence would not see to that. It stays when entries are dropped.
CREATE TABLE pulled_end (
    alone boolean PRIMARY KEY DEFAULT true CHECK (alone),
    mark bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO pulled_end (mark) VALUES (0);

-- Puts an entry at the end, unless the job has one; its mark.
CREATE FUNCTION feedline_pull(
    for_job bigint, whose text, of_kind text, which bigint, was_begun boolean, now_at bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    taken bigint;
BEGIN
    SELECT mark INTO taken FROM pulled_end FOR UPDATE;
    taken := taken + 1;
    INSERT INTO pulled (mark, job, author, kind, post, repeated, at)
    VALUES (taken, for_job, whose, of_kind, which, was_begun, now_at) ON CONFLICT (job) DO NOTHING;
    IF NOT FOUND THEN
        SELECT mark INTO taken FROM pulled WHERE job = for_job;
        RETURN taken;
    END IF;
    UPDATE pulled_end SET mark = taken;
    RETURN taken;
END $$;
