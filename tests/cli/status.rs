//! `feedline status`.

use feedline_test_support::postgres_server::shared;
use feedline_test_support::redis_server::RedisServer;
use serde_json::Value;

use super::{entries, feedline, out, run};

#[test]
fn what_is_unknown_without_the_ledger_is_not_shown_as_none() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = "postgres://ann:hunter2@127.0.0.1:1/feed?connect_timeout=1";
    let shown = feedline(&dir, &["status"]).env("FEEDLINE__LEDGER__URL", nowhere).output().unwrap();
    let text = out(&shown);
    assert!(!shown.status.success() && text.contains("unknown: the ledger cannot be read"), "{shown:?}");
    assert!(text.contains("postgres") && !text.contains("0 alive") && !text.contains("hunter2"), "{text}");
    assert!(text.contains("failover    none"), "{text}");
    let shown = feedline(&dir, &["status", "--json"]).env("FEEDLINE__LEDGER__URL", nowhere).output().unwrap();
    let status: Value = serde_json::from_str(out(&shown)).unwrap();
    for member in ["nodes", "work", "quarantine"] {
        assert_eq!(status.get(member), Some(&Value::Null), "{member}: {status}");
    }
    assert!(!shown.status.success() && status["stores"]["postgres"] != "ok", "{status}");
}

#[test]
fn a_status_makes_no_ledger_and_migrates_none() {
    let dir = tempfile::tempdir().unwrap();
    let shown = run(&dir, &["status"]);
    assert!(!shown.status.success() && out(&shown).contains("there is no ledger yet"), "{shown:?}");
    assert!(entries(dir.path()).is_empty(), "{:?}", entries(dir.path()));

    assert!(run(&dir, &["quarantine", "list"]).status.success());
    assert!(run(&dir, &["status"]).status.success());
    let ledger = rusqlite::Connection::open(dir.path().join("data/feedline.db")).unwrap();
    for (version, said) in [("0", "has no schema yet"), ("1", "version 1"), ("99", "a newer one made it")] {
        ledger.execute("DELETE FROM schema_migrations", []).unwrap();
        ledger.execute("INSERT INTO schema_migrations (version, applied_at) VALUES (?1, 0)", [version]).unwrap();
        let shown = run(&dir, &["status"]);
        assert!(!shown.status.success() && out(&shown).contains(said), "{shown:?}");
        let kept: String = ledger
            .query_row("SELECT max(version) FROM schema_migrations", [], |row| row.get::<_, i64>(0))
            .unwrap()
            .to_string();
        assert_eq!(kept, version);
    }
}

#[tokio::test]
async fn a_status_makes_no_schema_in_postgres() {
    let dir = tempfile::tempdir().unwrap();
    let url = shared().url(&shared().database("template1").await);
    let status = || feedline(&dir, &["status"]).env("FEEDLINE__LEDGER__URL", &url).output().unwrap();
    for _ in 0..2 {
        let shown = status();
        assert!(!shown.status.success() && out(&shown).contains("has no schema yet"), "{shown:?}");
    }
    let made = feedline(&dir, &["quarantine", "list"]).env("FEEDLINE__LEDGER__URL", &url).output().unwrap();
    assert!(made.status.success() && status().status.success(), "{made:?}");
}

#[test]
fn the_queue_of_likes_is_shown_where_redis_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let redis = RedisServer::start();
    assert!(run(&dir, &["quarantine", "list"]).status.success());
    let likes = || {
        let mut command = feedline(&dir, &["status", "--json"]);
        let shown = command.env("FEEDLINE__BROKER__URL", redis.url()).output().unwrap();
        let status: Value = serde_json::from_str(out(&shown)).unwrap();
        status["work"]["likes"].clone()
    };
    assert_eq!(likes(), serde_json::json!({ "waiting": 0, "oldest_seconds": 0 }));
    for id in ["1-0", "2-0"] {
        redis.ask(&format!("XADD feedline:{{likes}}:q:3 {id} b x"));
    }
    assert_eq!(likes()["waiting"], 2);
    assert!(likes()["oldest_seconds"].as_u64() > Some(1_700_000_000), "{}", likes());
}
