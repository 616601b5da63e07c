//! The cost of statements, and the settings of connections.

mod fanout_jobs;
mod list_costs;
mod pool;

use feedline_test_support::postgres_server::{PostgresServer, shared};

use super::endpoint::Endpoint;
use super::{
    PostgresLedger, PostgresOptions, PostgresUrl, comments, conversations, counts, edges, favourites, filters,
    hydration, likes, lists, notifications, people, personal, posts, previews, pull_log, relations, reposts,
    restrictions, timeline, topics, visible_posts,
};
use crate::ledger::{
    BulkLoad as _, CountStore as _, Durability, Ledger as _, PeopleStore as _, PersonalData, PostStore as _,
};
use crate::model::{Post, PostFlags, PostId, UserId};

/// The cost of a statement: the rows read through indexes, as counted by the server.
struct Cost {
    /// The whole plan, for failure messages.
    plan: String,
    rows: f64,
}

async fn ledger(server: &PostgresServer) -> (PostgresLedger, String) {
    let name = server.database("template1").await;
    let url = PostgresUrl::parse(&server.url(&name)).expect("a URL");
    let options = PostgresOptions { durability: Durability::Normal, connections: 1, ..PostgresOptions::new(url) };
    (PostgresLedger::open(options).await.expect("it opens"), name)
}

/// Runs a statement with the connection settings of the ledger and reads its plan. Fails if a table is read without an
/// index.
async fn cost(ledger: &PostgresLedger, sql: &str, arguments: &str) -> Cost {
    let client = ledger.endpoint().connect(|| ()).await.expect("a connection");
    client.batch_execute(&format!("PREPARE asked AS {sql}")).await.expect(sql);
    let explain = format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE asked ({arguments})");
    let lines = client.simple_query(&explain).await.expect("a plan");
    let line = |message: &tokio_postgres::SimpleQueryMessage| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    let lines: Vec<String> = lines.iter().filter_map(line).collect();
    let plan = lines.join("\n");
    let mut rows = 0.0;
    for line in lines.iter().filter(|line| line.contains("Scan") && line.contains("(actual")) {
        assert!(!line.contains("Seq Scan"), "{plan}");
        if line.contains("Index") {
            let number = |name: &str| -> f64 {
                let rest = line.split_once(name).map_or("0", |(_, rest)| rest);
                rest.split([' ', ')']).next().and_then(|number| number.parse().ok()).unwrap_or(0.0)
            };
            rows += number("rows=") * number("loops=");
        }
    }
    Cost { plan, rows }
}

fn id(text: &str) -> UserId {
    UserId::parse(text).expect("a user id")
}

