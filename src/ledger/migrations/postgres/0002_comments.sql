-- Comments, and what people are notified of. Times are Unix milliseconds. What takes several steps, each of which depends
-- on the one before, is a function here: one call, one transaction, and each of its statements sees what was committed
-- until then. A function is never changed in a way that an older node would notice; another one gets another name.

-- The counts of posts; one that nothing came of may have no row. `likes_version` grows with each change that is told.
-- Whoever changes what is under a post locks its row first.
CREATE TABLE post_counts (
    post          bigint PRIMARY KEY,
    likes         bigint NOT NULL DEFAULT 0,
    likes_version bigint NOT NULL DEFAULT 0,
    comments      bigint NOT NULL DEFAULT 0,
    favourites    bigint NOT NULL DEFAULT 0
) PARTITION BY HASH (post);

-- A deleted comment that has replies keeps its row and loses `author`, `text` and `mentions`; one without goes.
CREATE TABLE comments (
    post          bigint NOT NULL,
    id            bigint NOT NULL,
    -- The comment it replies to, 0 for none.
    parent        bigint NOT NULL,
    -- How many are above it.
    depth         int NOT NULL,
    author        text COLLATE "C",
    text          text,
    -- User ids; NULL for none.
    mentions      text[],
    replies       bigint NOT NULL DEFAULT 0,
    likes         bigint NOT NULL DEFAULT 0,
    likes_version bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (post, id)
) PARTITION BY HASH (post);
CREATE INDEX comments_thread ON comments (post, parent, id);

-- Under which post a comment is: threads are read by post, single comments by id.
CREATE TABLE comment_posts (
    comment bigint PRIMARY KEY,
    post    bigint NOT NULL
) PARTITION BY HASH (comment);

-- One row for each user who was ever notified. `latest` is the place of what happened last; `read_upto` and `seen_upto`
-- are places too. Whoever changes what a user is notified of locks it first.
CREATE TABLE notified (
    owner     text COLLATE "C" PRIMARY KEY,
    latest    bigint NOT NULL DEFAULT 0,
    groups    bigint NOT NULL DEFAULT 0,
    read_upto bigint NOT NULL DEFAULT 0,
    seen_upto bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 80);

CREATE TABLE notifications (
    owner      text COLLATE "C" NOT NULL,
    id         bigint NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    -- `p12` or `c34`; empty for none.
    object     text COLLATE "C" NOT NULL,
    seq        bigint NOT NULL,
    people     bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY (owner, id)
) PARTITION BY HASH (owner);
CREATE UNIQUE INDEX notifications_order ON notifications (owner, seq);
CREATE INDEX notifications_group ON notifications (owner, kind, object, seq);

CREATE TABLE notification_people (
    owner        text COLLATE "C" NOT NULL,
    notification bigint NOT NULL,
    person       text COLLATE "C" NOT NULL,
    seq          bigint NOT NULL,
    PRIMARY KEY (owner, notification, person)
) PARTITION BY HASH (owner);
CREATE INDEX notification_people_newest ON notification_people (owner, notification, seq);

-- Notifications that went and whose people are still there.
CREATE TABLE notification_remains (
    owner        text COLLATE "C" NOT NULL,
    notification bigint NOT NULL,
    PRIMARY KEY (owner, notification)
);

DO $$
DECLARE
    parent text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['post_counts', 'comments', 'comment_posts', 'notifications', 'notification_people'] LOOP
        FOR part IN 0..15 LOOP
            EXECUTE format('CREATE TABLE %s_%s PARTITION OF %s FOR VALUES WITH (MODULUS 16, REMAINDER %s)',
                           parent, part, parent, part);
        END LOOP;
    END LOOP;
END $$;

-- Whether a comment with this id is the author's, or stays after its deletion.
CREATE FUNCTION feedline_comment_before(which bigint, by text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM (SELECT post FROM comment_posts WHERE comment = which) under
        CROSS JOIN LATERAL (
            SELECT author FROM comments WHERE comments.post = under.post AND comments.id = which OFFSET 0
        ) c
        WHERE c.author = by OR c.author IS NULL)
$$;

