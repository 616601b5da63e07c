-- The users that a user restricts, latest first.
CREATE INDEX restrictions_listed ON restrictions (maker, kind, at, whom);
