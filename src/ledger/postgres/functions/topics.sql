-- revision: 2
-- The topics of posts.

-- Moves a post from its old topics to the new ones. `p_folded` are the names of these as they are searched.
CREATE OR REPLACE FUNCTION feedline_replace_topics(
    p_post bigint, p_old_topics text[], p_new_topics text[], p_folded text[], p_public boolean
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    current_topic text;
    folded_topic text;
    was_public boolean;
    newest bigint;
BEGIN
    PERFORM FROM topics WHERE name = ANY (p_old_topics || p_new_topics) ORDER BY name FOR UPDATE;
    FOR current_topic IN SELECT DISTINCT t.topic COLLATE "C" FROM unnest(p_old_topics) AS t (topic) ORDER BY 1 LOOP
        DELETE FROM post_topics WHERE topic = current_topic AND post = p_post RETURNING public INTO was_public;
        IF FOUND AND was_public THEN
            SELECT post INTO newest FROM post_topics WHERE topic = current_topic AND public ORDER BY post DESC LIMIT 1;
            IF FOUND THEN
                UPDATE topics SET posts = posts - 1, last = newest WHERE name = current_topic;
            ELSE
                DELETE FROM topics WHERE name = current_topic;
            END IF;
        END IF;
    END LOOP;
    FOR current_topic, folded_topic IN
        SELECT DISTINCT t.topic COLLATE "C", t.folded FROM unnest(p_new_topics, p_folded) AS t (topic, folded)
        ORDER BY 1
    LOOP
        INSERT INTO post_topics (topic, post, public) VALUES (current_topic, p_post, p_public);
        IF p_public THEN
            INSERT INTO topics (name, folded, posts, last) VALUES (current_topic, folded_topic, 1, p_post)
            ON CONFLICT (name) DO UPDATE SET posts = topics.posts + 1, last = greatest(topics.last, excluded.last);
        END IF;
    END LOOP;
END $$;

-- Adds a topic to those that a user follows, unless the user follows `p_max` others. Returns whether the user follows
-- it.
CREATE OR REPLACE FUNCTION feedline_follow_topic(p_user text, p_topic text, p_now bigint, p_max bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM users WHERE id = p_user FOR NO KEY UPDATE;
    INSERT INTO topic_follows (follower, topic, at) SELECT p_user, p_topic, p_now
    WHERE (SELECT count(*) FROM topic_follows WHERE follower = p_user AND topic <> p_topic) < p_max
    ON CONFLICT DO NOTHING;
    RETURN EXISTS (SELECT FROM topic_follows WHERE follower = p_user AND topic = p_topic);
END $$;
