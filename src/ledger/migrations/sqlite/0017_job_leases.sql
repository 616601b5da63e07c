-- Leases of jobs count up, so that a worker that lost one is told from the one that has it.
ALTER TABLE jobs ADD COLUMN generation INTEGER NOT NULL DEFAULT 1;
-- Whose posts the job concerns, and whether it is done after the author's earlier jobs.
ALTER TABLE jobs ADD COLUMN author TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN ordered INTEGER NOT NULL DEFAULT 1;
UPDATE jobs SET author = (SELECT value ->> '$.author' FROM json_each(work)),
    ordered = NOT EXISTS (SELECT 1 FROM json_each(work) WHERE key IN ('follow', 'unfollow', 'part'));
CREATE INDEX jobs_author ON jobs (author, id);