-- Stores a comment: `stored`, `before` (see above), `no post`, `no parent`, `too deep`, or `no author`; and the post's counts.
CREATE FUNCTION feedline_comment(
    new_id bigint, of_post bigint, reply_to bigint, by text, words text, named text[], deepest int,
    OUT outcome text, OUT new_likes bigint, OUT new_comments bigint, OUT new_version bigint
) LANGUAGE plpgsql AS $$
DECLARE
    above int;
BEGIN
    IF feedline_comment_before(new_id, by) THEN
        outcome := 'before';
        RETURN;
    END IF;
    -- A post deleted after this was deleted after the comment: neither minds the other.
    PERFORM FROM posts WHERE id = of_post AND deleted_at IS NULL;
    IF NOT FOUND THEN
        outcome := 'no post';
        RETURN;
    END IF;
    PERFORM FROM users WHERE id = by;
    IF NOT FOUND THEN
        outcome := 'no author';
        RETURN;
    END IF;
    INSERT INTO post_counts (post) VALUES (of_post) ON CONFLICT DO NOTHING;
    PERFORM FROM post_counts WHERE post = of_post FOR NO KEY UPDATE;
    -- A call like this one may have been what this waited for.
    IF feedline_comment_before(new_id, by) THEN
        outcome := 'before';
        RETURN;
    END IF;
    IF reply_to <> 0 THEN
        SELECT depth INTO above FROM comments WHERE post = of_post AND id = reply_to AND author IS NOT NULL;
        IF NOT FOUND THEN
            outcome := 'no parent';
            RETURN;
        ELSIF above >= deepest THEN
            outcome := 'too deep';
            RETURN;
        END IF;
        UPDATE comments SET replies = replies + 1 WHERE post = of_post AND id = reply_to;
    END IF;
    INSERT INTO comment_posts (comment, post) VALUES (new_id, of_post);
    INSERT INTO comments (post, id, parent, depth, author, text, mentions)
    VALUES (of_post, new_id, reply_to, coalesce(above + 1, 0), by, words, named);
    UPDATE post_counts SET comments = comments + 1, likes_version = likes_version + 1 WHERE post = of_post
    RETURNING likes, comments, likes_version INTO new_likes, new_comments, new_version;
    outcome := 'stored';
END $$;

-- Deletes a comment. `stays` is NULL if there is none; `along` are the deleted ones above that go with it, nearest first.
CREATE FUNCTION feedline_uncomment(
    old_id bigint, OUT stays boolean, OUT along bigint[], OUT new_likes bigint, OUT new_comments bigint,
    OUT new_version bigint
) LANGUAGE plpgsql AS $$
DECLARE
    of_post bigint;
    above bigint;
    next_above bigint;
    had bigint;
    is_last boolean;
BEGIN
    SELECT post INTO of_post FROM comment_posts WHERE comment = old_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM FROM post_counts WHERE post = of_post FOR NO KEY UPDATE;
    SELECT parent, replies INTO above, had FROM comments
    WHERE post = of_post AND id = old_id AND author IS NOT NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    stays := had > 0;
    along := '{}';
    IF stays THEN
        UPDATE comments SET author = NULL, text = NULL, mentions = NULL WHERE post = of_post AND id = old_id;
    ELSE
        DELETE FROM comments WHERE post = of_post AND id = old_id;
        DELETE FROM comment_posts WHERE comment = old_id;
        LOOP
            UPDATE comments SET replies = replies - 1 WHERE post = of_post AND id = above
            RETURNING parent, replies = 0 AND author IS NULL INTO next_above, is_last;
            EXIT WHEN NOT FOUND OR NOT is_last;
            DELETE FROM comments WHERE post = of_post AND id = above;
            DELETE FROM comment_posts WHERE comment = above;
            along := along || above;
            above := next_above;
        END LOOP;
    END IF;
    UPDATE post_counts SET comments = comments - 1, likes_version = likes_version + 1 WHERE post = of_post
    RETURNING likes, comments, likes_version INTO new_likes, new_comments, new_version;
END $$;

