-- The likers of a comment, in the order of their likes.
CREATE INDEX comment_likes_listed ON comment_likes (comment, at, user);
