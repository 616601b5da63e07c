-- revision: 1
-- Follows, locked accounts, and requests to follow them.

-- Inserts a follow between users who are locked, unless the reader follows `p_max` users. Returns whether it is new.
CREATE OR REPLACE FUNCTION feedline_insert_follow(p_reader text, p_author text, p_now bigint, p_max bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    new_seq bigint;
BEGIN
    INSERT INTO follows (follower, followee, seq, at)
    SELECT p_reader, p_author, nextval('follows_seq'), p_now FROM users WHERE id = p_reader AND following < p_max
    ON CONFLICT DO NOTHING RETURNING seq INTO new_seq;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO followers (followee, follower, seq) VALUES (p_author, p_reader, new_seq);
    UPDATE users SET following = following + (id = p_reader)::int, followers = followers + (id = p_author)::int
    WHERE id IN (p_reader, p_author);
    RETURN true;
END $$;

-- Adds a request to follow a locked account. The rows of both users are locked. `p_quiet`: how long a request after a
-- rejection is not shown, in milliseconds. The event is written for a request that is shown at once. Returns
-- `requested` (also if there was one), `too_many_requests` or `asked_too_often`.
CREATE OR REPLACE FUNCTION feedline_request_follow(
    p_reader text, p_author text, p_now bigint, p_quiet bigint, p_most_by bigint, p_most_to bigint, p_event text,
    p_pending int
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    new_shown_at bigint;
BEGIN
    PERFORM FROM follow_requests WHERE followee = p_author AND follower = p_reader;
    IF FOUND THEN
        RETURN 'requested';
    END IF;
    PERFORM FROM follow_requests WHERE follower = p_reader ORDER BY seq OFFSET p_most_by - 1 LIMIT 1;
    IF FOUND THEN
        RETURN 'too_many_requests';
    END IF;
    PERFORM FROM follow_requests WHERE followee = p_author ORDER BY seq OFFSET p_most_to - 1 LIMIT 1;
    IF FOUND THEN
        RETURN 'asked_too_often';
    END IF;
    SELECT at + p_quiet INTO new_shown_at FROM follow_rejections WHERE followee = p_author AND follower = p_reader;
    new_shown_at := greatest(p_now, new_shown_at);
    INSERT INTO follow_requests (follower, followee, at, shown_at) VALUES (p_reader, p_author, p_now, new_shown_at);
    IF p_event IS NOT NULL AND new_shown_at = p_now THEN
        INSERT INTO events (at, event, pending) VALUES (p_now, p_event, p_pending);
    END IF;
    RETURN 'requested';
END $$;

-- Removes a request, and writes an event if there was one. Returns whether there was one.
CREATE OR REPLACE FUNCTION feedline_end_request(
    p_reader text, p_author text, p_now bigint, p_event text, p_pending int
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM follow_requests WHERE followee = p_author AND follower = p_reader;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF p_event IS NOT NULL THEN
        INSERT INTO events (at, event, pending) VALUES (p_now, p_event, p_pending);
    END IF;
    RETURN true;
END $$;

-- Creates a follow and its job, or a request if the account is locked. `outcome` is `new`, or the reason why there is
-- no new follow: `unchanged` (the follow exists), `full` (the reader follows `p_max` users), `no_user` (the author is
-- unknown or erased), `blocked` (by the author), `blocks` (the reader blocks the author), or an outcome of
-- `feedline_request_follow`. `p_events` are the events of a follow, of a request and of the end of a request, or NULL;
-- `p_pending` their consumers.
CREATE OR REPLACE FUNCTION feedline_follow(
    p_reader text, p_author text, p_job text, p_now bigint, p_max bigint, p_quiet bigint, p_most_by bigint,
    p_most_to bigint, p_events text[], p_pending int[], OUT outcome text, OUT job bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    are_known boolean := feedline_lock_users(p_reader, p_author);
    is_locked boolean;
    is_erased boolean;
BEGIN
    SELECT locked, erased_at IS NOT NULL INTO is_locked, is_erased FROM users WHERE id = p_author;
    outcome := CASE
        WHEN NOT are_known OR is_erased THEN 'no_user'
        WHEN EXISTS (SELECT FROM restrictions WHERE maker = p_author AND kind = 'block' AND target = p_reader)
            THEN 'blocked'
        WHEN EXISTS (SELECT FROM restrictions WHERE maker = p_reader AND kind = 'block' AND target = p_author)
            THEN 'blocks'
        WHEN is_locked AND EXISTS (SELECT FROM follows WHERE follower = p_reader AND followee = p_author)
            THEN 'unchanged'
        WHEN is_locked AND p_max <= (SELECT following FROM users WHERE id = p_reader)
            + (SELECT count(*) FROM follow_requests WHERE follower = p_reader AND followee <> p_author) THEN 'full'
        ELSE 'new'
    END;
    IF outcome <> 'new' THEN
        RETURN;
    END IF;
    IF is_locked THEN
        outcome := feedline_request_follow(
            p_reader, p_author, p_now, p_quiet, p_most_by, p_most_to, p_events[2], p_pending[2]);
        RETURN;
    END IF;
    IF NOT feedline_insert_follow(p_reader, p_author, p_now, p_max) THEN
        outcome := CASE
            WHEN EXISTS (SELECT FROM follows WHERE follower = p_reader AND followee = p_author) THEN 'unchanged'
            ELSE 'full'
        END;
        RETURN;
    END IF;
    -- The job of an unlock has not accepted this request yet.
    PERFORM feedline_end_request(p_reader, p_author, p_now, p_events[3], p_pending[3]);
    IF p_events[1] IS NOT NULL THEN
        INSERT INTO events (at, event, pending) VALUES (p_now, p_events[1], p_pending[1]);
    END IF;
    job := feedline_submit_job(p_job, p_now);
END $$;

-- Removes a follow between users who are locked. Returns whether it existed.
CREATE OR REPLACE FUNCTION feedline_remove_follow(p_reader text, p_author text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM follows WHERE follower = p_reader AND followee = p_author;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM followers WHERE followee = p_author AND follower = p_reader;
    UPDATE users SET following = following - (id = p_reader)::int, followers = followers - (id = p_author)::int
    WHERE id IN (p_reader, p_author);
    RETURN true;
END $$;

-- Removes a follow and submits its job, or withdraws a request. Returns the job; NULL: there was no follow. `p_events`
-- are the events of the end of a follow and of a request, or NULL; `p_pending` their consumers.
CREATE OR REPLACE FUNCTION feedline_unfollow(
    p_reader text, p_author text, p_job text, p_now bigint, p_events text[], p_pending int[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
    PERFORM feedline_lock_users(p_reader, p_author);
    PERFORM feedline_end_request(p_reader, p_author, p_now, p_events[2], p_pending[2]);
    IF NOT feedline_remove_follow(p_reader, p_author) THEN
        RETURN NULL;
    END IF;
    IF p_events[1] IS NOT NULL THEN
        INSERT INTO events (at, event, pending) VALUES (p_now, p_events[1], p_pending[1]);
    END IF;
    RETURN feedline_submit_job(p_job, p_now);
END $$;

-- Makes a request a follow and submits its job. Returns the job; NULL: there is no request that is shown at
-- `p_shown_at`.
CREATE OR REPLACE FUNCTION feedline_accept_request(
    p_reader text, p_author text, p_job text, p_now bigint, p_shown_at bigint, p_event text, p_pending int
) RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
    PERFORM feedline_lock_users(p_reader, p_author);
    DELETE FROM follow_requests WHERE followee = p_author AND follower = p_reader AND shown_at <= p_shown_at;
    -- The limit was checked when the request was made: open requests count as follows.
    IF NOT FOUND OR NOT feedline_insert_follow(p_reader, p_author, p_now, 9223372036854775807) THEN
        RETURN NULL;
    END IF;
    IF p_event IS NOT NULL THEN
        INSERT INTO events (at, event, pending) VALUES (p_now, p_event, p_pending);
    END IF;
    RETURN feedline_submit_job(p_job, p_now);
END $$;

-- Removes a request that is shown, and notes the rejection. Returns whether there was one.
CREATE OR REPLACE FUNCTION feedline_reject_request(
    p_reader text, p_author text, p_now bigint, p_quiet bigint, p_event text, p_pending int
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM feedline_lock_users(p_reader, p_author);
    PERFORM FROM follow_requests WHERE followee = p_author AND follower = p_reader AND shown_at <= p_now;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- Removes rejections that have expired.
    DELETE FROM follow_rejections WHERE followee = p_author AND at <= p_now - p_quiet;
    INSERT INTO follow_rejections (followee, follower, at) VALUES (p_author, p_reader, p_now)
    ON CONFLICT (followee, follower) DO UPDATE SET at = excluded.at;
    RETURN feedline_end_request(p_reader, p_author, p_now, p_event, p_pending);
END $$;

-- Locks or unlocks an account, and submits the job, in which the last accepted request is 0. `outcome`: `changed` (with
-- the job and the number of the last request), `unchanged`, `no_user`.
CREATE OR REPLACE FUNCTION feedline_set_locked(
    p_user text, p_locked boolean, p_job text, p_now bigint, OUT outcome text, OUT job bigint[], OUT last_request bigint
) LANGUAGE plpgsql AS $$
DECLARE
    was_locked boolean;
BEGIN
    SELECT locked INTO was_locked FROM users WHERE id = p_user AND erased_at IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        outcome := 'no_user';
        RETURN;
    ELSIF was_locked = p_locked THEN
        outcome := 'unchanged';
        RETURN;
    END IF;
    UPDATE users SET locked = p_locked WHERE id = p_user;
    SELECT seq INTO last_request FROM follow_requests WHERE followee = p_user ORDER BY seq DESC LIMIT 1;
    last_request := coalesce(last_request, 0);
    -- The work is JSON text within JSON.
    job := feedline_submit_job(replace(p_job, '\"accept_through\":0', '\"accept_through\":' || last_request), p_now);
    outcome := 'changed';
END $$;

-- Counts a public post in its topics if its author's account is open, and not if it is locked. Changes nothing if the
-- post has other topics than `p_topics`. `p_folded` are the names of these as they are searched.
CREATE OR REPLACE FUNCTION feedline_sync_topics(p_author text, p_post bigint, p_topics text[], p_folded text[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    is_open boolean;
BEGIN
    SELECT NOT locked INTO is_open FROM users WHERE id = p_author FOR NO KEY UPDATE;
    PERFORM FROM posts
    WHERE id = p_post AND author = p_author AND deleted_at IS NULL AND topics = p_topics AND visibility = '"public"';
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM FROM post_topics WHERE topic = ANY (p_topics) AND post = p_post AND public <> is_open;
    IF FOUND THEN
        PERFORM feedline_replace_topics(p_post, p_topics, p_topics, p_folded, is_open);
    END IF;
END $$;
