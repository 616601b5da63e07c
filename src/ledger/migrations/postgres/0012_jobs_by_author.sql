-- Finished jobs show whether more of their author wait, ordered or not. Without an index of all jobs, each look-up read
-- the whole table, with all rows that were deleted since the last vacuum. One index replaces two of parts of the jobs.
CREATE INDEX jobs_author ON jobs (author, id);
DROP INDEX jobs_carrying, jobs_ordered;