#[tokio::test]
async fn every_list_is_read_from_one_partition_in_its_order() {
    let (ledger, _) = ledger(shared()).await;
    let lists = [
        (edges::FOLLOWERS, "'u', 9, 9", 1),
        (edges::FOLLOWING, "'u', 9, 9", 1),
        // The follows, and the look-up of each in the other direction.
        (edges::SHARED, "'u', 'v', 9, 9", 2),
        (restrictions::RESTRICTED, "'u', 'hide', 9, 'a', 9", 1),
        (edges::FANOUT, "'u', 'a', 9", 1),
        (edges::FOLLOWEES, "'u', 9", 1),
        (posts::BY_AUTHOR, "'u', 9, 9", 1),
        (posts::BY_TOPIC, "'t', 9, 9", 1),
        (lists::USERS, "1, 9, 'a', 9", 1),
        (lists::TOPICS, "1", 1),
        (comments::IN_THREAD, "1, 0, 9, 9", 1),
        (comments::IN_THREAD_AFTER, "1, 0, 9, 9", 1),
        (likes::LIKERS, "1, 9, 9", 1),
        (likes::COMMENT_LIKERS, "1, 9, 'u', 9", 1),
        (pull_log::AMONG, "'u', '{a,b}'", 1),
        (favourites::LIST, "'u', 'post', 9, 9", 1),
        (favourites::AMONG, "'u', 'post', '{a,b}'", 1),
        (favourites::HOLDERS, "'post', 'a', 9, 9", 1),
        // The groups, their people and contents; the unread ones begin with the first place, found before.
        (notifications::LIST, "'u', 9, 9, 9", 3),
        (notifications::UNREAD, "'u', 9, 9", 4),
    ];
    for (sql, arguments, tables) in lists {
        let Cost { plan, .. } = cost(&ledger, sql, arguments).await;
        let is_partition = |line: &&str| {
            let index = line.contains("Index") && line.contains("Scan");
            index && !line.contains(" on users ") && !line.contains(" on notified ")
        };
        assert_eq!(plan.lines().filter(is_partition).count(), tables, "{sql}\n{plan}");
        // Below the limit nothing is sorted; only the page itself may be.
        let sorts = plan
            .lines()
            .skip_while(|line| !line.contains("Limit"))
            .any(|line| line.trim_start_matches([' ', '-', '>']).starts_with("Sort ("));
        assert!(!sorts, "{sql}\n{plan}");
    }
    for (sql, arguments) in [
        (comments::COMMENTS, "'{1,2}'"),
        (comments::LINES, "'{1,2}'"),
        (likes::LIKED_COMMENTS, "'u', '{1,2}'"),
        (counts::COUNTS, "'{1,2}'"),
        (hydration::HYDRATE, "'{u,v}', '{1,2}', '{1,2}', '{a,b}'"),
        (previews::NEWEST, "'{1,2}', 9, 9"),
        (posts::RESTRICTED_IN_TIMELINE, "'u', 9"),
        (people::SEARCH, "'a', 'b', 'a', '', 9"),
        (people::SECOND_DEGREE, "'u', 9, 9, 9"),
        (people::PROFILE, "'u', 'v', 9, 9"),
        (visible_posts::VISIBLE, "'u', 'v', 9, 9, 9"),
        (favourites::COMMON, "'u', 'post', 9, 'v', 9"),
        (favourites::COMMON_COUNT, "'u', 'v', 'post'"),
        (topics::RECENT, "9, 'a', 9"),
        (topics::SEARCH, "'a', 'a', 'b', 9"),
        (topics::GO_ON, "9, 9, 'a', 9, 9"),
        (conversations::MUTED, "'{a,b}', '{1,2}'"),
        (filters::OF, "'{a,b}'"),
        (relations::RELATIONS, "'{a,b}', '{c,d}'"),
        (edges::MERGE_SOURCES, "'{a,b}', '{c,d}', 9"),
        (restrictions::WITH_RESTRICTIONS, "'{a,b}'"),
        (restrictions::DUE_MUTES, "9, 9"),
        (reposts::NEWEST, "'{1,2}', 9"),
        (reposts::OF_POST, "1, 9, 9"),
        (reposts::AMONG, "'{1,2}', '{a,b}'"),
        (reposts::QUOTES, "1, 9, 9"),
        (reposts::DETACHED, "'{1,2}'"),
        (pull_log::FANOUT_MODE, "'u'"),
        (pull_log::AFTER, "0, 9"),
        (pull_log::DUE, "'u', 0, 9"),
        (personal::COMMENTS, "'u', 9, 9"),
    ] {
        cost(&ledger, sql, arguments).await;
    }
    for data in PersonalData::ALL {
        if let Some(sql) = personal::by_number(data) {
            cost(&ledger, sql, "'u', 9, 9").await;
        }
        if let Some(sql) = personal::by_texts(data) {
            cost(&ledger, sql, "'u', 'a', 'b', 9").await;
        }
    }
    ledger.close().await;
}

