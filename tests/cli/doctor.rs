//! `feedline doctor`.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Output;
use std::thread;

use feedline_test_support::postgres_server::PostgresServer;
use feedline_test_support::redis_server::RedisServer;
use tempfile::TempDir;

use super::{feedline, out};
use crate::listening::certify;

fn examine(dir: &TempDir, keys: &[(&str, &str)]) -> Output {
    let mut command = feedline(dir, &["doctor"]);
    command.env("FEEDLINE__SERVER__LISTEN", "127.0.0.1:0");
    for (key, value) in keys {
        command.env(format!("FEEDLINE__{}", key.replace('.', "__").to_uppercase()), value);
    }
    command.output().unwrap()
}

#[test]
fn a_new_folder_has_all_that_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    let examined = examine(&dir, &[]);
    assert!(examined.status.success(), "{examined:?}");
    assert!(out(&examined).lines().all(|line| line.starts_with("ok ") || line.starts_with("advice ")), "{examined:?}");
}

#[test]
fn the_documented_rights_in_redis_are_those_that_are_needed() {
    let redis = RedisServer::start();
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md")).unwrap();
    let rights = document.split("user feedline on >secret").nth(1).unwrap().split("```").next().unwrap();
    let rights: Vec<&str> = rights.split_whitespace().collect();
    redis.ask(&format!("ACL SETUSER exact on >secret {}", rights.join(" ")));
    let dir = tempfile::tempdir().unwrap();
    let url = |user: &str| format!("redis://{user}:secret@127.0.0.1:{}", redis.port());
    let examined = examine(&dir, &[("broker.url", &url("exact"))]);
    assert!(examined.status.success() && out(&examined).contains("the user has all rights"), "{examined:?}");
    for missing in rights.iter().filter_map(|right| right.strip_prefix('+')) {
        // Those of the connection, and of doctor itself.
        if ["hello", "select", "multi", "info", "script|load"].contains(&missing) {
            continue;
        }
        redis.ask(&format!("ACL SETUSER less reset on >secret {} -{missing}", rights.join(" ")));
        let examined = examine(&dir, &[("broker.url", &url("less"))]);
        assert!(!examined.status.success(), "{missing}");
        assert!(out(&examined).contains(&format!("a right: {missing}: ")), "{missing}: {examined:?}");
    }
    redis.ask(&format!("ACL SETUSER elsewhere on >secret {} resetkeys ~other:*", rights.join(" ")));
    let examined = examine(&dir, &[("broker.url", &url("elsewhere"))]);
    assert!(!examined.status.success() && out(&examined).contains("a right: hset: "), "{examined:?}");
    redis.ask("CONFIG SET maxmemory-policy allkeys-lru");
    let examined = examine(&dir, &[("broker.url", &url("exact"))]);
    assert!(examined.status.success() && out(&examined).contains("maxmemory-policy is allkeys-lru"), "{examined:?}");
    let examined = examine(&dir, &[("broker.url", &url("nobody"))]);
    assert!(!examined.status.success() && !out(&examined).contains("secret"), "{examined:?}");
}

/// Passes one connection on to a server, and sets the clock of its answer to `TIME` back by an hour.
fn set_back(server: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut client = listener.accept().unwrap().0;
        let mut server = TcpStream::connect(("127.0.0.1", server)).unwrap();
        let (mut asking, mut asked) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        thread::spawn(move || io::copy(&mut asking, &mut asked));
        let mut bytes = [0; 65_536];
        while let Ok(read @ 1..) = server.read(&mut bytes) {
            let answer = &mut bytes[..read];
            if let Some(seconds) = answer.strip_prefix(b"*2\r\n$10\r\n").and_then(|rest| rest.get(..10)) {
                let seconds: u64 = std::str::from_utf8(seconds).unwrap().parse().unwrap();
                answer[9..19].copy_from_slice((seconds - 3_600).to_string().as_bytes());
            }
            client.write_all(answer).unwrap();
        }
    });
    port
}

