-- concurrent
-- The likers of a comment, in the order of their likes.
CREATE INDEX CONCURRENTLY comment_likes_listed ON comment_likes (comment, at, owner);
