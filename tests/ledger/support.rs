//! Builders and helpers of the tests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use feedline::ledger::{
    Backlog, Durability, EditOutcome, FANOUT_PARTITIONS, Fence, Job, JobRequest, Ledger, LedgerError, LoadedJob,
    NewAccount, PersonalData, PostgresLedger, PostgresOptions, PostgresUrl, SqliteLedger, SqliteOptions, TimelineRange,
    WorkLease,
};
use feedline::model::{Comment, CommentId, Post, PostId, UserId};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::postgres_server::{PostgresServer, shared};

pub(crate) const NOW: u64 = 1_800_000_000_000;

/// The time limit for any operation on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Runs each case against both kinds of ledger, each time with an empty one that these functions open. That of SQLite
/// also returns the folder.
macro_rules! on_both_ledgers {
    ($sqlite:ident, $postgres:ident: $($case:ident)*) => {
        mod on_sqlite {
            $(#[tokio::test]
            async fn $case() {
                let (ledger, _folder) = crate::support::$sqlite().await;
                super::$case(ledger.clone()).await;
                feedline::ledger::Ledger::close(&*ledger).await;
            })*
        }
        mod on_postgres {
            $(#[tokio::test]
            async fn $case() {
                let ledger = crate::support::$postgres().await;
                super::$case(ledger.clone()).await;
                feedline::ledger::Ledger::close(&*ledger).await;
            })*
        }
    };
}
pub(crate) use on_both_ledgers;

/// Runs each case against each kind of ledger.
macro_rules! conformance {
    ($($case:ident)*) => { crate::support::on_both_ledgers! { sqlite, postgres: $($case)* } };
}
pub(crate) use conformance;

/// A user id, written with a capital: a store that compared the spelling would not find what it stored in lower case.
pub(crate) fn id(text: &str) -> UserId {
    let mut written = text.to_owned();
    if let Some(first) = written.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    UserId::parse(&written).expect("a user id")
}

pub(crate) fn ids(texts: &[&str]) -> Vec<UserId> {
    texts.iter().map(|text| id(text)).collect()
}

pub(crate) fn names(ids: &[UserId]) -> Vec<&str> {
    ids.iter().map(UserId::as_str).collect()
}

/// The exported rows of a user, all of one kind and without other users, in pages of `limit`.
pub(crate) async fn exported(ledger: &dyn Ledger, user: &str, data: PersonalData, limit: usize) -> Vec<Value> {
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let page = ledger.personal_rows(&id(user), data, &after, limit).await.expect("a page");
        assert!(page.len() <= limit);
        let Some(last) = page.last() else { return all };
        after.clone_from(&last.key);
        for row in page {
            assert_eq!(row.other, None);
            all.push(serde_json::from_str(&row.json).expect("JSON"));
        }
    }
}

pub(crate) fn account(user: &str) -> NewAccount {
    NewAccount { user: id(user), name: format!("Name of {user}"), password: "$argon2id$…".into(), created_at: NOW }
}

/// A lease of a process that works on fan-out.
pub(crate) fn work_lease(holder: &str, millis: u64) -> WorkLease {
    WorkLease { holder: holder.into(), length: Duration::from_millis(millis), kinds: vec!["fanout".into()] }
}

/// Takes a partition of work for a process, with a lease that lasts for a whole test. `None`: another process
/// owns it.
pub(crate) async fn own(ledger: &dyn Ledger, holder: &str, partition: &str) -> Option<Fence> {
    let lease = WorkLease { kinds: vec![], ..work_lease(holder, 300_000) };
    let view = ledger.renew_work_lease(&lease).await.expect("a lease");
    let last = view.partitions.iter().find(|row| row.name == partition).map_or(0, |row| row.generation);
    let wanted = [Fence { partition: partition.into(), generation: last }];
    ledger.take_partitions(holder, &wanted).await.expect("an answer").pop()
}

/// Moves a partition to another process.
pub(crate) async fn hand_over(ledger: &dyn Ledger, from: &str, to: &str, partition: &str) -> Fence {
    ledger.end_work_lease(from).await.expect("an answer");
    own(ledger, to, partition).await.expect("it was given back")
}

