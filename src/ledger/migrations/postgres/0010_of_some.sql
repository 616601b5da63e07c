-- What an author wrote that is not for everyone, by whom it is for: a profile counts what its reader may see. Indexes, so that
-- it is right whoever writes: a node that is older knows nothing of them. Three, because one over who may see it would not
-- do without a look at each post, and those named may be more than fit into an index. Other nodes' writes of posts wait until
-- they are made.
CREATE INDEX posts_for_followers ON posts (author) WHERE visibility = '"followers"' AND deleted_at IS NULL;
CREATE INDEX posts_for_friends ON posts (author) WHERE visibility = '"friends"' AND deleted_at IS NULL;
CREATE INDEX posts_for_named ON posts (author) WHERE left(visibility, 1) = '{' AND deleted_at IS NULL;
