//! The embedded ledger: one SQLite file with a write-ahead log, one writer with group commit, a few readers.
//!
//! | file | contents |
//! |---|---|
//! | `open` | options, pragmas |
//! | `migrations` | the schema |
//! | `lane` | the queues between async code and the threads |
//! | `writer`, `readers`, `checkpointer` | the threads |
//! | `backup` | backup and restore of the file |
//! | the others | the statements, by concept |
//!
//! Several processes may share a file: the locks of SQLite serialize their transactions.

mod author_posts;
mod backup;
mod bulk;
mod checkpointer;
mod comments;
mod conversations;
mod counts;
mod devices;
mod edges;
mod erasures;
mod errors;
mod events;
mod favourites;
mod filters;
mod follow_requests;
mod idempotency;
mod jobs;
mod lane;
mod likes;
mod lineage;
mod lists;
mod migrations;
mod nodes;
mod notification_people;
mod notification_removal;
mod notifications;
mod open;
mod open_requests;
mod outlet_log;
mod people;
mod personal;
mod posts;
mod previews;
mod pull_log;
mod pushes;
mod quarantine;
mod read_markers;
mod readers;
mod relations;
mod reports;
mod repost_counts;
mod reposts;
mod restrictions;
mod revocations;
mod rows;
mod standings;
mod suggest;
mod timeline;
mod topic_follows;
mod topics;
mod visible_posts;
mod work;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;

pub use self::backup::{CopyProgress, backup, restore};
use self::lane::{Lane, Sharing};
pub use self::open::{Durability, SqliteOptions};
use self::rows::{UNLIMITED, is_undecodable, json_text, readable, readable_page};
use self::writer::Writer;
use super::{Ledger, LedgerError, Result};

/// The ledger in one SQLite file.
pub struct SqliteLedger {
    name: String,
    /// `sqlite://` and the absolute path.
    place: String,
    timeout: Duration,
    writer: Writer,
    readers: Arc<Lane>,
    /// One thread for long reads, so that short reads do not wait for them.
    heavy: Arc<Lane>,
    /// Whether writes put their events into the queue for the outlet.
    outlet: bool,
    /// The number of calls made.
    round_trips: AtomicU64,
}

impl SqliteLedger {
    /// Opens the file, creates it if missing, and applies pending migrations.
    ///
    /// # Errors
    ///
    /// Names the file and the reason: not readable or writable, not a database, locked, or a newer schema.
    pub async fn open(options: SqliteOptions) -> Result<Self> {
        let opened = tokio::task::spawn_blocking(move || {
            let writer = Writer::start(&options)?;
            let readers = readers::start(&options, "ledger-reader", options.readers.max(1))?;
            let heavy = readers::start(&options, "ledger-heavy", 1)?;
            let name = format!("sqlite at {}", options.path.display());
            let path = options.path.canonicalize().unwrap_or_else(|_| options.path.clone());
            let place = format!("sqlite://{}", path.display());
            let timeout = options.timeout;
            let outlet = options.outlet;
            let round_trips = AtomicU64::new(0);
            Ok(Self { name, place, timeout, writer, readers, heavy, outlet, round_trips })
        });
        opened.await.map_err(|error| LedgerError::Failed(format!("opening it: {error}")))?
    }

    /// The number of transactions committed since the ledger was opened. With concurrent writers it is far below the
    /// number of writes.
    pub fn commits(&self) -> u64 {
        self.writer.commits.load(Ordering::Relaxed)
    }

    async fn read<T, F>(&self, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        self.readers.call(job).await
    }

    /// Runs a long read.
    async fn read_heavy<T, F>(&self, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        self.heavy.call(job).await
    }

    async fn write<T, F>(&self, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        self.writer.lane.call(job).await
    }

    /// Runs a large write in a transaction of its own.
    async fn write_alone<T, F>(&self, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        self.writer.lane.call_with(Sharing::Alone, job).await
    }

    /// Runs a write whose result nobody waits for in the transaction of the next other write, or alone after a moment.
    async fn write_patiently<T, F>(&self, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        self.writer.lane.call_with(Sharing::Patient, job).await
    }

    /// Applies the time limit to several calls together.
    async fn within<T>(&self, calls: impl Future<Output = Result<T>> + Send) -> Result<T> {
        tokio::time::timeout(self.timeout, calls)
            .await
            .unwrap_or_else(|_| Err(LedgerError::Unreachable(format!("no answer within {:?}", self.timeout))))
    }
}

