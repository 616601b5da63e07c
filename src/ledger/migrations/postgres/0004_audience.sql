-- What stands between two people, and the writes that look at it. Times are Unix milliseconds.

-- `maker` hides their posts from `whom`, does not look at theirs (mute), or both (block).
CREATE TABLE barriers (
    maker text COLLATE "C" NOT NULL,
    kind  text COLLATE "C" NOT NULL CHECK (kind IN ('hide', 'mute', 'block')),
    whom  text COLLATE "C" NOT NULL,
    at    bigint NOT NULL,
    PRIMARY KEY (maker, kind, whom)
) PARTITION BY HASH (maker);

-- The same from the other end.
CREATE TABLE barred (
    whom  text COLLATE "C" NOT NULL,
    kind  text COLLATE "C" NOT NULL,
    maker text COLLATE "C" NOT NULL,
    PRIMARY KEY (whom, kind, maker)
) PARTITION BY HASH (whom);

DO $$
DECLARE
    parent text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['barriers', 'barred'] LOOP
        FOR part IN 0..15 LOOP
            EXECUTE format('CREATE TABLE %s_%s PARTITION OF %s FOR VALUES WITH (MODULUS 16, REMAINDER %s)',
                           parent, part, parent, part);
        END LOOP;
    END LOOP;
END $$;

