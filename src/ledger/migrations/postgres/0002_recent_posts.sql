-- concurrent
-- The public posts of all authors, newest first. An expression, so that it serves no other statement: for the page of an
-- author, PostgreSQL might read it and skip the posts of all others.
CREATE INDEX CONCURRENTLY posts_recent ON posts ((id + 0)) WHERE visibility = '"public"' AND deleted_at IS NULL;