/// Takes all partitions of fan-out for a process, which has a lease of a minute.
pub(crate) async fn own_all(ledger: &dyn Ledger, holder: &str) -> Vec<Fence> {
    let view = ledger.renew_work_lease(&work_lease(holder, 60_000)).await.expect("a lease");
    let last = |name: &str| view.partitions.iter().find(|row| row.name == name).map_or(0, |row| row.generation);
    let names = (0..FANOUT_PARTITIONS).map(|number| format!("fanout/{number}"));
    let wanted: Vec<Fence> = names.map(|name| Fence { generation: last(&name), partition: name.into() }).collect();
    let mut taken = ledger.take_partitions(holder, &wanted).await.expect("an answer");
    let number = |fence: &Fence| fence.partition.split('/').nth(1).and_then(|it| it.parse::<u16>().ok());
    taken.sort_by_key(number);
    assert_eq!(taken.len(), usize::from(FANOUT_PARTITIONS));
    taken
}

/// The unfinished jobs of all partitions, for their owner.
pub(crate) async fn load_all(ledger: &dyn Ledger, owned: &[Fence]) -> Vec<LoadedJob> {
    let request = |(partition, fence): (u16, &Fence)| JobRequest { partition, fence: fence.clone(), limit: 1_000 };
    let requests: Vec<JobRequest> = (0..).zip(owned).map(request).collect();
    let mut jobs = ledger.load_jobs(&requests, &[]).await.expect("jobs");
    jobs.sort_by_key(|job| job.id);
    jobs
}

/// The fence of a job's partition.
pub(crate) fn fence_of<'a>(owned: &'a [Fence], job: &Job) -> &'a Fence {
    &owned[usize::from(job.partition())]
}

/// The backlog of all partitions.
pub(crate) async fn backlog(ledger: &dyn Ledger) -> Backlog {
    ledger.backlog(&Vec::from_iter(0..FANOUT_PARTITIONS)).await.expect("a backlog")
}

pub(crate) fn post(number: u64, author: &str, topics: &[&str]) -> Post {
    Post {
        text: format!("post {number} \u{1F600} \"quoted\" \n"),
        topics: topics.iter().map(|&topic| topic.into()).collect(),
        created_at: NOW + number,
        ..Post::blank(PostId(number), id(author))
    }
}

pub(crate) async fn users(ledger: &dyn Ledger, texts: &[&str]) {
    for text in texts {
        ledger.ensure_user(&id(text), NOW).await.expect("a user");
    }
}

/// Stores a post. Returns its job.
pub(crate) async fn store(ledger: &dyn Ledger, post: Post) -> Result<Job, LedgerError> {
    Ok(ledger.create_post(&post, None).await?.expect("a new post").job)
}

pub(crate) async fn publish(ledger: &dyn Ledger, number: u64, author: &str) -> Job {
    store(ledger, post(number, author, &[])).await.expect("a post")
}

pub(crate) async fn delete(ledger: &dyn Ledger, number: u64, author: &str) -> Option<Job> {
    ledger.delete_post(PostId(number), &id(author), NOW).await.expect("an answer").map(|new| new.job)
}

/// Edits the current version of a post. Returns the jobs; none if the post does not exist.
pub(crate) async fn edit(ledger: &dyn Ledger, post: &Post) -> Vec<Job> {
    loop {
        let before = ledger.posts(&[post.id]).await.expect("an answer").pop();
        match ledger
            .edit_post(before.as_ref().unwrap_or(post), post, None, post.edited_at.unwrap_or(post.created_at))
            .await
            .expect("an answer")
        {
            EditOutcome::Edited(jobs) => return jobs.into_iter().map(|new| new.job).collect(),
            EditOutcome::Missing => return Vec::new(),
            EditOutcome::Conflict => {}
        }
    }
}

/// Follows a user. Returns whether the follow is new.
pub(crate) async fn follow(ledger: &dyn Ledger, from: &UserId, to: &UserId) -> bool {
    ledger.follow(from, to, NOW, u64::MAX).await.expect("an answer").job().is_some()
}

/// Unfollows a user. Returns whether the follow existed.
pub(crate) async fn unfollow(ledger: &dyn Ledger, from: &UserId, to: &UserId) -> bool {
    ledger.unfollow(from, to, NOW).await.expect("an answer").is_some()
}

/// Runs each case against each kind of ledger with an outlet.
macro_rules! outlet_conformance {
    ($($case:ident)*) => {
        crate::support::on_both_ledgers! { sqlite_with_outlet, postgres_with_outlet: $($case)* }
    };
}
pub(crate) use outlet_conformance;

/// A SQLite ledger with an outlet, and the folder of its file.
pub(crate) async fn sqlite_with_outlet() -> (Arc<SqliteLedger>, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let options = SqliteOptions::new(folder.path().join("ledger.db"));
    let options = SqliteOptions { durability: Durability::Normal, outlet: true, ..options };
    (Arc::new(SqliteLedger::open(options).await.expect("it opens")), folder)
}

