-- concurrent
-- The users that a user restricts, latest first. Without `whom`: with it, look-ups of a pair might read this index.
CREATE INDEX CONCURRENTLY restrictions_listed ON restrictions (maker, kind, at);
