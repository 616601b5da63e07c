-- concurrent
-- The users that a user restricts, latest first. The time comes before the kind: otherwise look-ups of a pair might read
-- this index instead of the primary key, and all restrictions of the user with it. For the same reason, look-ups of
-- several kinds are one for each kind.
CREATE INDEX CONCURRENTLY restrictions_listed ON restrictions (maker, at, kind, whom);