#[test]
fn the_clocks_of_this_machine_and_of_redis_are_compared() {
    let redis = RedisServer::start();
    let dir = tempfile::tempdir().unwrap();
    let examined = examine(&dir, &[("broker.url", &redis.url())]);
    assert!(examined.status.success() && out(&examined).contains("its clock and that of this machine agree"));
    let behind = format!("redis://127.0.0.1:{}", set_back(redis.port()));
    let examined = examine(&dir, &[("broker.url", &behind)]);
    let text = out(&examined);
    let advice = text.lines().filter(|line| line.starts_with("advice ")).find_map(|line| {
        let (before, _) = line.split_once(" ms ahead of")?;
        before.rsplit(' ').next()?.parse::<u64>().ok()
    });
    // The answer takes a while, half of which counts.
    assert!(examined.status.success(), "{examined:?}");
    assert!(advice.is_some_and(|ahead| ahead.abs_diff(3_600_000) < 10_000), "{examined:?}");
}

#[tokio::test]
async fn rights_and_settings_of_postgresql_are_named() {
    let postgres = PostgresServer::start_with(&["-c", "autovacuum=off"]);
    postgres.ask("postgres", "CREATE ROLE limited LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC").await;
    let dir = tempfile::tempdir().unwrap();
    let examined = examine(&dir, &[("ledger.url", &postgres.url("postgres")), ("ledger.connections", "200")]);
    assert!(examined.status.success(), "{examined:?}");
    for advice in ["autovacuum is off", "fsync is off", "it is enough for 1 nodes"] {
        assert!(out(&examined).contains(advice), "{advice}: {examined:?}");
    }
    let limited = postgres.url("postgres").replace("feedline@", "limited@");
    let examined = examine(&dir, &[("ledger.url", &limited)]);
    assert!(!examined.status.success(), "{examined:?}");
    assert!(out(&examined).contains("missing  ") && out(&examined).contains("CREATE on schema public"), "{examined:?}");
    // The schema of another user: the tables alone are not enough.
    let url = postgres.url("postgres");
    let made = feedline(&dir, &["quarantine", "list"]).env("FEEDLINE__LEDGER__URL", &url).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let grant = "GRANT ALL ON SCHEMA public TO limited; GRANT ALL ON ALL TABLES IN SCHEMA public TO limited; \
                 GRANT USAGE ON SEQUENCE notification_ids TO limited; \
                 REVOKE EXECUTE ON FUNCTION feedline_clock() FROM PUBLIC";
    postgres.ask("postgres", grant).await;
    let examined = examine(&dir, &[("ledger.url", &limited)]);
    assert!(!examined.status.success(), "{examined:?}");
    for right in
        ["USAGE on sequence follows_seq", "UPDATE on sequence notification_ids", "EXECUTE on function feedline_clock"]
    {
        assert!(out(&examined).contains(&format!("the right {right}\n")), "{right}: {examined:?}");
    }
    for granted in ["USAGE on sequence notification_ids", "on table ", "feedline_take_partitions"] {
        assert!(!out(&examined).contains(granted), "{granted}: {examined:?}");
    }
    let grant = "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO limited; \
                 GRANT EXECUTE ON FUNCTION feedline_clock() TO limited";
    postgres.ask("postgres", grant).await;
    let examined = examine(&dir, &[("ledger.url", &limited)]);
    assert!(examined.status.success(), "{examined:?}");
    let nowhere = examine(&dir, &[("ledger.url", "postgres://ann:hunter2@127.0.0.1:1/feed")]);
    assert!(!nowhere.status.success() && out(&nowhere).contains("(ledger.url)"), "{nowhere:?}");
    assert!(!out(&nowhere).contains("hunter2"), "{nowhere:?}");
}

#[test]
fn ports_files_and_credentials_are_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    certify(dir.path(), "1");
    let examined = examine(&dir, &[("server.tls_certificate", "tls.crt"), ("server.tls_key", "tls.key")]);
    assert!(examined.status.success() && out(&examined).contains("it expires in "), "{examined:?}");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let examined = examine(&dir, &[("server.listen", &taken)]);
    assert!(examined.status.success() && out(&examined).contains("as by a server that runs"), "{examined:?}");
    for (keys, expected) in [
        (vec![("server.listen", "192.0.2.1:80")], "cannot listen on 192.0.2.1:80 (server.listen)"),
        (vec![("server.data_dir", "/proc/feedline")], "(server.data_dir)"),
        (vec![("server.listen", "unix:/proc/feedline.sock")], "unix:/proc/feedline.sock (server.listen)"),
        (vec![("server.tls_certificate", "no.crt"), ("server.tls_key", "no.key")], "(server.tls_certificate)"),
        (vec![("outlet.stream", "true")], "(outlet)"),
    ] {
        let examined = examine(&dir, &keys);
        assert!(!examined.status.success() && out(&examined).contains(expected), "{keys:?}: {examined:?}");
    }
}
