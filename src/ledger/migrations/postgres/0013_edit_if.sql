-- An edit replaces a post only if nobody else edited it since it was read.

-- Replaces a post whose `edited_at` is `base` (NULL: never edited). `conflict` says that it is another; nothing changed then.
-- `made` is NULL if there is no such post.
--
-- The version is read from the end of the body, where it is the last member: parsing the JSON would refuse posts that
-- contain an escaped NUL.
CREATE FUNCTION feedline_edit_post_if(
    which bigint, whose text, base bigint, new_topics text[], new_visibility text, is_public boolean, new_body text,
    now_at bigint, for_holder text, until bigint,
    OUT made bigint[], OUT old_topics text[], OUT old_visibility text, OUT conflict boolean
) LANGUAGE plpgsql AS $$
DECLARE
    version bigint;
BEGIN
    conflict := false;
    PERFORM feedline_lock(whose, whose);
    SELECT substring(body FROM '"edited_at":([0-9]+)\}$')::bigint INTO version FROM posts
    WHERE id = which AND author = whose AND deleted_at IS NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF version IS DISTINCT FROM base THEN
        conflict := true;
        RETURN;
    END IF;
    SELECT edit.made, edit.old_topics, edit.old_visibility INTO made, old_topics, old_visibility
    FROM feedline_edit_post(
        which, whose, new_topics, new_visibility, is_public, new_body, now_at, for_holder, until) edit;
END $$;
