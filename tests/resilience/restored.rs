//! No later write is lost after a ledger is restored, copied by hand, or loses its latest writes.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::Client;
use crate::cluster::{attempt, done, post, timeline, until};
use crate::postgres_server::PostgresServer;
use crate::proxy::Proxy;
use crate::redis_server::RedisServer;
use crate::server::Server;

/// The number of followers of `star`, whose posts are pulled. The first few of them follow `bo`, whose posts are
/// pushed.
const FOLLOWERS: usize = 12;
const FOLLOWERS_OF_BO: usize = 6;

const KEYS: [(&str, &str); 5] = [
    ("fanout.push_limit", "8"),
    ("fanout.page", "2"),
    ("fanout.lease", "1s"),
    ("broker.timeout", "500ms"),
    ("broker.probe_interval", "200ms"),
];

fn follower(n: usize) -> String {
    format!("f{n:02}")
}

async fn start(redis: &RedisServer, ledger: &str) -> Server {
    let url = redis.url();
    Server::start_with(&[&KEYS[..], &[("broker.url", &url), ("ledger.url", ledger)]].concat()).await
}

/// Creates posts by both authors in turn.
async fn write(node: &Server, posts: usize) -> Vec<(bool, u64)> {
    let mut written = Vec::new();
    for n in 0..2 * posts {
        let by_star = n % 2 == 0;
        written.push((by_star, post(node, if by_star { "star" } else { "bo" }, "a post").await));
    }
    written
}

/// Waits until every follower's timeline consists of these posts.
async fn all_arrive(node: &Server, posts: &[(bool, u64)]) {
    for n in 0..FOLLOWERS {
        let mut expected: Vec<u64> =
            posts.iter().filter(|(by_star, _)| *by_star || n < FOLLOWERS_OF_BO).map(|(_, id)| *id).collect();
        expected.sort_unstable_by(|one, other| other.cmp(one));
        let user = follower(n);
        until(&format!("{user} has {expected:?}"), async || timeline(node, &user).await == expected).await;
    }
}

async fn like(node: &Server, post: u64, users: std::ops::Range<usize>) {
    for n in users {
        let (status, body) = attempt(node, &follower(n), "PUT", &format!("/posts/{post}/like"), &Value::Null).await;
        assert!((200..300).contains(&status), "{body}");
    }
}

/// Waits until all likes are settled and the count equals the number of listed users.
async fn counted(node: &Server, post: u64, likers: usize) {
    until(&format!("{likers} like it"), async || {
        let listed = done(node, "star", "GET", &format!("/posts/{post}/likes?limit=100")).await;
        let shown = done(node, "star", "GET", &format!("/posts/{post}")).await;
        listed["items"].as_array().map(Vec::len) == Some(likers) && shown["likes"] == likers
    })
    .await;
}

/// Creates the data before the backup: users, edges, posts, likes.
async fn before(node: &Server) -> Vec<(bool, u64)> {
    for n in 0..FOLLOWERS {
        node.follow(&follower(n), "star").await;
    }
    for n in 0..FOLLOWERS_OF_BO {
        node.follow(&follower(n), "bo").await;
    }
    let posts = write(node, 3).await;
    all_arrive(node, &posts).await;
    like(node, posts[0].1, 0..2).await;
    counted(node, posts[0].1, 2).await;
    posts
}

/// Creates the data that the restore loses. It uses sequence numbers that the restored ledger will assign again.
async fn lost(node: &Server, before: &[(bool, u64)]) {
    let posts = write(node, 6).await;
    all_arrive(node, &[before, &posts].concat()).await;
    like(node, before[0].1, 2..8).await;
    counted(node, before[0].1, 8).await;
}