#[tokio::test]
async fn timeline_cost_does_not_depend_on_total_posts() {
    let server = shared();
    let (ledger, name) = ledger(server).await;
    let me = id("me");
    let authors = (0..200).map(|n| id(&format!("a{n}"))).collect::<Vec<_>>();
    ledger.load_users(std::slice::from_ref(&me), 1).await.expect("a user");
    ledger.load_users(&authors, 1).await.expect("users");
    let edges: Vec<_> = authors.iter().map(|author| (me.clone(), author.clone())).collect();
    ledger.load_follows(&edges, 1).await.expect("edges");
    // All authors have many old posts; nearly all recent posts are by one author.
    let written = "INSERT INTO author_posts SELECT 'a' || a, 1000 * n + a \
                   FROM generate_series(0, 199) a, generate_series(1, 100) n; \
                   INSERT INTO author_posts SELECT 'a7', n FROM generate_series(1000000, 1005000) n; \
                   INSERT INTO posts SELECT n, 'a7', '{}', '', '{}' FROM generate_series(1000000, 1005000) n";
    server.ask(&name, written).await;
    for (before, likely, some, most) in [
        // No estimate of the oldest post on the page. Read: one follow for each followee, two posts of each, and at
        // most one page of the followees with more posts.
        ("9000000", 0, 400.0, 1_600.0),
        ("90000", 0, 400.0, 1_600.0),
        ("1000100", 0, 400.0, 1_600.0),
        // A correct estimate. Read: one follow and one look-up for each followee, and the posts found. The plan
        // contains averages.
        ("90000", 89_100, 200.0, 550.0),
        // A wrong estimate, too new or far too old. At most a few pages are read in vain.
        ("90000", 89_990, 400.0, 1_900.0),
        ("90000", 1, 400.0, 2_200.0),
        ("1005000", 1, 400.0, 2_200.0),
    ] {
        let Cost { plan, rows } = cost(&ledger, timeline::TIMELINE, &format!("'me', {before}, 50, {likely}, 0")).await;
        assert!(rows > some && rows < most, "{rows} rows before {before}, thought to be above {likely}\n{plan}");
    }
    let wanted: Vec<String> = (1_000_000..1_000_050).map(|id| id.to_string()).collect();
    let Cost { plan, rows } = cost(&ledger, posts::POSTS, &format!("'{{{}}}'", wanted.join(","))).await;
    assert!((50.0..60.0).contains(&rows), "{rows} rows\n{plan}");
    ledger.close().await;
}

#[tokio::test]
async fn everybodys_posts_are_paged_by_an_index_without_the_others() {
    let server = shared();
    let (ledger, name) = ledger(server).await;
    // Of each 1,000 posts the first 30 are public. The others are restricted, and every other one is deleted.
    let written = "INSERT INTO posts (id, author, topics, visibility, body, deleted_at) SELECT n, 'ann', '{}', \
                   CASE WHEN n % 1000 < 30 THEN '\"public\"' ELSE '\"friends\"' END, '{}', \
                   CASE WHEN n % 2 = 1 AND n % 1000 >= 30 THEN 1 END FROM generate_series(1, 20000) n; \
                   ANALYZE posts";
    server.ask(&name, written).await;
    for before in ["9000000", "19015", "15000", "1010"] {
        // The page, and the next post of each partition.
        let Cost { plan, rows } = cost(&ledger, posts::PUBLIC, &format!("{before}, 9")).await;
        assert!(
            rows <= 9.0 + 16.0 && !plan.contains("Removed by Filter") && !plan.contains("Sort ("),
            "{rows}\n{plan}"
        );
    }
    ledger.close().await;
}

#[tokio::test]
async fn the_likes_and_comments_of_a_user_are_paged_by_indexes() {
    let server = shared();
    let (ledger, name) = ledger(server).await;
    // Others like and comment the same posts.
    let written = "INSERT INTO likes (post, owner, seq, at) \
                   SELECT n, 'me', n, 0 FROM generate_series(1, 4200) n \
                   UNION ALL SELECT n % 4200, 'a' || n, n, 0 FROM generate_series(5000, 20000) n; \
                   INSERT INTO comments (post, id, parent, depth, author, text) \
                   SELECT n % 500, n, 0, 0, CASE WHEN n % 5 = 0 THEN 'me' ELSE 'a' || n % 99 END, '' \
                   FROM generate_series(1, 21000) n; \
                   ANALYZE likes; ANALYZE comments";
    server.ask(&name, written).await;
    for sql in [likes::LIKES_BY, comments::BY_AUTHOR] {
        // The first page, and page 200.
        for before in ["9000000", "221"] {
            let Cost { plan, rows } = cost(&ledger, sql, &format!("'me', {before}, 21")).await;
            let is_direct = !plan.contains("Removed by Filter") && !plan.contains("Sort (");
            assert!(rows <= 21.0 + 16.0 && is_direct, "{rows} rows before {before}\n{plan}");
        }
    }
    ledger.close().await;
}

