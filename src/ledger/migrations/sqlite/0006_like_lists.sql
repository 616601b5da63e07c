-- The posts that a user likes. An index ends with the rowid, so they are in the order of `seq`.
CREATE INDEX likes_by ON likes (user);
-- The likers of a comment, in the order of their likes.
CREATE INDEX comment_likes_listed ON comment_likes (comment, at, user);