/// Checks that data written after the restore arrives everywhere, and that counts are correct.
async fn after(node: &Server, before: &[(bool, u64)]) -> Vec<(bool, u64)> {
    // Two users are connected. One of them follows only the pulled author.
    let mut clients = Vec::new();
    for n in [0, FOLLOWERS - 1] {
        clients.push((n, Client::connect(node, &follower(n)).await));
    }
    let posts = write(node, 6).await;
    let all = [before, &posts].concat();
    all_arrive(node, &all).await;
    for (n, client) in &mut clients {
        let mut received = Vec::new();
        let expected: Vec<u64> =
            posts.iter().filter(|(by_star, _)| *by_star || *n < FOLLOWERS_OF_BO).map(|(_, id)| *id).collect();
        while received.len() < expected.len() {
            let publication = client.publication(&format!("timeline:{}", follower(*n))).await;
            received.extend(publication["data"]["post"]["id"].as_u64());
        }
        received.sort_unstable();
        assert_eq!(received, expected, "received on the socket of {}", follower(*n));
    }
    like(node, before[0].1, 8..FOLLOWERS).await;
    like(node, before[0].1, 2..4).await;
    like(node, posts[0].1, 0..3).await;
    counted(node, posts[0].1, 3).await;
    all
}

/// Checks that the count equals the list, which contains all users who liked the post since. Likes acknowledged after
/// the backup are settled again if they are still in the queue, so their number is unknown.
async fn counts_agree(node: &Server, post: u64) {
    until("the likes that came since are there, and the count is right", async || {
        let listed = done(node, "star", "GET", &format!("/posts/{post}/likes?limit=100")).await;
        let shown = done(node, "star", "GET", &format!("/posts/{post}")).await;
        let users: Vec<&str> =
            listed["items"].as_array().into_iter().flatten().filter_map(|user| user["id"].as_str()).collect();
        (8..FOLLOWERS).chain(0..4).all(|n| users.contains(&follower(n).as_str())) && shown["likes"] == users.len()
    })
    .await;
}

/// Copies a SQLite file with its `-wal` and `-shm` files.
fn copy(from: &Path, to: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let name = |path: &Path| format!("{}{suffix}", path.display());
        let _ = fs::remove_file(name(to));
        if Path::new(&name(from)).exists() {
            fs::copy(name(from), name(to)).expect("to copy");
        }
    }
}

fn sqlite(folder: &TempDir) -> (std::path::PathBuf, String) {
    let path = folder.path().join("ledger.db");
    let url = format!("sqlite://{}", path.display());
    (path, url)
}

#[tokio::test]
async fn hand_copied_files_lose_no_later_writes() {
    let (redis, folder) = (RedisServer::start(), tempfile::tempdir().expect("a folder"));
    let (file, url) = sqlite(&folder);
    let [backup, newer] = ["backup.db", "newer.db"].map(|name| folder.path().join(name));
    let mut node = start(&redis, &url).await;
    let posts = before(&node).await;
    // The copy includes the write-ahead log of a killed process.
    node.kill();
    copy(&file, &backup);
    node.start_again().await;
    lost(&node, &posts).await;
    node.kill();
    copy(&file, &newer);
    copy(&backup, &file);
    node.start_again().await;
    let all = after(&node, &posts).await;
    counts_agree(&node, posts[0].1).await;
    // The replaced file is put back. It is ahead of the record, but the inboxes were built from another one.
    node.kill();
    copy(&newer, &file);
    node.start_again().await;
    for n in 0..FOLLOWERS {
        let read = timeline(&node, &follower(n)).await;
        assert!(all[posts.len()..].iter().all(|(_, id)| !read.contains(id)), "posts of the other file are there");
    }
    let held = timeline(&node, &follower(0)).await;
    let more = write(&node, 3).await;
    until("what is written then arrives", async || {
        let read = timeline(&node, &follower(0)).await;
        read.len() == held.len() + more.len() && more.iter().all(|(_, id)| read.contains(id))
    })
    .await;
}