#[tokio::test]
async fn reader_cost_does_not_depend_on_total_pulled_posts() {
    let server = shared();
    let (ledger, name) = ledger(server).await;
    // A few authors wrote the whole log, and the planner has statistics about it.
    let written = "INSERT INTO follows SELECT 'me', 'a' || n, n, 0 FROM generate_series(0, 99) n; \
                   INSERT INTO pulled SELECT n, n, 'a' || (n % 10), 'p', n, false, 0 FROM generate_series(1, 50000) n; \
                   INSERT INTO comments (post, id, parent, depth) \
                   SELECT 1, n, CASE WHEN n = 7 THEN 6 WHEN n % 2 = 0 THEN 0 ELSE 2 END, 0 \
                   FROM generate_series(1, 9000) n; \
                   ANALYZE";
    server.ask(&name, written).await;
    for (mark, most) in [("49980", 200.0), ("0", 800.0)] {
        let Cost { plan, rows } = cost(&ledger, pull_log::DUE, &format!("'me', {mark}, 50")).await;
        assert!(rows > 100.0 && rows < most && !plan.contains("Removed by Filter"), "{rows} rows\n{plan}");
    }
    for (sql, arguments) in [(pull_log::FANOUT_MODE, "'me'"), (comments::IN_THREAD, "1, 6, 99999, 50")] {
        let Cost { plan, rows } = cost(&ledger, sql, arguments).await;
        assert!(rows < 5.0 && !plan.contains("Removed by Filter"), "{rows} rows\n{plan}");
    }
    ledger.close().await;
}

#[tokio::test]
async fn commits_use_the_requested_durability() {
    let server = shared();
    let name = server.database("template1").await;
    let url = PostgresUrl::parse(&server.url(&name)).expect("a URL");
    for (of_the_server, durability, expected) in [
        ("on", Durability::Full, "on"),
        ("on", Durability::Normal, "off"),
        ("off", Durability::Full, "on"),
        ("off", Durability::Normal, "off"),
        // The server's setting is stronger than the one requested.
        ("remote_apply", Durability::Full, "remote_apply"),
    ] {
        server.ask(&name, &format!("ALTER DATABASE {name} SET synchronous_commit = '{of_the_server}'")).await;
        let options = PostgresOptions { durability, ..PostgresOptions::new(url.clone()) };
        let client = Endpoint::new(&options).expect("a place").connect(|| ()).await.expect("a connection");
        let row = client.query_one("SHOW synchronous_commit", &[]).await.expect("an answer");
        assert_eq!(row.get::<_, &str>(0), expected, "{durability:?}, where the server says {of_the_server}");
    }
}

#[tokio::test]
async fn page_cost_does_not_depend_on_hidden_posts() {
    let server = shared();
    let (ledger, name) = ledger(server).await;
    let authors = ["open", "followers", "friends", "only_to", "not_to", "excluded", "hides"];
    ledger.load_users(&authors.map(id), 1).await.expect("users");
    ledger.load_users(&[id("v"), id("x")], 1).await.expect("users");
    ledger.load_follows(&["only_to", "friends"].map(|author| (id("v"), id(author))), 1).await.expect("edges");
    // The statement is planned without statistics, and again after `ANALYZE`.
    let page = "'v', 1099511627776, 21, 1000";
    let written = r#"INSERT INTO restrictions (maker, kind, target, at) VALUES ('hides', 'hide', 'v', 0);
        INSERT INTO posts (id, author, topics, visibility, body) SELECT 10000 * place + n, author, '{}', kind, '{}'
        FROM generate_series(1, 3000) n CROSS JOIN (VALUES
            (1, 'open', '"public"'), (2, 'followers', '"followers"'), (3, 'friends', '"friends"'),
            (4, 'only_to', '{"only_to":["x"]}'), (5, 'not_to', '{"not_to":["x"]}'), (6, 'excluded', '{"not_to":["v"]}'),
            (7, 'hides', '"public"')) AS t (place, author, kind)"#;
    server.ask(&name, written).await;
    for is_analyzed in [false, true] {
        let mut most = (0.0, 0.0);
        for author in authors {
            let profile = cost(&ledger, people::PROFILE, &format!("'{author}', 'v', 1000, 9")).await;
            let page = cost(&ledger, visible_posts::VISIBLE, &format!("'{author}', {page}")).await;
            if author == "open" {
                most = (3.0 * profile.rows + 10.0, 3.0 * page.rows);
            }
            // If the author names the viewer in `not_to`, each scan is bounded.
            let bound = if author == "excluded" { 1_000.0 } else { 0.0 };
            assert!(profile.rows <= most.0 + bound, "{author}: {} rows\n{}", profile.rows, profile.plan);
            assert!(page.rows <= most.1 + 3.0 * bound, "{author}: {} rows\n{}", page.rows, page.plan);
            let removed = page.plan.contains("Removed by Filter") && author != "excluded";
            assert!(!removed, "{author}\n{}", page.plan);
        }
        if !is_analyzed {
            server.ask(&name, "ANALYZE").await;
        }
    }
    ledger.close().await;
}

