-- concurrent
-- The public posts of all authors, newest first.
CREATE INDEX CONCURRENTLY posts_recent ON posts (id) WHERE visibility = '"public"' AND deleted_at IS NULL;