/// A PostgreSQL ledger with an outlet, in a new database.
pub(crate) async fn postgres_with_outlet() -> Arc<PostgresLedger> {
    let (server, database) = database().await;
    let options = PostgresOptions { outlet: true, ..postgres_options(server, &database) };
    Arc::new(PostgresLedger::open(options).await.expect("it opens"))
}

/// A SQLite ledger and the folder of its file.
pub(crate) async fn sqlite() -> (Arc<SqliteLedger>, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = open_in(&folder).await;
    (ledger, folder)
}

/// Another ledger on the file in this folder. Test data need not survive a power loss.
pub(crate) async fn open_in(folder: &TempDir) -> Arc<SqliteLedger> {
    let options =
        SqliteOptions { durability: Durability::Normal, ..SqliteOptions::new(folder.path().join("ledger.db")) };
    Arc::new(SqliteLedger::open(options).await.expect("it opens"))
}

/// A ledger in a new, empty database.
pub(crate) async fn postgres() -> Arc<PostgresLedger> {
    let (server, database) = database().await;
    open_at(server, &database).await
}

/// A new database with the schema and without rows.
pub(crate) async fn database() -> (&'static PostgresServer, String) {
    static READY: OnceCell<()> = OnceCell::const_new();
    let server = shared();
    let ready = async {
        server.ask("postgres", "CREATE DATABASE fresh").await;
        open_at(server, "fresh").await.close().await;
    };
    READY.get_or_init(|| ready).await;
    (server, server.database("fresh").await)
}

/// A ledger in this database. Test data need not survive a crash.
pub(crate) async fn open_at(server: &PostgresServer, database: &str) -> Arc<PostgresLedger> {
    let ledger = PostgresLedger::open(postgres_options(server, database)).await;
    Arc::new(ledger.expect("it opens"))
}

/// The updates of the tables whose names are like this, once there are so many: all, and those that left the indexes as
/// they were (HOT).
pub(crate) async fn updates(server: &PostgresServer, database: &str, tables: &str, at_least: i64) -> (i64, i64) {
    let client = server.client(database).await;
    let sql = "SELECT sum(n_tup_upd)::bigint, sum(n_tup_hot_upd)::bigint FROM pg_stat_user_tables \
               WHERE relname LIKE $1";
    let until = Instant::now() + PATIENCE;
    loop {
        // The server collects statistics from time to time.
        let row = client.query_one(sql, &[&tables]).await.unwrap();
        let found: (i64, i64) = (row.get(0), row.get(1));
        if found.0 >= at_least {
            return found;
        }
        assert!(Instant::now() < until, "{found:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) fn postgres_options(server: &PostgresServer, database: &str) -> PostgresOptions {
    let url = PostgresUrl::parse(&server.url(database)).expect("a URL");
    PostgresOptions { durability: Durability::Normal, connections: 3, ..PostgresOptions::new(url) }
}

/// A page of a timeline. Checks that the page does not depend on the estimate of its lowest post.
pub(crate) async fn timeline(ledger: &dyn Ledger, reader: &UserId, before: PostId, limit: usize) -> Vec<PostId> {
    let read = async |likely| ledger.timeline_posts(reader, TimelineRange { before, limit, likely }).await.unwrap();
    let page = read(PostId::ZERO).await;
    // Estimates from far too low to far too high: the lowest id, 25 below the page's last post, just below that post,
    // the middle of the page, its first post, and the upper bound of the range.
    let (first, middle, end) = (page.first(), page.get(page.len() / 2), page.last());
    let lower = |by| end.map(|end| PostId(end.0.saturating_sub(by).max(1)));
    let likely = [lower(u64::MAX), lower(25), lower(1), middle.copied(), first.copied(), Some(before)];
    for likely in likely.into_iter().flatten() {
        assert_eq!(read(likely).await, page, "it is thought to end above {likely}");
    }
    page
}

/// The post of the comments that [`comment`] makes.
pub(crate) const POST: PostId = PostId(1);

/// A comment on [`POST`].
pub(crate) fn comment(number: u64, author: &str, parent: Option<u64>) -> Comment {
    let id_of = CommentId(number);
    Comment {
        id: id_of,
        post: POST,
        reply_to: parent.map(CommentId),
        author: Some(id(author)),
        text: Some(format!("comment {number} \u{1F600} \"quoted\" \n")),
        mentions: Vec::new(),
        created_at: id_of.time(),
        likes: 0,
        replies: 0,
        edited_at: None,
        liked: None,
        filtered: Vec::new(),
        removed: None,
    }
}
