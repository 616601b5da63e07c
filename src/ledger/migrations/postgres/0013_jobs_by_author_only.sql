-- The index of all jobs of an author replaces two of parts of them.
DROP INDEX jobs_carrying, jobs_ordered;
