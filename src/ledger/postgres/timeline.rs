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

/// The users whose posts are in the timeline of `$1`: those that `$1` follows, and `$1`, without users that `$1` mutes
/// or has in an exclusive list, or that hide from `$1`. Whether `$1` mutes anyone is read once, because most readers
/// mute nobody.
#[rustfmt::skip]
macro_rules! authors {
    () => {
        "SELECT followee AS author FROM follows WHERE follower = $1
            AND (NOT EXISTS (SELECT FROM restrictions WHERE maker = $1 AND kind = 'mute')
                OR NOT EXISTS (
                    SELECT FROM restrictions WHERE maker = $1 AND kind = 'mute' AND target = followee OFFSET 0))
            AND (NOT EXISTS (SELECT FROM restrictions WHERE maker = $1 AND kind = 'listed')
                OR NOT EXISTS (
                    SELECT FROM restrictions WHERE maker = $1 AND kind = 'listed' AND target = followee OFFSET 0))
            AND (NOT EXISTS (SELECT FROM restricted_by WHERE target = $1 AND kind = 'hide')
                OR NOT EXISTS (
                    SELECT FROM restricted_by WHERE target = $1 AND kind = 'hide' AND maker = followee OFFSET 0))
        UNION SELECT $1"
    };
}

/// The newest posts below `$2` by the [`authors!`] in the timeline of `$1`, at most `$3`. `$4` estimates the lowest id
/// on the page; 0: unknown. If `$5` is not 0, the estimate is `$4` less `$5` divided by the number of authors.
///
/// Each row has the number of authors and whether the estimate was right as well.
pub(super) const TIMELINE: &str = concat!(
    "WITH authors AS MATERIALIZED (",
    authors!(),
    "), low AS MATERIALIZED (
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
    ) page"
);

/// Builds a statement that returns the newest posts below `$2` by some users, and the public ones of some topics, at
/// most `$3`, each once. As [`TIMELINE`] without an estimate: a few ids of each, and more only of those all of whose
/// ids lie above the page's lower bound. `$users` and `$topics` select their names.
macro_rules! gathered_posts {
    ($users:expr, $topics:expr $(,)?) => {
        concat!(
            "WITH users AS MATERIALIZED (",
            $users,
            "), topics AS MATERIALIZED (",
            $topics,
            "), chunk AS MATERIALIZED (
                SELECT least($3::bigint, greatest(2, 2 * $3::bigint / greatest(1, count(*)))) AS size FROM (
                    SELECT FROM users UNION ALL SELECT FROM topics
                ) members
            ), few AS MATERIALIZED (
                SELECT m.author AS name, true AS is_user, newest.post FROM users m CROSS JOIN LATERAL (
                    SELECT post FROM author_posts WHERE author_posts.author = m.author AND post < $2
                    ORDER BY post DESC LIMIT (SELECT size FROM chunk)
                ) newest
                UNION ALL
                SELECT m.topic, false, newest.post FROM topics m CROSS JOIN LATERAL (
                    SELECT post FROM post_topics WHERE post_topics.topic = m.topic AND public AND post < $2
                    ORDER BY post DESC LIMIT (SELECT size FROM chunk)
                ) newest
            ), bound AS MATERIALIZED (
                SELECT post FROM few GROUP BY post ORDER BY post DESC LIMIT 1 OFFSET greatest($3::bigint - 1, 0)
            ), unfinished AS MATERIALIZED (
                SELECT name, is_user, min(post) AS oldest FROM few GROUP BY name, is_user
                HAVING count(*) = (SELECT size FROM chunk) AND min(post) > coalesce((SELECT post FROM bound), 0)
            ), more AS MATERIALIZED (
                SELECT older.post FROM unfinished CROSS JOIN LATERAL (
                    SELECT post FROM author_posts
                    WHERE author = unfinished.name
                      AND post < unfinished.oldest AND post > coalesce((SELECT post FROM bound), 0)
                    ORDER BY post DESC LIMIT $3 - (SELECT size FROM chunk)
                ) older
                WHERE unfinished.is_user
                UNION ALL
                SELECT older.post FROM unfinished CROSS JOIN LATERAL (
                    SELECT post FROM post_topics
                    WHERE topic = unfinished.name AND public
                      AND post < unfinished.oldest AND post > coalesce((SELECT post FROM bound), 0)
                    ORDER BY post DESC LIMIT $3 - (SELECT size FROM chunk)
                ) older
                WHERE NOT unfinished.is_user
            )
            SELECT post FROM (SELECT post FROM few UNION ALL SELECT post FROM more) merged
            GROUP BY post ORDER BY post DESC LIMIT $3"
        )
    };
}

pub(super) use gathered_posts;

/// The newest posts below `$2` by the [`authors!`] in the timeline of `$1`, and the public ones of the topics that `$1`
/// follows, at most `$3`.
pub(super) const WITH_TOPICS: &str = gathered_posts!(authors!(), "SELECT topic FROM topic_follows WHERE follower = $1");
