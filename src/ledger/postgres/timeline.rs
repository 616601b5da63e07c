//! What a timeline consists of: the posts of many authors merged, newest first.
//!
//! Each author's posts lie in an index in the right order. First a few ids are read from everyone: twice the fair share.
//! The page cannot reach below the last of the newest so far (`bound`), so more is needed only from those whose few
//! all lie above it, and no further down than there. An author costs one look-up, a post on the page about one step,
//! and what lies below the page nothing.

/// The posts below `$2` of those whom `$1` follows and of `$1`, `$3` at most; none of those whom `$1` mutes, or who hide
/// from `$1`.
pub(super) const TIMELINE: &str = "\
    WITH authors AS MATERIALIZED (
        SELECT followee AS author FROM follows WHERE follower = $1
            AND NOT EXISTS (SELECT FROM barriers WHERE maker = $1 AND kind = 'mute' AND whom = followee OFFSET 0)
            AND NOT EXISTS (SELECT FROM barred WHERE whom = $1 AND kind = 'hide' AND maker = followee OFFSET 0)
        UNION SELECT $1
    ), chunk AS MATERIALIZED (
        SELECT least($3::bigint, greatest(2, 2 * $3::bigint / count(*))) AS size FROM authors
    ), few AS MATERIALIZED (
        SELECT authors.author, newest.post FROM authors CROSS JOIN LATERAL (
            SELECT post FROM author_posts
            WHERE author_posts.author = authors.author AND post < $2
            ORDER BY post DESC LIMIT (SELECT size FROM chunk)
        ) newest
    ), bound AS MATERIALIZED (
        SELECT post FROM few ORDER BY post DESC LIMIT 1 OFFSET greatest($3::bigint - 1, 0)
    ), unfinished AS MATERIALIZED (
        SELECT author, min(post) AS oldest FROM few GROUP BY author
        HAVING count(*) = (SELECT size FROM chunk) AND min(post) > coalesce((SELECT post FROM bound), 0)
    ), more AS MATERIALIZED (
        SELECT older.post FROM unfinished CROSS JOIN LATERAL (
            SELECT post FROM author_posts
            WHERE author_posts.author = unfinished.author
              AND post < unfinished.oldest AND post > coalesce((SELECT post FROM bound), 0)
            ORDER BY post DESC LIMIT $3
        ) older
    )
    SELECT post FROM few UNION ALL SELECT post FROM more ORDER BY post DESC LIMIT $3";
