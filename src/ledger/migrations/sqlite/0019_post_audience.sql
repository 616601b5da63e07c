-- Posts that are not for everyone, by their audience: profiles count and list what a reader may see without a look at any other
-- post. Triggers keep the rows, so they are right whoever writes: an older process does not know them. The index `posts_of_some`
-- stays for older processes, which name it.

-- One row a post with `viewer` '', and one for each user whom `only_to` or `not_to` names.
CREATE TABLE audience_posts (
    author TEXT NOT NULL,
    -- `followers`, `friends`, `only_to`, `not_to`.
    kind   TEXT NOT NULL,
    viewer TEXT NOT NULL,
    post   INTEGER NOT NULL,
    PRIMARY KEY (author, kind, viewer, post)
) WITHOUT ROWID;

-- How many rows with `viewer` '' an author has. Without any there is no row.
CREATE TABLE audience_counts (
    author    TEXT PRIMARY KEY NOT NULL,
    followers INTEGER NOT NULL,
    friends   INTEGER NOT NULL,
    only_to   INTEGER NOT NULL,
    not_to    INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX posts_public ON posts (author, id)
WHERE deleted_at IS NULL AND coalesce(body ->> '$.visibility', 'public') = 'public';

INSERT INTO audience_posts (author, kind, viewer, post)
SELECT author, CASE substr(body ->> '$.visibility', 1, 9)
    WHEN 'followers' THEN 'followers' WHEN 'friends' THEN 'friends' WHEN '{"only_to' THEN 'only_to' ELSE 'not_to' END, '', id
FROM posts INDEXED BY posts_restricted WHERE coalesce(body ->> '$.visibility', 'public') <> 'public';
INSERT OR IGNORE INTO audience_posts (author, kind, viewer, post)
SELECT posts.author, 'only_to', names.value, posts.id FROM posts INDEXED BY posts_restricted, json_each(posts.body, '$.visibility.only_to') names
WHERE coalesce(posts.body ->> '$.visibility', 'public') <> 'public' AND names.type = 'text';
INSERT OR IGNORE INTO audience_posts (author, kind, viewer, post)
SELECT posts.author, 'not_to', names.value, posts.id FROM posts INDEXED BY posts_restricted, json_each(posts.body, '$.visibility.not_to') names
WHERE coalesce(posts.body ->> '$.visibility', 'public') <> 'public' AND names.type = 'text';

INSERT INTO audience_counts (author, followers, friends, only_to, not_to)
SELECT author, sum(kind = 'followers'), sum(kind = 'friends'), sum(kind = 'only_to'), sum(kind = 'not_to')
FROM audience_posts WHERE viewer = '' GROUP BY author;

CREATE TRIGGER audience_posts_added AFTER INSERT ON audience_posts WHEN NEW.viewer = ''
BEGIN
    INSERT INTO audience_counts (author, followers, friends, only_to, not_to)
    VALUES (NEW.author, NEW.kind = 'followers', NEW.kind = 'friends', NEW.kind = 'only_to', NEW.kind = 'not_to')
    ON CONFLICT (author) DO UPDATE SET followers = followers + excluded.followers, friends = friends + excluded.friends,
        only_to = only_to + excluded.only_to, not_to = not_to + excluded.not_to;
END;
CREATE TRIGGER audience_posts_removed AFTER DELETE ON audience_posts WHEN OLD.viewer = ''
BEGIN
    UPDATE audience_counts SET followers = followers - (OLD.kind = 'followers'), friends = friends - (OLD.kind = 'friends'),
        only_to = only_to - (OLD.kind = 'only_to'), not_to = not_to - (OLD.kind = 'not_to')
    WHERE author = OLD.author;
    DELETE FROM audience_counts WHERE author = OLD.author AND followers = 0 AND friends = 0 AND only_to = 0 AND not_to = 0;
END;

-- A deleted post has no body.
CREATE TRIGGER posts_audience_added AFTER INSERT ON posts WHEN coalesce(NEW.body ->> '$.visibility', 'public') <> 'public'
BEGIN
    INSERT INTO audience_posts (author, kind, viewer, post)
    VALUES (NEW.author, CASE substr(NEW.body ->> '$.visibility', 1, 9)
        WHEN 'followers' THEN 'followers' WHEN 'friends' THEN 'friends' WHEN '{"only_to' THEN 'only_to' ELSE 'not_to' END,
        '', NEW.id);
    INSERT OR IGNORE INTO audience_posts (author, kind, viewer, post)
    SELECT NEW.author, 'only_to', value, NEW.id FROM json_each(NEW.body, '$.visibility.only_to') names WHERE names.type = 'text';
    INSERT OR IGNORE INTO audience_posts (author, kind, viewer, post)
    SELECT NEW.author, 'not_to', value, NEW.id FROM json_each(NEW.body, '$.visibility.not_to') names WHERE names.type = 'text';
END;
CREATE TRIGGER posts_audience_removed AFTER DELETE ON posts WHEN coalesce(OLD.body ->> '$.visibility', 'public') <> 'public'
BEGIN
    DELETE FROM audience_posts WHERE author = OLD.author AND kind IN ('followers', 'friends', 'only_to', 'not_to')
        AND viewer = '' AND post = OLD.id;
    DELETE FROM audience_posts WHERE author = OLD.author AND kind = 'only_to' AND post = OLD.id
        AND viewer IN (SELECT value FROM json_each(OLD.body, '$.visibility.only_to'));
    DELETE FROM audience_posts WHERE author = OLD.author AND kind = 'not_to' AND post = OLD.id
        AND viewer IN (SELECT value FROM json_each(OLD.body, '$.visibility.not_to'));
END;
-- BEFORE and AFTER: rows of the old visibility are removed before those of the new one are added, and the two may have some in common.
CREATE TRIGGER posts_audience_left BEFORE UPDATE OF body ON posts
WHEN coalesce(OLD.body ->> '$.visibility', 'public') <> 'public'
    AND OLD.body ->> '$.visibility' IS NOT NEW.body ->> '$.visibility'
BEGIN
    DELETE FROM audience_posts WHERE author = OLD.author AND kind IN ('followers', 'friends', 'only_to', 'not_to')
        AND viewer = '' AND post = OLD.id;
    DELETE FROM audience_posts WHERE author = OLD.author AND kind = 'only_to' AND post = OLD.id
        AND viewer IN (SELECT value FROM json_each(OLD.body, '$.visibility.only_to'));
    DELETE FROM audience_posts WHERE author = OLD.author AND kind = 'not_to' AND post = OLD.id
        AND viewer IN (SELECT value FROM json_each(OLD.body, '$.visibility.not_to'));
END;
CREATE TRIGGER posts_audience_entered AFTER UPDATE OF body ON posts
WHEN coalesce(NEW.body ->> '$.visibility', 'public') <> 'public'
    AND OLD.body ->> '$.visibility' IS NOT NEW.body ->> '$.visibility'
BEGIN
    INSERT INTO audience_posts (author, kind, viewer, post)
    VALUES (NEW.author, CASE substr(NEW.body ->> '$.visibility', 1, 9)
        WHEN 'followers' THEN 'followers' WHEN 'friends' THEN 'friends' WHEN '{"only_to' THEN 'only_to' ELSE 'not_to' END,
        '', NEW.id);
    INSERT OR IGNORE INTO audience_posts (author, kind, viewer, post)
    SELECT NEW.author, 'only_to', value, NEW.id FROM json_each(NEW.body, '$.visibility.only_to') names WHERE names.type = 'text';
    INSERT OR IGNORE INTO audience_posts (author, kind, viewer, post)
    SELECT NEW.author, 'not_to', value, NEW.id FROM json_each(NEW.body, '$.visibility.not_to') names WHERE names.type = 'text';
END;
