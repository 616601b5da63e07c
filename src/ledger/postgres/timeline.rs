//! What a timeline consists of: the posts of many authors merged, newest first.
//!
//! Each author's posts lie in an index in the right order. If the page probably reaches no further down than to some
//! id, what everyone wrote above that one is read (`near`): mostly one look-up an author that finds nothing, and the
//! page. It matters that the look-up is bounded below: of each author PostgreSQL reads all that fits on a page of the
//! index, whatever the limit is, which took more than twice as long (300 followees: 2.5 to 3.4 ms instead of 1.0 to
//! 1.5).
//!
//! Where that was too little, or far too much, or nobody knows how far down it goes, a few ids are read from everyone:
//! twice the fair share. The page cannot reach below the last of the newest so far (`bound`), so more is needed only
//! from those whose few all lie above it, and no further down than there. An author costs one look-up, or two, a post
//! on the page a few steps, and what lies below the page nothing.

/// The posts below `$2` of those whom `$1` follows and of `$1`, `$3` at most; none of those whom `$1` mutes, or who
/// hide from `$1`. They probably lie above `$4`; 0 if nobody knows. Most readers mute nobody, which is asked once.
pub(super) const TIMELINE: &str = "\
    WITH authors AS MATERIALIZED (
        SELECT followee AS author FROM follows WHERE follower = $1
            AND (NOT EXISTS (SELECT FROM restrictions WHERE maker = $1 AND kind = 'mute')
                OR NOT EXISTS (
                    SELECT FROM restrictions WHERE maker = $1 AND kind = 'mute' AND whom = followee OFFSET 0))
            AND (NOT EXISTS (SELECT FROM restricted_by WHERE whom = $1 AND kind = 'hide')
                OR NOT EXISTS (
                    SELECT FROM restricted_by WHERE whom = $1 AND kind = 'hide' AND maker = followee OFFSET 0))
        UNION SELECT $1
    ), near AS MATERIALIZED (
        SELECT newest.post FROM authors CROSS JOIN LATERAL (
            SELECT post FROM author_posts
            WHERE author_posts.author = authors.author AND post < $2 AND post > $4
            ORDER BY post DESC LIMIT $3
        ) newest
        WHERE $4 > 0
        LIMIT 4 * $3::bigint + 1
    ), enough AS MATERIALIZED (
        SELECT count(*) BETWEEN $3 AND 4 * $3::bigint AS enough FROM near
    ), chunk AS MATERIALIZED (
        SELECT least($3::bigint, greatest(2, 2 * $3::bigint / count(*))) AS size FROM authors
    ), few AS MATERIALIZED (
        SELECT authors.author, newest.post FROM authors CROSS JOIN LATERAL (
            SELECT post FROM author_posts
            WHERE author_posts.author = authors.author AND post < $2
            ORDER BY post DESC LIMIT (SELECT size FROM chunk)
        ) newest
        WHERE NOT (SELECT enough FROM enough)
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
    SELECT post FROM near WHERE (SELECT enough FROM enough)
    UNION ALL SELECT post FROM few UNION ALL SELECT post FROM more ORDER BY post DESC LIMIT $3";
