//! The posts of a timeline: the posts of many authors, merged, newest first.
//!
//! The posts of each author are sorted in an index. If an estimate of the lowest id on the page is given, the statement
//! reads all posts above it (`near`): one look-up for each author, most of which return nothing. The lower bound of
//! these look-ups matters: without it, PostgreSQL reads a whole index page for each author, whatever the limit is (300
//! followees: 2.5 to 3.4 ms instead of 1.0 to 1.5).
//!
//! If the estimate was too high, far too low or not given, the statement reads a few ids of each author: twice the
//! author's share of the page. The lowest of the newest ids read so far (`bound`) is a lower bound of the page, so more
//! is read only of authors all of whose ids lie above it, and only down to it. An author costs one or two look-ups, a
//! post on the page a few steps, and older posts nothing.

/// The newest posts below `$2` by `$1` and the users that `$1` follows, at most `$3`, without authors that `$1` mutes
/// or that hide from `$1`. `$4` estimates the lowest id on the page; 0: unknown. If `$5` is not 0, the estimate is `$4`
/// less `$5` divided by the number of authors. Whether `$1` mutes anyone is read once, because most readers mute
/// nobody.
///
/// Each row has the number of authors and whether the estimate was right as well.
pub(super) const TIMELINE: &str = "\
    WITH authors AS MATERIALIZED (
        SELECT followee AS author FROM follows WHERE follower = $1
            AND (NOT EXISTS (SELECT FROM restrictions WHERE maker = $1 AND kind = 'mute')
                OR NOT EXISTS (
                    SELECT FROM restrictions WHERE maker = $1 AND kind = 'mute' AND target = followee OFFSET 0))
            AND (NOT EXISTS (SELECT FROM restricted_by WHERE target = $1 AND kind = 'hide')
                OR NOT EXISTS (
                    SELECT FROM restricted_by WHERE target = $1 AND kind = 'hide' AND maker = followee OFFSET 0))
        UNION SELECT $1
    ), low AS MATERIALIZED (
        SELECT CASE WHEN $5::bigint > 0 THEN greatest(1, $4 - $5 / (SELECT count(*) FROM authors)) ELSE $4::bigint END
            AS post
    ), near AS MATERIALIZED (
        SELECT newest.post FROM authors CROSS JOIN LATERAL (
            SELECT post FROM author_posts
            WHERE author_posts.author = authors.author AND post < $2 AND post > (SELECT post FROM low)
            ORDER BY post DESC LIMIT $3
        ) newest
        WHERE (SELECT post FROM low) > 0
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
    SELECT post, (SELECT count(*) FROM authors), (SELECT enough FROM enough) FROM (
        SELECT post FROM near WHERE (SELECT enough FROM enough)
        UNION ALL SELECT post FROM few UNION ALL SELECT post FROM more ORDER BY post DESC LIMIT $3
    ) page";