#[tokio::test]
async fn deep_pages_cost_as_much_as_the_first() {
    let server = shared();
    let (ledger, name) = ledger(server).await;
    let written = "INSERT INTO users (id, name, created_at) SELECT 'u' || n, 'u', 1 FROM generate_series(0, 4999) n; \
                   INSERT INTO follows SELECT 'v', 'u' || n, n, 1 FROM generate_series(0, 4999) n; \
                   INSERT INTO followers SELECT 'v', 'u' || n, n FROM generate_series(0, 4999) n; \
                   INSERT INTO restrictions (maker, kind, target, at) \
                   SELECT 'v', kind, 'u' || n, n
                   FROM generate_series(0, 4999) n, unnest('{hide,mute,block,reposts,listed}'::text[]) kind; \
                   INSERT INTO list_users SELECT 1, 'u' || n, n FROM generate_series(0, 4999) n; \
                   INSERT INTO comments (post, id, parent, depth, author, text) \
                   SELECT 1, 10 + 2 * n, 0, 0, 'v', '' FROM generate_series(0, 4999) n; \
                   INSERT INTO comments (post, id, parent, depth, author, text) \
                   SELECT 1, 11 + 2 * n, 10, 1, 'u1', '' FROM generate_series(0, 4999) n; \
                   INSERT INTO likes SELECT 1, 'u' || n, n + 1, n FROM generate_series(0, 4999) n; \
                   INSERT INTO likes SELECT n + 1, 'v', 5001 + n, n FROM generate_series(0, 4999) n; \
                   INSERT INTO comment_likes SELECT 10, 'u' || n, n FROM generate_series(0, 4999) n";
    server.ask(&name, written).await;
    // The statements are planned without statistics, and again after `ANALYZE`.
    for is_analyzed in [false, true] {
        for (sql, first, deep) in [
            (edges::SHARED, "'v', 'v', 9999, 21", "'v', 'v', 1000, 21"),
            (restrictions::RESTRICTED, "'v', 'mute', 9999, '', 21", "'v', 'mute', 1000, '', 21"),
            (lists::USERS, "1, 9999, '', 21", "1, 1000, '', 21"),
            // Comments on a post; between them are replies to the first of them.
            (comments::IN_THREAD, "1, 0, 99999, 21", "1, 0, 500, 21"),
            (comments::IN_THREAD_AFTER, "1, 0, 0, 21", "1, 0, 9500, 21"),
            (comments::BY_AUTHOR, "'v', 99999, 21", "'v', 500, 21"),
            (likes::LIKERS, "1, 99999, 21", "1, 500, 21"),
            (likes::LIKES_BY, "'v', 99999, 21", "'v', 500, 21"),
            (likes::COMMENT_LIKERS, "10, 99999, '', 21", "10, 500, '', 21"),
        ] {
            let first = cost(&ledger, sql, first).await;
            let deep = cost(&ledger, sql, deep).await;
            assert!((21.0..100.0).contains(&first.rows), "{} rows\n{}", first.rows, first.plan);
            assert!(deep.rows <= 3.0 * first.rows, "{} rows\n{}", deep.rows, deep.plan);
            assert!(!deep.plan.contains("Removed by Filter"), "{}", deep.plan);
        }
        if !is_analyzed {
            server.ask(&name, "ANALYZE").await;
        }
    }
    ledger.close().await;
}

