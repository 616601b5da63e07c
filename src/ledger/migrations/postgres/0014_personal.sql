-- Comments and likes by the user who made them: exports and erasures look for all of one user's rows. They are rare, so
-- that one look-up in each partition does; a second table would double every write.
CREATE INDEX comments_author ON comments (author, id) WHERE author IS NOT NULL;
CREATE INDEX likes_of ON likes (owner, seq);
CREATE INDEX comment_likes_of ON comment_likes (owner, comment);
