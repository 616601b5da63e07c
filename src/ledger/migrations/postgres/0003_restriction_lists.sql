-- concurrent
-- The users that a user restricts, latest first.
CREATE INDEX CONCURRENTLY restrictions_listed ON restrictions (maker, kind, at, whom);
