-- revision: 1
-- Follows.

-- Creates a follow and its job. `outcome` is `new`, or the reason why nothing changed: `unchanged` (the follow exists),
-- `full` (the reader follows `p_max` users), `no_user` (the author is unknown or erased), `blocked` (by the author), or
-- `blocks` (the reader blocks the author).
CREATE OR REPLACE FUNCTION feedline_follow(
    p_reader text, p_author text, p_job text, p_now bigint, p_max bigint, OUT outcome text, OUT job bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    are_known boolean := feedline_lock_users(p_reader, p_author);
    new_seq bigint;
BEGIN
    outcome := CASE
        WHEN NOT are_known OR EXISTS (SELECT FROM users WHERE id = p_author AND erased_at IS NOT NULL) THEN 'no_user'
        WHEN EXISTS (SELECT FROM restrictions WHERE maker = p_author AND kind = 'block' AND target = p_reader)
            THEN 'blocked'
        WHEN EXISTS (SELECT FROM restrictions WHERE maker = p_reader AND kind = 'block' AND target = p_author)
            THEN 'blocks'
        ELSE 'new'
    END;
    IF outcome <> 'new' THEN
        RETURN;
    END IF;
    INSERT INTO follows (follower, followee, seq, at)
    SELECT p_reader, p_author, nextval('follows_seq'), p_now FROM users WHERE id = p_reader AND following < p_max
    ON CONFLICT DO NOTHING RETURNING seq INTO new_seq;
    IF NOT FOUND THEN
        outcome := CASE
            WHEN EXISTS (SELECT FROM follows WHERE follower = p_reader AND followee = p_author) THEN 'unchanged'
            ELSE 'full'
        END;
        RETURN;
    END IF;
    INSERT INTO followers (followee, follower, seq) VALUES (p_author, p_reader, new_seq);
    UPDATE users SET following = following + (id = p_reader)::int, followers = followers + (id = p_author)::int
    WHERE id IN (p_reader, p_author);
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

-- Removes a follow and submits its job. Returns the job; NULL: it did not exist.
CREATE OR REPLACE FUNCTION feedline_unfollow(p_reader text, p_author text, p_job text, p_now bigint)
RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
    PERFORM feedline_lock_users(p_reader, p_author);
    IF feedline_remove_follow(p_reader, p_author) THEN
        RETURN feedline_submit_job(p_job, p_now);
    END IF;
    RETURN NULL;
END $$;