#[tokio::test]
async fn preview_cost_depends_on_shown_items_only() {
    let server = shared();
    let (ledger, name) = ledger(server).await;
    // Nearly all rows belong to one post, and nearly all its comments are replies.
    let written = "INSERT INTO likes SELECT 1, 'a' || n, n, 0 FROM generate_series(1, 9000) n; \
                   INSERT INTO likes SELECT n, 'a', 9000 + n, 0 FROM generate_series(2, 50) n; \
                   INSERT INTO comments (post, id, parent, depth) \
                   SELECT 1, n, CASE WHEN n < 20 THEN 0 ELSE 2 END, 0 FROM generate_series(1, 9000) n; \
                   INSERT INTO comments (post, id, parent, depth) \
                   SELECT n, 9000 + n, 0, 0 FROM generate_series(2, 50) n; \
                   ANALYZE";
    server.ask(&name, written).await;
    let posts: Vec<String> = (1..=50).map(|id| id.to_string()).collect();
    let arguments = format!("'{{{}}}', 32, 12", posts.join(","));
    let Cost { plan, rows } = cost(&ledger, previews::NEWEST, &arguments).await;
    assert!((140.0..200.0).contains(&rows) && !plan.contains("Removed by Filter"), "{rows} rows\n{plan}");
    ledger.close().await;
}

#[tokio::test]
async fn pages_that_wait_share_a_statement() {
    let server = shared();
    let (ledger, name) = ledger(server).await;
    let readers: Vec<UserId> = (1..=40).map(|n| id(&format!("u{n}"))).collect();
    ledger.load_users(&readers, 1).await.expect("users");
    let written = "INSERT INTO post_counts (post, likes) SELECT n, n FROM generate_series(1, 41) n; \
                   INSERT INTO likes SELECT n, 'u' || n, n, 0 FROM generate_series(1, 41) n";
    server.ask(&name, written).await;
    let before = ledger.round_trips();
    let posts: Vec<[PostId; 2]> = (1..=40).map(|n| [PostId(n), PostId(n + 1)]).collect();
    let page = |(reader, posts)| ledger.hydrate(Some(reader), posts, std::slice::from_ref(reader));
    let pages = futures::future::join_all(readers.iter().zip(&posts).map(|(reader, posts)| page((reader, &posts[..]))));
    for ((page, reader), posts) in pages.await.into_iter().zip(&readers).zip(&posts) {
        let mut page = page.expect("a page");
        page.counts.sort_by_key(|(post, _)| *post);
        let counts: Vec<_> = page.counts.iter().map(|(post, counts)| (*post, counts.likes)).collect();
        assert_eq!(counts, posts.map(|post| (post, post.0)));
        assert_eq!(page.flags, [(posts[0], PostFlags { liked: true, ..PostFlags::default() })]);
        assert_eq!(page.people.iter().map(|user| &user.id).collect::<Vec<_>>(), [reader]);
    }
    assert_eq!(ledger.round_trips() - before, 3, "16, 16 and 8 pages");
    ledger.close().await;
}

#[tokio::test]
async fn committing_calls_finish_without_their_caller() {
    let (ledger, _) = ledger(shared()).await;
    let ann = id("ann");
    ledger.ensure_user(&ann, 1).await.expect("a user");
    let post = Post::blank(PostId(1), ann);
    // Cancelled callers must not leave calls that count as in flight.
    for _ in 0..20 {
        let mut call = Box::pin(ledger.create_post(&post, None));
        let _ = futures::poll!(&mut call);
    }
    assert!(ledger.posts(&[]).await.expect("an answer").is_empty());
    tokio::time::timeout(std::time::Duration::from_secs(4), ledger.close()).await.expect("nothing is under way");
}
