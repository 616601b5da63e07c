-- The public posts of all authors, newest first.
CREATE INDEX posts_recent ON posts (id)
WHERE deleted_at IS NULL AND coalesce(body ->> '$.visibility', 'public') = 'public';
