//! Nothing is joined that does not belong together: a ledger with another broker, a broker with another ledger.

use std::fs;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use crate::cluster::{pause, post, resume, until};
use crate::postgres_server::shared;
use crate::redis_server::RedisServer;
use crate::server::Server;

/// The longest that a refused start may take, and a start after a kill.
const REFUSED: Duration = Duration::from_secs(5);
const AFTER_KILL: Duration = Duration::from_secs(15);

fn start_beside(server: &Server, command: &str, folder: &Path, keys: &[(&str, &str)]) -> Child {
    let mut program = server.program(&command.split(' ').collect::<Vec<_>>());
    let data = folder.display().to_string();
    let own = [("server.listen", "127.0.0.1:0"), ("server.data_dir", &*data)];
    for (key, value) in own.iter().chain(keys) {
        program.env(format!("FEEDLINE__{}", key.replace('.', "__").to_uppercase()), value);
    }
    program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary that cargo built")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a command with the configuration of a server but for these keys. It must fail in time, and name all of these.
fn is_refused(server: &Server, command: &str, keys: &[(&str, &str)], named: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let begun = Instant::now();
    let mut child = start_beside(server, command, folder.path(), keys);
    while child.try_wait().expect("its state").is_none() {
        if begun.elapsed() > REFUSED {
            child.kill().expect("to kill it");
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().expect("its output");
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "it is not refused within {REFUSED:?}: {keys:?}\n{text}");
    for name in named {
        assert!(text.contains(name), "{name} is not named: {text}");
    }
    assert!(!text.contains("hunter2"), "{text}");
}

/// Runs `feedline adopt` with the configuration of a server but for these keys.
fn adopt(server: &Server, keys: &[(&str, &str)]) {
    let folder = tempfile::tempdir().expect("a folder");
    let output = start_beside(server, "adopt", folder.path(), keys).wait_with_output().expect("its output");
    assert!(output.status.success(), "{}", text(&output));
}

/// The files that a ledger needs, in a folder of their own.
struct SharedFile(tempfile::TempDir);

impl SharedFile {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn url(&self, name: &str) -> String {
        format!("sqlite://{}", self.0.path().join(name).display())
    }
}

/// While a server starts, its probes say so, and other requests wait.
async fn a_start_is_seen(port: u16) {
    let get = |path| Server::http_at(port, "GET", path, &[], "");
    let ready = loop {
        // The port opens a moment after the process begins.
        match get("/ready").await {
            Some(answer) => break answer,
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    assert_eq!((ready.status.as_u16(), &ready.body["error"]["code"]), (503, &"starting".into()));
    assert_eq!(get("/health").await.expect("an answer").status, 200);
    assert_eq!(get("/api/openapi.json").await.expect("an answer").status, 200, "it waits for the start");
    assert_eq!(get("/ready").await.expect("an answer").status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_memory_is_another_broker_only_while_its_process_lives() {
    let file = SharedFile::new();
    let database = shared().url(&shared().database("template1").await);
    for url in [file.url("l.db"), database] {
        let mut first = Server::start_with(&[("ledger.url", &url)]).await;
        let place = url.rsplit_once('/').expect("a URL").1;
        is_refused(&first, "serve", &[], &["memory:", "feedline adopt", place]);
        is_refused(&first, "adopt", &[], &["a node is running"]);
        first.kill();
        let begun = Instant::now();
        let second = Server::start_with(&[("ledger.url", &url)]).await;
        assert!(begun.elapsed() < AFTER_KILL, "another folder: {:?}", begun.elapsed());
        drop(second);
        // The folder shows that nobody else has this memory.
        let mut third = Server::start_with(&[("ledger.url", &url)]).await;
        third.kill();
        let begun = Instant::now();
        let port = third.port();
        tokio::join!(third.start_again(), a_start_is_seen(port));
        assert!(begun.elapsed() < Duration::from_millis(6_500), "the same folder: {:?}", begun.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_in_use_takes_no_other_broker() {
    let [redis, other] = [RedisServer::start(), RedisServer::start()];
    let file = SharedFile::new();
    let (url, ledger) = (redis.url(), file.url("l.db"));
    let named = url.trim_end_matches('/').to_owned() + "/0 (prefix feedline)";
    let mut first = Server::start_with(&[("broker.url", &url), ("ledger.url", &ledger)]).await;
    let database = format!("{}/1", url.trim_end_matches('/'));
    let secret = other.url().replace("redis://", "redis://default:hunter2@");
    other.ask("CONFIG SET requirepass hunter2");
    let others = [
        [("broker.url", "memory:"), ("broker.prefix", "feedline")],
        [("broker.url", &*secret), ("broker.prefix", "feedline")],
        [("broker.url", &database), ("broker.prefix", "feedline")],
        [("broker.url", &url), ("broker.prefix", "second")],
    ];
    for keys in &others {
        is_refused(&first, "serve", keys, &[&named, "feedline adopt", &ledger]);
        is_refused(&first, "adopt", keys, &["a node is running"]);
        is_refused(&first, "doctor", keys, &["missing  ", &named]);
        is_refused(&first, "status", keys, &[&named, "a store cannot be used"]);
    }
    // By another name it is the same.
    let renamed = url.replace("127.0.0.1", "localhost");
    let second = Server::start_with(&[("broker.url", &renamed), ("ledger.url", &ledger)]).await;
    drop(second);
    first.stop().await;
    for keys in &others {
        is_refused(&first, "serve", keys, &["prefix feedline", "feedline adopt"]);
    }
    adopt(&first, &others[1]);
    is_refused(&first, "serve", &[], &[&named, "feedline adopt", &other.url()]);
    let moved = Server::start_with(&[("broker.url", &secret), ("ledger.url", &ledger)]).await;
    post(&moved, "ann", "moved").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_in_use_takes_no_other_ledger() {
    let redis = RedisServer::start();
    let file = SharedFile::new();
    let (url, ledger) = (redis.url(), file.url("l.db"));
    let mut first = Server::start_with(&[("broker.url", &url), ("ledger.url", &ledger)]).await;
    post(&first, "ann", "first").await;
    let other = file.url("other.db");
    is_refused(&first, "serve", &[("ledger.url", &other)], &[&ledger, &other, "feedline adopt"]);
    // A copy has the same identity, and the other node is not in it.
    let copy = file.0.path().join("copy.db");
    let saved = first.command(&["backup", "--to", copy.to_str().expect("a path")]);
    assert!(saved.status.success(), "{saved:?}");
    // Once it has renewed its lease.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let copied = format!("sqlite://{}", copy.display());
    is_refused(&first, "serve", &[("ledger.url", &copied)], &[&ledger, &copied, "feedline adopt"]);

    // An emptied Redis is the same, also while a node uses it.
    redis.ask("FLUSHALL");
    let second = Server::start_with(&[("broker.url", &url), ("ledger.url", &ledger)]).await;
    until("the identity is restored", async || redis.ask("HEXISTS feedline:identity ledger") == ":1").await;
    is_refused(&first, "serve", &[("ledger.url", &other)], &[&ledger, &other, "feedline adopt"]);
    drop(second);
    first.kill();
    redis.ask("FLUSHALL");
    let begun = Instant::now();
    first.start_again().await;
    assert!(begun.elapsed() < AFTER_KILL, "{:?}", begun.elapsed());

    // An older state of the ledger is the same.
    first.kill();
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(file.0.path().join(format!("l.db{end}")));
    }
    fs::copy(&copy, file.0.path().join("l.db")).expect("a copy");
    let begun = Instant::now();
    first.start_again().await;
    assert!(begun.elapsed() < AFTER_KILL, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_node_ends_once_another_memory_has_taken_over() {
    let file = SharedFile::new();
    let ledger = file.url("l.db");
    let mut first = Server::start_with(&[("ledger.url", &ledger)]).await;
    pause(&first);
    let begun = Instant::now();
    let second = Server::start_with(&[("ledger.url", &ledger)]).await;
    assert!(begun.elapsed() < AFTER_KILL, "{:?}", begun.elapsed());
    resume(&first);
    assert_eq!(first.ended().await.code(), Some(1));
    let log = first.log();
    assert!(log.contains("memory:") && log.contains("feedline adopt"), "{log}");
    post(&second, "ann", "it goes on").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_starts_at_once_one_wins() {
    let file = SharedFile::new();
    for round in 0..2 {
        let [one, other] = [RedisServer::start(), RedisServer::start()];
        let template = Server::start_with(&[("ledger.url", &file.url(&format!("unused-{round}.db")))]).await;
        let folders = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
        // First two brokers on one ledger, then two ledgers on one broker.
        let [ledger, next] = ["a", "b"].map(|name| file.url(&format!("{name}{round}.db")));
        let (a, b) = (one.url(), other.url());
        for pairs in [[(&a, &ledger), (&b, &ledger)], [(&a, &ledger), (&a, &next)]] {
            redis_forgets(&[&one, &other], &file, &[&ledger]);
            let mut starting = Vec::new();
            for ((broker, ledger), folder) in pairs.into_iter().zip(&folders) {
                let keys = [("broker.url", &**broker), ("ledger.url", &**ledger)];
                starting.push(start_beside(&template, "serve", folder.path(), &keys));
            }
            let begun = Instant::now();
            let ended = |child: &mut Child| child.try_wait().expect("its state").is_some();
            while !starting.iter_mut().any(ended) {
                assert!(begun.elapsed() < AFTER_KILL, "both of {pairs:?} run");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            let running = starting.iter_mut().map(|child| !ended(child)).filter(|runs| *runs).count();
            for child in &mut starting {
                let _ = child.kill();
            }
            let said: Vec<String> =
                starting.into_iter().map(|child| text(&child.wait_with_output().expect("its output"))).collect();
            assert_eq!(running, 1, "{said:?}");
            assert!(said.iter().any(|said| said.contains("feedline adopt")), "{said:?}");
        }
    }
}

/// Makes stores new ones.
fn redis_forgets(servers: &[&RedisServer], file: &SharedFile, ledgers: &[&str]) {
    for server in servers {
        server.ask("FLUSHALL");
    }
    for ledger in ledgers {
        let name = Path::new(ledger).file_name().and_then(|name| name.to_str()).expect("a name");
        for end in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(file.0.path().join(format!("{name}{end}")));
        }
    }
}

#[tokio::test]
async fn commands_that_change_work_need_stores_that_belong_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let (own, other) = (RedisServer::start(), RedisServer::start());
    let ledger = format!("sqlite://{}", folder.path().join("feedline.db").display());
    let first = Server::start_with(&[("broker.url", &own.url()), ("ledger.url", &ledger)]).await;
    let log = folder.path().join("old.log");
    fs::write(&log, "{\"user\":\"ann\",\"at\":1}\n").expect("a file");
    other.ask("XADD feedline:outlet * a b");
    let elsewhere = [("broker.url", &*other.url())];
    let apply = format!("erasures apply {}", log.display());
    for command in ["outlet refill", "quarantine retry --all", "quarantine drop --all", &apply] {
        is_refused(&first, command, &elsewhere, &[&ledger, "feedline adopt"]);
        let data = folder.path().join("data");
        let done = start_beside(&first, command, &data, &[]).wait_with_output().expect("its output");
        assert!(done.status.success(), "{command}: {}", text(&done));
    }
    assert_eq!(other.ask("XLEN feedline:outlet"), ":1", "the stream of another deployment");
    let listed = start_beside(&first, "quarantine list", folder.path(), &elsewhere).wait_with_output();
    assert!(listed.expect("its output").status.success(), "a look changes nothing");
}
