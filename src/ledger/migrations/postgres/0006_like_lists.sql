-- concurrent
-- The posts that a user likes, in the order of the likes. It costs about 2 microseconds a like: see BENCHMARKS.md.
CREATE INDEX CONCURRENTLY likes_by ON likes (owner, seq);
-- The likers of a comment, in the order of their likes.
CREATE INDEX CONCURRENTLY comment_likes_listed ON comment_likes (comment, at, owner);
