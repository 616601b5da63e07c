-- Comments and likes by the user who made them: exports and erasures look for all of one user's rows.
CREATE INDEX comments_author ON comments (author, id) WHERE author IS NOT NULL;
CREATE INDEX comment_likes_user ON comment_likes (user, comment);