-- Locks the rows of two users, in the order of their ids, for whoever is about to change what is between them: all that
-- is read afterwards is what was committed until then. Whether both are there.
CREATE FUNCTION feedline_lock(one text, other text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    there bigint;
BEGIN
    PERFORM FROM users WHERE id IN (one, other) ORDER BY id FOR NO KEY UPDATE;
    GET DIAGNOSTICS there = ROW_COUNT;
    RETURN there = CASE WHEN one = other THEN 1 ELSE 2 END;
END $$;

-- Makes a job; its id.
CREATE FUNCTION feedline_job(
    what text, whose text, carries boolean, now_at bigint, for_holder text, until bigint
) RETURNS bigint LANGUAGE sql AS $$
    INSERT INTO jobs (work, author, carries_post, created_at, holder, lease_until)
    VALUES (what, whose, carries, now_at, for_holder, until) RETURNING id
$$;

-- Makes an edge, unless a block stands there. `there`: both users are. `job`: NULL if it was so already.
CREATE FUNCTION feedline_follow(
    reader text, whose text, now_at bigint, what text, for_holder text, until bigint, OUT there boolean, OUT job bigint
) LANGUAGE plpgsql AS $$
DECLARE
    new_seq bigint;
BEGIN
    there := feedline_lock(reader, whose);
    IF NOT there
        OR EXISTS (SELECT FROM barriers WHERE maker = reader AND kind = 'block' AND whom = whose)
        OR EXISTS (SELECT FROM barriers WHERE maker = whose AND kind = 'block' AND whom = reader)
    THEN
        RETURN;
    END IF;
    INSERT INTO follows (follower, followee, seq, at) VALUES (reader, whose, nextval('follows_seq'), now_at)
    ON CONFLICT DO NOTHING RETURNING seq INTO new_seq;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    INSERT INTO followers (followee, follower, seq) VALUES (whose, reader, new_seq);
    UPDATE users SET following = following + (id = reader)::int, followers = followers + (id = whose)::int
    WHERE id IN (reader, whose);
    job := feedline_job(what, whose, false, now_at, for_holder, until);
END $$;

-- Ends an edge between users who are locked. Whether there was one.
CREATE FUNCTION feedline_end(reader text, whose text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM follows WHERE follower = reader AND followee = whose;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM followers WHERE followee = whose AND follower = reader;
    UPDATE users SET following = following - (id = reader)::int, followers = followers - (id = whose)::int
    WHERE id IN (reader, whose);
    RETURN true;
END $$;

-- Ends an edge; the job, NULL if there was none.
CREATE FUNCTION feedline_unfollow(reader text, whose text, now_at bigint, what text, for_holder text, until bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM feedline_lock(reader, whose);
    IF feedline_end(reader, whose) THEN
        RETURN feedline_job(what, whose, false, now_at, for_holder, until);
    END IF;
    RETURN NULL;
END $$;

-- Puts a barrier up; the jobs, one for each of the inboxes it concerns. NULL if it was there.
CREATE FUNCTION feedline_bar(
    of_kind text, by text, against text, now_at bigint, readers text[], authors text[], works text[], for_holder text,
    until bigint
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    made bigint[] := '{}';
BEGIN
    PERFORM feedline_lock(by, against);
    INSERT INTO barriers (maker, kind, whom, at) VALUES (by, of_kind, against, now_at) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO barred (whom, kind, maker) VALUES (against, of_kind, by);
    FOR n IN 1 .. array_length(readers, 1) LOOP
        IF of_kind = 'block' THEN
            PERFORM feedline_end(readers[n], authors[n]);
        END IF;
        made := made || feedline_job(works[n], authors[n], false, now_at, for_holder, until);
    END LOOP;
    RETURN made;
END $$;

-- Takes a barrier down; a job for each inbox whose owner follows, NULL for the others. NULL if it was not there.
CREATE FUNCTION feedline_unbar(
    of_kind text, by text, against text, now_at bigint, readers text[], authors text[], works text[], for_holder text,
    until bigint
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    made bigint[] := '{}';
BEGIN
    PERFORM feedline_lock(by, against);
    DELETE FROM barriers WHERE maker = by AND kind = of_kind AND whom = against;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    DELETE FROM barred WHERE whom = against AND kind = of_kind AND maker = by;
    FOR n IN 1 .. array_length(readers, 1) LOOP
        IF EXISTS (SELECT FROM follows WHERE follower = readers[n] AND followee = authors[n]) THEN
            made := array_append(made, feedline_job(works[n], authors[n], false, now_at, for_holder, until));
        ELSE
            made := array_append(made, NULL);
        END IF;
    END LOOP;
    RETURN made;
END $$;

-- Deletes a post, and takes it out of its topics (`feedline_topics` comes with them). `job` is NULL if there is no such
-- post of theirs.
CREATE FUNCTION feedline_delete_post(
    which bigint, whose text, now_at bigint, for_holder text, until bigint,
    OUT job bigint, OUT old_topics text[], OUT old_visibility text
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM feedline_lock(whose, whose);
    UPDATE posts SET deleted_at = now_at, body = NULL WHERE id = which AND author = whose AND deleted_at IS NULL
    RETURNING topics, visibility INTO old_topics, old_visibility;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    DELETE FROM author_posts WHERE author = whose AND post = which;
    PERFORM feedline_topics(which, old_topics, '{}', false);
    UPDATE users SET posts = posts - 1 WHERE id = whose;
    job := feedline_job(
        json_build_object('delete', json_build_object(
            'post', which, 'author', whose, 'topics', old_topics, 'visibility', old_visibility::json))::text,
        whose, false, now_at, for_holder, until);
END $$;

-- Puts a post in the place of another. `made` are the jobs: the edit's, and if others may see it those that narrow and widen.
-- NULL if there is no such post of theirs.
CREATE FUNCTION feedline_edit_post(
    which bigint, whose text, new_topics text[], new_visibility text, is_public boolean, new_body text, now_at bigint,
    for_holder text, until bigint, OUT made bigint[], OUT old_topics text[], OUT old_visibility text
) LANGUAGE plpgsql AS $$
DECLARE
    post_of json := json_build_object('post', which, 'author', whose);
BEGIN
    PERFORM feedline_lock(whose, whose);
    SELECT topics, visibility INTO old_topics, old_visibility FROM posts
    WHERE id = which AND author = whose AND deleted_at IS NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE posts SET topics = new_topics, visibility = new_visibility, body = new_body WHERE id = which;
    PERFORM feedline_topics(which, old_topics, new_topics, is_public);
    made := ARRAY[feedline_job(
        json_build_object('edit', json_build_object(
            'post', which, 'author', whose, 'topics', old_topics, 'visibility', old_visibility::json))::text,
        whose, false, now_at, for_holder, until)];
    IF new_visibility <> old_visibility THEN
        made := made
            || feedline_job(json_build_object('narrow', post_of)::text, whose, false, now_at, for_holder, until)
            || feedline_job(json_build_object('widen', post_of)::text, whose, true, now_at, for_holder, until);
    END IF;
END $$;
