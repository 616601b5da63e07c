//! `feedline doctor`.

use std::process::Output;

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
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
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