/// Writes between the read of the ledger and its comparison do not count as missing.
#[tokio::test]
async fn comparisons_during_use_start_no_incarnation() {
    let (redis, folder) = (RedisServer::start(), tempfile::tempdir().expect("a folder"));
    let (_, url) = sqlite(&folder);
    let node = start(&redis, &url).await;
    let identity = || redis.ask(r#"EVAL "return {ok=redis.call('HGET','feedline:ledger','i')}" 0"#);
    let before = identity();
    assert!(before.len() > 10, "{before}");
    for round in 0..30 {
        let writing = (0..10).map(|n| format!("{round} {n}")).collect::<Vec<_>>();
        let writing = futures::future::join_all(writing.iter().map(|text| post(&node, "bo", text)));
        let comparing = async {
            for _ in 0..10 {
                redis.ask("PUBLISH feedline:signal ledger");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::join!(writing, comparing);
    }
    assert_eq!(identity(), before, "{}", node.log());
}

/// Runs a Feedline command on a ledger. Returns whether it succeeded, and its output.
fn feedline(folder: &TempDir, ledger: &str, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_feedline"));
    command.args(arguments).current_dir(folder).env("FEEDLINE__LEDGER__URL", ledger);
    let ran = command.output().expect("to run feedline");
    let said = [ran.stdout, ran.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (ran.status.success(), said)
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_of_a_running_server_are_restored() {
    let (redis, folder) = (RedisServer::start(), tempfile::tempdir().expect("a folder"));
    let (file, url) = sqlite(&folder);
    let mut node = start(&redis, &url).await;
    let posts = before(&node).await;
    // A user writes during the backup: the copy must be consistent.
    let writing = async {
        for n in 0..50 {
            post(&node, "somebody", &format!("meanwhile {n}")).await;
        }
    };
    let (folder_ref, of) = (&folder, url.clone());
    let backing_up =
        async { tokio::task::block_in_place(|| feedline(folder_ref, &of, &["backup", "--to", "backup.db"])) };
    let ((made, said), ()) = tokio::join!(backing_up, writing);
    assert!(made, "{said}");
    lost(&node, &posts).await;
    let (restored, said) = feedline(&folder, &url, &["restore", "backup.db"]);
    assert!(!restored && said.contains("a server uses it"), "{said}");
    assert_eq!(attempt(&node, "bo", "GET", "/timeline", &Value::Null).await.0, 200, "and it goes on");
    node.stop().await;
    let (restored, said) = feedline(&folder, &url, &["restore", "backup.db"]);
    assert!(restored && said.contains("ledger.db.replaced-1"), "{said}");
    assert!(file.with_file_name("ledger.db.replaced-1").exists());
    node.start_again().await;
    after(&node, &posts).await;
    counts_agree(&node, posts[0].1).await;
}

#[tokio::test]
async fn restored_dumps_lose_no_later_writes() {
    let (redis, postgres) = (RedisServer::start(), crate::postgres_server::shared());
    let [one, other] = [postgres.database("template1").await, postgres.database("template1").await];
    let folder = tempfile::tempdir().expect("a folder");
    let dump = folder.path().join("dump.sql").display().to_string();
    let node = start(&redis, &postgres.url(&one)).await;
    let posts = before(&node).await;
    run("pg_dump", &["--dbname", &postgres.url(&one), "--file", &dump]);
    lost(&node, &posts).await;
    drop(node);
    run("psql", &["--quiet", "--dbname", &postgres.url(&other), "--file", &dump, "--set", "ON_ERROR_STOP=1"]);
    let node = start(&redis, &postgres.url(&other)).await;
    after(&node, &posts).await;
    counts_agree(&node, posts[0].1).await;
}

#[tokio::test]
async fn databases_that_lose_their_tail_lose_no_later_writes() {
    let (redis, mut postgres) = (RedisServer::start(), PostgresServer::start());
    let url = postgres.url("postgres");
    let (one, other) = (start(&redis, &url).await, start(&redis, &url).await);
    let posts = before(&one).await;
    let folder = tempfile::tempdir().expect("a folder");
    let snapshot = folder.path().join("snapshot").display().to_string();
    let data = postgres.data().display().to_string();
    // A snapshot of the disk: the server recovers from it as after a power failure, on the same timeline.
    postgres.kill();
    run("cp", &["-a", &data, &snapshot]);
    postgres.start_again();
    one.ready().await;
    other.ready().await;
    lost(&one, &posts).await;
    // The restore loses an erasure; the log beside the ledger repeats it.
    done(&one, "gone", "DELETE", "/accounts").await;
    let mut client = Client::connect(&other, &follower(0)).await;
    postgres.kill();
    run("sh", &["-c", &format!("rm -rf {data}/* && cp -a {snapshot}/. {data}/ && rm -f {data}/postmaster.pid")]);
    postgres.start_again();
    one.ready().await;
    other.ready().await;
    let (code, _) = client.closed().await;
    assert_eq!(code, 3010, "sockets come back to a timeline that is made anew");
    until("the erasure is in the ledger again", async || {
        [&one, &other].iter().any(|node| node.log().contains("erased again"))
    })
    .await;
    let all = after(&other, &posts).await;
    all_arrive(&one, &all).await;
    counts_agree(&one, posts[0].1).await;
}

/// A comparison that the broker answers late does not admit a database that was restored to an older state in the
/// meantime.
#[tokio::test]
async fn earlier_comparisons_do_not_admit_an_older_state() {
    let (redis, mut postgres) = (RedisServer::start(), PostgresServer::start());
    let proxy = Proxy::start(redis.port()).await;
    let (broker, ledger) = (proxy.url(), postgres.url("postgres"));
    let keys = [("broker.url", &*broker), ("ledger.url", &ledger), ("broker.timeout", "30s")];
    let node = Server::start_with(&[&keys[..], &[("broker.probe_interval", "30s")]].concat()).await;
    node.follow("fan", "bo").await;
    let kept = post(&node, "bo", "kept").await;
    until("it arrives", async || timeline(&node, "fan").await == [kept]).await;
    let folder = tempfile::tempdir().expect("a folder");
    let snapshot = folder.path().join("snapshot").display().to_string();
    let data = postgres.data().display().to_string();
    postgres.kill();
    run("cp", &["-a", &data, &snapshot]);
    postgres.start_again();
    node.ready().await;
    for _ in 0..3 {
        post(&node, "bo", "lost").await;
    }
    until("they arrive", async || timeline(&node, "fan").await.len() == 4).await;
    let mut client = Client::connect(&node, "fan").await;
    proxy.hold(true);
    redis.ask("PUBLISH feedline:signal ledger");
    tokio::time::sleep(Duration::from_millis(300)).await;
    postgres.kill();
    run("sh", &["-c", &format!("rm -rf {data}/* && cp -a {snapshot}/. {data}/ && rm -f {data}/postmaster.pid")]);
    postgres.start_again();
    tokio::time::sleep(Duration::from_millis(500)).await;
    proxy.hold(false);
    // The next regular comparison is at least 16 seconds away.
    let closed = tokio::time::timeout(Duration::from_secs(8), client.closed()).await;
    assert_eq!(closed.expect("the node notices").0, 3010, "{}", node.log());
}

fn run(program: &str, arguments: &[&str]) {
    let ran = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(ran.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// Likes in the queue are settled after the ledger is restored from a backup.
#[tokio::test]
async fn queued_likes_settle_in_a_restored_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, url) = sqlite(&folder);
    let backup = folder.path().join("backup.db");
    let keys = [("ledger.url", url.as_str())];
    let mut node = Server::start_with(&keys).await;
    for n in 0..FOLLOWERS {
        node.follow(&follower(n), "star").await;
    }
    let liked = post(&node, "star", "a post").await;
    like(&node, liked, 0..2).await;
    counted(&node, liked, 2).await;
    node.kill();
    copy(&file, &backup);
    node.start_again().await;
    like(&node, liked, 2..6).await;
    counted(&node, liked, 6).await;
    node.kill();
    copy(&backup, &file);
    node.start_again().await;
    like(&node, liked, 6..FOLLOWERS).await;
    until("likes settle, and the count is right", async || {
        let listed = done(&node, "star", "GET", &format!("/posts/{liked}/likes?limit=100")).await;
        let shown = done(&node, "star", "GET", &format!("/posts/{liked}")).await;
        let many = listed["items"].as_array().map_or(0, Vec::len);
        many >= FOLLOWERS - 4 && shown["likes"] == many
    })
    .await;
    let answer = attempt(&node, "star", "POST", "/posts", &json!({ "text": "after" })).await;
    assert_eq!(answer.0, 201);
}
