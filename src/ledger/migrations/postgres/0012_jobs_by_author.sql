-- concurrent
-- Finished jobs show whether more of their author wait, ordered or not. Without an index of all jobs, each look-up read
-- the whole table, with all rows that were deleted since the last vacuum.
CREATE INDEX CONCURRENTLY jobs_author ON jobs (author, id);
