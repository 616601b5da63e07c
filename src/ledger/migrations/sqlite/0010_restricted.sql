-- Which posts are not for everyone: a timeline that is made anew need not read the others.
CREATE INDEX posts_restricted ON posts (id) WHERE coalesce(body ->> '$.visibility', 'public') <> 'public';