-- Clears people of a group that has gone, `most` at most. Whether all of them are gone now.
CREATE FUNCTION feedline_clear_people(whose text, which bigint, most bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    cleared bigint;
BEGIN
    DELETE FROM notification_people WHERE owner = whose AND notification = which AND person IN (
        SELECT person FROM notification_people WHERE owner = whose AND notification = which LIMIT most);
    GET DIAGNOSTICS cleared = ROW_COUNT;
    RETURN cleared < most;
END $$;

-- Notes what happened to a user, one happening for each element of the arrays. The ids of the groups that changed, least
-- recent first.
CREATE FUNCTION feedline_notify(
    whose text, ids bigint[], kinds text[], objects text[], people_new text[], again boolean[], now_at bigint,
    recent_for bigint, kept bigint, cleared bigint
) RETURNS TABLE (changed bigint) LANGUAGE plpgsql AS $$
DECLARE
    marks notified%ROWTYPE;
    newest notifications%ROWTYPE;
    is_recent boolean;
    is_open boolean;
    grown bigint;
    touched bigint[] := '{}';
    remains notification_remains%ROWTYPE;
BEGIN
    INSERT INTO notified (owner) VALUES (whose) ON CONFLICT DO NOTHING;
    SELECT * INTO marks FROM notified WHERE owner = whose FOR NO KEY UPDATE;
    FOR n IN 1 .. coalesce(array_length(ids, 1), 0) LOOP
        SELECT * INTO newest FROM notifications
        WHERE owner = whose AND kind = kinds[n] AND object = objects[n] ORDER BY seq DESC LIMIT 1;
        is_recent := FOUND AND newest.created_at + recent_for > now_at;
        is_open := is_recent AND newest.seq > marks.read_upto;
        IF (is_open OR (is_recent AND NOT again[n])) AND EXISTS (
            SELECT FROM notification_people
            WHERE owner = whose AND notification = newest.id AND person = people_new[n]
        ) THEN
            CONTINUE;
        END IF;
        marks.latest := marks.latest + 1;
        IF is_open THEN
            grown := newest.id;
            UPDATE notifications SET people = people + 1, seq = marks.latest, updated_at = now_at
            WHERE owner = whose AND id = grown;
        ELSE
            grown := ids[n];
            marks.groups := marks.groups + 1;
            INSERT INTO notifications (owner, id, kind, object, seq, people, created_at, updated_at)
            VALUES (whose, grown, kinds[n], objects[n], marks.latest, 1, now_at, now_at);
        END IF;
        INSERT INTO notification_people (owner, notification, person, seq)
        VALUES (whose, grown, people_new[n], marks.latest);
        touched := array_append(array_remove(touched, grown), grown);
    END LOOP;
    -- A part of what was left behind, by whomever; nobody waits for others who do the same.
    SELECT * INTO remains FROM notification_remains LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF FOUND AND feedline_clear_people(remains.owner, remains.notification, cleared) THEN
        DELETE FROM notification_remains WHERE owner = remains.owner AND notification = remains.notification;
    END IF;
    IF cardinality(touched) = 0 THEN
        RETURN;
    END IF;
    WHILE marks.groups > kept LOOP
        DELETE FROM notifications WHERE owner = whose AND seq = (
            SELECT seq FROM notifications WHERE owner = whose ORDER BY seq LIMIT 1) RETURNING id INTO grown;
        IF NOT feedline_clear_people(whose, grown, cleared) THEN
            INSERT INTO notification_remains (owner, notification) VALUES (whose, grown);
        END IF;
        marks.groups := marks.groups - 1;
    END LOOP;
    UPDATE notified SET latest = marks.latest, groups = marks.groups WHERE owner = whose;
    RETURN QUERY SELECT unnest(touched);
END $$;

-- Marks a user's groups up to one (0: all) as seen, or read: `anew`, `before` or `nothing`.
CREATE FUNCTION feedline_mark(whose text, which bigint, is_read boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    marks notified%ROWTYPE;
    upto bigint;
BEGIN
    SELECT * INTO marks FROM notified WHERE owner = whose FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN CASE WHEN which = 0 THEN 'before' ELSE 'nothing' END;
    END IF;
    upto := marks.latest;
    IF which <> 0 THEN
        SELECT seq INTO upto FROM notifications WHERE owner = whose AND id = which;
        IF NOT FOUND THEN
            RETURN 'nothing';
        END IF;
    END IF;
    IF upto <= marks.seen_upto AND (NOT is_read OR upto <= marks.read_upto) THEN
        RETURN 'before';
    END IF;
    UPDATE notified SET seen_upto = greatest(seen_upto, upto),
        read_upto = CASE WHEN is_read THEN greatest(read_upto, upto) ELSE read_upto END
    WHERE owner = whose;
    RETURN 'anew';
END $$;