#[async_trait]
impl Ledger for SqliteLedger {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Relaxed)
    }

    async fn ping(&self) -> Result<()> {
        let reads = self.read(|db| db.query_row("SELECT count(*) FROM schema_migrations", [], |_| Ok(())));
        // A small write: a full disk and a file that became read only accept an empty transaction.
        let writes = self.write(|db| {
            let sql =
                "INSERT INTO meta (name, value) VALUES ('probe', '1') ON CONFLICT DO UPDATE SET value = 3 - value";
            db.prepare_cached(sql)?.execute([]).map(drop)
        });
        self.within(async { tokio::try_join!(reads, writes).map(drop) }).await
    }

    async fn close(&self) {
        let [readers, heavy] = [&self.readers, &self.heavy].map(Arc::clone);
        let writer = Arc::clone(&self.writer.lane);
        let closed = tokio::task::spawn_blocking(move || {
            // The writer closes last: the last connection to close copies the write-ahead log into the file, and a
            // reader cannot do that.
            readers.close();
            heavy.close();
            writer.close();
        });
        if tokio::time::timeout(self.timeout, closed).await.is_err() {
            tracing::warn!(ledger = self.name, "the ledger did not close in time");
        }
    }
}

/// Converts a number to SQLite's signed integer. Times and ids stay far below its maximum.
fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a limit to SQLite's signed integer.
fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Converts a stored number. Feedline stores no negative ones.
fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::BulkLoad as _;
    use crate::model::PostId;

    #[tokio::test]
    async fn every_list_is_read_from_an_index_in_its_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = SqliteLedger::open(SqliteOptions::new(folder.path().join("l.db"))).await.expect("it opens");
        let lists = [
            edges::FOLLOWERS,
            edges::FOLLOWING,
            edges::SHARED,
            restrictions::RESTRICTED,
            edges::FANOUT,
            edges::NEWEST,
            author_posts::BY_AUTHOR,
            posts::BY_TOPIC,
            timeline::PUBLIC_BY_TOPIC,
            lists::USERS,
            lists::TOPICS,
            comments::IN_THREAD,
            comments::IN_THREAD_AFTER,
            comments::BY_AUTHOR,
            likes::LIKERS,
            likes::LIKES_BY,
            likes::COMMENT_LIKERS,
            previews::LIKERS,
            notification_people::NEWEST,
            notifications::LIST,
            notifications::AFTER,
            notifications::PEOPLE,
        ];
        for sql in lists {
            let explain = format!("EXPLAIN QUERY PLAN {sql}");
            let plan = ledger.read(move |db| -> rusqlite::Result<Vec<String>> {
                let mut statement = db.prepare(&explain)?;
                let bound = vec![1; statement.parameter_count()];
                statement.query_map(rusqlite::params_from_iter(bound), |row| row.get(3))?.collect()
            });
            let steps = plan.await.expect("a plan");
            // The look-up of a row in another list is a search, too.
            for step in steps.iter().filter(|step| !step.contains("SCALAR SUBQUERY")) {
                // A search by one user, topic or edge: neither a scan nor a sort, nor a search by the range alone.
                assert!(step.starts_with("SEARCH") && step.contains("=?"), "{step} in {sql}");
            }
        }
        ledger.close().await;
    }

    /// The number of steps of SQLite's virtual machine.
    fn steps(db: &Connection, sql: &str, values: impl rusqlite::Params) -> i32 {
        let mut statement = db.prepare(sql).expect(sql);
        let rows = statement.query_map(values, |_| Ok(())).expect(sql).count();
        assert!(rows < 50, "{rows} rows");
        statement.get_status(rusqlite::StatementStatus::VmStep)
    }

    #[tokio::test]
    async fn page_cost_does_not_depend_on_hidden_posts() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = SqliteLedger::open(SqliteOptions::new(folder.path().join("l.db"))).await.expect("it opens");
        let id = |text: &str| crate::model::UserId::parse(text).expect("a user id");
        let authors = ["open", "followers", "friends", "only_to", "not_to", "excluded", "hides"];
        ledger.load_users(&authors.map(id), 1).await.expect("users");
        ledger.load_users(&[id("v"), id("x")], 1).await.expect("users");
        let written = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 3000) \
            INSERT INTO posts (id, author, body) SELECT 10000 * place + n, author, '{\"visibility\":' || kind || '}' \
            FROM n, (SELECT column1 AS place, column2 AS author, column3 AS kind FROM (VALUES \
                (1, 'open', '\"public\"'), (2, 'followers', '\"followers\"'), (3, 'friends', '\"friends\"'), \
                (4, 'only_to', '{\"only_to\":[\"x\"]}'), (5, 'not_to', '{\"not_to\":[\"x\"]}'), \
                (6, 'excluded', '{\"not_to\":[\"v\"]}'), (7, 'hides', '\"public\"')))";
        let written = ledger.write(move |db| {
            db.execute(
                "INSERT INTO follows (follower, followee, at) VALUES ('v', 'only_to', 0), ('v', 'friends', 0)",
                [],
            )?;
            db.execute("INSERT INTO restrictions (maker, kind, target, at) VALUES ('hides', 'hide', 'v', 0)", [])?;
            db.execute(written, [])
        });
        assert_eq!(written.await.expect("posts"), 21_000);
        let costs = ledger.read(move |db| {
            Ok(authors.map(|author| {
                let page = steps(db, visible_posts::VISIBLE, rusqlite::params![author, "v", 1_i64 << 40, 21, 1_000]);
                (author, steps(db, people::PROFILE, rusqlite::params![author, "v", 1_000, 9]), page)
            }))
        });
        let costs = costs.await.expect("steps");
        let (_, profile, page) = costs[0];
        for (author, of_profile, of_page) in costs {
            // If the author names the viewer in `not_to`, each scan is bounded, by 1,000 rows of an index.
            let bound = if author == "excluded" { 40_000 } else { 0 };
            assert!(of_profile <= 3 * profile + bound && of_page <= 3 * page + bound, "{costs:?}");
        }
        ledger.close().await;
    }

    #[tokio::test]
    async fn everybodys_posts_are_paged_by_an_index_without_the_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = SqliteLedger::open(SqliteOptions::new(folder.path().join("l.db"))).await.expect("it opens");
        ledger.load_users(&[crate::model::UserId::parse("ann").expect("a user id")], 1).await.expect("a user");
        // Of each 1,000 posts the first 30 are public. The others are restricted, and every other one is deleted.
        let written = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 20000) \
            INSERT INTO posts (id, author, body, deleted_at) SELECT n, 'ann', \
            CASE WHEN n % 1000 < 30 THEN '{}' ELSE '{\"visibility\":\"friends\"}' END, \
            CASE WHEN n % 2 = 1 AND n % 1000 >= 30 THEN 1 END FROM n";
        assert_eq!(ledger.write(move |db| db.execute(written, [])).await.expect("posts"), 20_000);
        let costs = ledger.read(|db| {
            Ok([i64::MAX, 19_015, 15_000, 1_010].map(|before| steps(db, posts::PUBLIC, rusqlite::params![before, 9])))
        });
        let costs = costs.await.expect("steps");
        assert!(costs.iter().all(|cost| *cost < 100), "{costs:?}");
        ledger.close().await;
    }

    /// A common table expression `n` with the numbers of the users of [`ledger_of_many_users`].
    const NUMBERS: &str = "WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 4999)";

    /// A ledger with the users `u0` to `u4999`, and `v`.
    async fn ledger_of_many_users() -> (tempfile::TempDir, SqliteLedger) {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = SqliteLedger::open(SqliteOptions::new(folder.path().join("l.db"))).await.expect("it opens");
        let id = |text: String| crate::model::UserId::parse(&text).expect("a user id");
        let users: Vec<_> = (0..5_000).map(|n| id(format!("u{n}"))).chain([id("v".into())]).collect();
        ledger.load_users(&users, 1).await.expect("users");
        (folder, ledger)
    }

    #[tokio::test]
    async fn deep_pages_cost_as_much_as_the_first() {
        let (_folder, ledger) = ledger_of_many_users().await;
        let costs = ledger.write(move |db| {
            db.execute("INSERT INTO lists (id, owner, name, exclusive, created_at) VALUES (1, 'v', '', 0, 0)", [])?;
            for (rows, from) in [
                ("follows (follower, followee, at) SELECT 'v', 'u' || n, 1", "n"),
                ("follows (follower, followee, at) SELECT 'u' || n, 'v', 1", "n"),
                (
                    "restrictions (maker, kind, target, at) SELECT 'v', kind, 'u' || n, n",
                    "n, (SELECT 'hide' AS kind \
                    UNION SELECT 'mute' UNION SELECT 'block' UNION SELECT 'reposts' UNION SELECT 'listed')",
                ),
                ("list_users (list, member, at) SELECT 1, 'u' || n, n", "n"),
            ] {
                db.execute(&format!("INSERT INTO {rows} FROM ({NUMBERS} SELECT n FROM n) {from}"), [])?;
            }
            let users = |at: i64| steps(db, lists::USERS, rusqlite::params![1, at, "", 21]);
            let friends = |before: i64| steps(db, edges::SHARED, rusqlite::params!["v", before, 21, "v"]);
            let restricted = |at: i64| steps(db, restrictions::RESTRICTED, rusqlite::params!["v", "mute", at, "", 21]);
            Ok([i64::MAX, 1_000].map(|at| [friends(at), restricted(at), users(at)]))
        });
        let [first, deep] = costs.await.expect("steps");
        for (first, deep) in first.into_iter().zip(deep) {
            assert!(first > 0 && deep <= 3 * first, "{deep} steps, {first} of the first page");
        }
        ledger.close().await;
    }

    #[tokio::test]
    async fn deep_pages_of_comments_and_likes_cost_as_much_as_the_first() {
        let (_folder, ledger) = ledger_of_many_users().await;
        let costs = ledger.write(move |db| {
            for rows in [
                "posts (id, author, body) SELECT n + 1, 'v', '{}'",
                // Comments on a post, and between them replies to the first of them.
                "comments (id, post, parent, depth, author, text) SELECT 10 + 2 * n, 1, 0, 0, 'v', ''",
                "comments (id, post, parent, depth, author, text) SELECT 11 + 2 * n, 1, 10, 1, 'u1', ''",
                "likes (user, post, at) SELECT 'u' || n, 1, n",
                "likes (user, post, at) SELECT 'v', n + 1, n",
                "comment_likes (user, comment, at) SELECT 'u' || n, 10, n",
            ] {
                db.execute(&format!("INSERT INTO {rows} FROM ({NUMBERS} SELECT n FROM n)"), [])?;
            }
            let last = i64::MAX;
            let page = 21;
            let newest = |before: i64| steps(db, comments::IN_THREAD, rusqlite::params![1, 0, before, page]);
            let oldest = |after: i64| steps(db, comments::IN_THREAD_AFTER, rusqlite::params![1, 0, after, page]);
            let written = |before: i64| steps(db, comments::BY_AUTHOR, rusqlite::params!["v", before, page]);
            let likers = |before: i64| steps(db, likes::LIKERS, rusqlite::params![1, before, page]);
            let liked = |before: i64| steps(db, likes::LIKES_BY, rusqlite::params!["v", before, page]);
            let of_comment = |at: i64| steps(db, likes::COMMENT_LIKERS, rusqlite::params![10, at, "", page]);
            Ok([
                ("comments, newest first", newest(last), newest(500)),
                ("comments, oldest first", oldest(0), oldest(9_500)),
                ("comments of an author", written(last), written(500)),
                ("likers of a post", likers(last), likers(500)),
                ("likes of a user", liked(last), liked(500)),
                ("likers of a comment", of_comment(last), of_comment(500)),
            ])
        });
        for (list, first, deep) in costs.await.expect("steps") {
            assert!(first > 0 && deep <= 3 * first, "{list}: {deep} steps, {first} of the first page");
        }
        ledger.close().await;
    }

    #[tokio::test]
    async fn statements_are_prepared_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = SqliteLedger::open(SqliteOptions::new(folder.path().join("l.db"))).await.expect("it opens");
        let prepared_again = ledger.read(|db| {
            for author in ["ann", "bo", "cy"] {
                author_posts::by_author(db, author, PostId::MAX, 9)?;
            }
            Ok(db.prepare_cached(author_posts::BY_AUTHOR)?.get_status(rusqlite::StatementStatus::RePrepare))
        });
        assert_eq!(prepared_again.await.expect("a count"), 0);
        ledger.close().await;
    }
}
