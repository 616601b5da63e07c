//! The posts of an author that are visible to a viewer.

/// Merges the newest posts of each audience that the viewer belongs to. The scan stops at `stop`, the last of the posts
/// hidden by `not_to` that it may read: below it the result is incomplete.
pub(super) const VISIBLE: &str = "\
    WITH rights AS MATERIALIZED (
        SELECT open, open AND follows AS follows, open AND follows AND followed AS friends FROM (SELECT
            NOT EXISTS (SELECT FROM restrictions WHERE maker = $2 AND kind = 'block' AND target = $1)
            AND NOT EXISTS (SELECT FROM restrictions WHERE maker = $1 AND kind = 'hide' AND target = $2)
            AND NOT EXISTS (SELECT FROM restrictions WHERE maker = $1 AND kind = 'block' AND target = $2) AS open,
            EXISTS (SELECT FROM follows WHERE follower = $2 AND followee = $1) AS follows,
            EXISTS (SELECT FROM follows WHERE follower = $1 AND followee = $2) AS followed
        ) between_them
    ), stop AS MATERIALIZED (
        SELECT post FROM audience_posts
        WHERE author = $1 AND kind = 'not_to' AND viewer = $2 AND post < $3 AND (SELECT open FROM rights)
        ORDER BY post DESC LIMIT 1 OFFSET $5::bigint - 1
    )
    SELECT post, is_stop FROM (
        (SELECT id AS post, false AS is_stop FROM posts
         WHERE author = $1 AND visibility = '\"public\"' AND deleted_at IS NULL AND id < $3
           AND (SELECT open FROM rights)
         ORDER BY id DESC LIMIT $4)
        UNION ALL
        (SELECT post, false FROM audience_posts
         WHERE author = $1 AND kind = 'followers' AND viewer = '' AND post < $3 AND (SELECT follows FROM rights)
         ORDER BY post DESC LIMIT $4)
        UNION ALL
        (SELECT post, false FROM audience_posts
         WHERE author = $1 AND kind = 'friends' AND viewer = '' AND post < $3 AND (SELECT friends FROM rights)
         ORDER BY post DESC LIMIT $4)
        UNION ALL
        (SELECT post, false FROM audience_posts
         WHERE author = $1 AND kind = 'only_to' AND viewer = $2 AND post < $3 AND (SELECT follows FROM rights)
         ORDER BY post DESC LIMIT $4)
        UNION ALL
        (SELECT post, false FROM audience_posts one
         WHERE author = $1 AND kind = 'not_to' AND viewer = '' AND post < $3
           AND post > coalesce((SELECT post FROM stop), 0) AND (SELECT open FROM rights)
           AND NOT EXISTS (
               SELECT FROM audience_posts named
               WHERE named.author = $1 AND named.kind = 'not_to' AND named.viewer = $2
                 AND named.post = one.post OFFSET 0
           )
         ORDER BY post DESC LIMIT $4)
        UNION ALL
        SELECT post, true FROM stop
    ) merged
    ORDER BY post DESC LIMIT $4";
