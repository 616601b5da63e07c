-- Jobs that carry a change of visibility say what it was before and after, so that only those users are written to for whom
-- it changed. Nodes of an older version ignore the member.
CREATE OR REPLACE FUNCTION feedline_edit_post(
    which bigint, whose text, new_topics text[], new_visibility text, is_public boolean, new_body text, now_at bigint,
    for_holder text, until bigint, OUT made bigint[], OUT old_topics text[], OUT old_visibility text
) LANGUAGE plpgsql AS $$
DECLARE
    change json;
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
        change := json_build_object(
            'post', which, 'author', whose,
            'change', json_build_object('before', old_visibility::json, 'after', new_visibility::json));
        made := made
            || feedline_job(json_build_object('narrow', change)::text, whose, false, now_at, for_holder, until)
            || feedline_job(json_build_object('widen', change)::text, whose, true, now_at, for_holder, until);
    END IF;
END $$;
