//! A PostgreSQL whose disk is full: it answers, and refuses what needs space.

use std::time::Duration;

use serde_json::json;

use crate::cluster::attempt;
use crate::postgres_server::PostgresServer;
use crate::server::{Server, until};

/// Longer than a refusal counts without another one.
const QUIET: Duration = Duration::from_secs(22);

/// Inserted rows find no space.
const FULL: &str = "
    CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;
    CREATE TRIGGER full_disk BEFORE INSERT ON comments FOR EACH ROW EXECUTE FUNCTION full_disk()";

async fn ledger_of(server: &Server, path: &str) -> (u16, String) {
    let answer = server.http("GET", path, &[], "").await;
    (answer.status.as_u16(), answer.body["stores"]["ledger"].as_str().unwrap_or_default().to_owned())
}

async fn is_up(server: &Server) -> Option<f64> {
    server.metric("feedline_store_up{store=\"ledger\"}").await
}

#[tokio::test]
async fn a_full_disk_is_seen_until_there_is_space() {
    let postgres = PostgresServer::start();
    let server = Server::start_with(&[("ledger.url", &postgres.url("postgres"))]).await;
    let post = server.post("ann", "first").await;
    assert_eq!(ledger_of(&server, "/ready").await, (200, "ok".to_owned()));
    postgres.ask("postgres", FULL).await;
    let text = json!({ "text": "no space" });
    let (status, body) = attempt(&server, "bo", "POST", &format!("/posts/{post}/comments"), &text).await;
    assert_eq!(status, 503, "{body}");
    // A small write changes a row in its place.
    for (path, expected) in [("/ready", 200), ("/health/stores", 503)] {
        let (status, ledger) = ledger_of(&server, path).await;
        assert!(status == expected && ledger.contains("disk full"), "{path}: {status} {ledger}");
    }
    assert_eq!(is_up(&server).await, Some(0.0));

    // Nobody writes: the node itself finds out that there is no space.
    postgres.ask("postgres", "ALTER SYSTEM SET temp_file_limit = '10kB'").await;
    postgres.ask("postgres", "SELECT pg_reload_conf()").await;
    tokio::time::sleep(QUIET).await;
    assert_eq!(is_up(&server).await, Some(0.0), "{}", server.log());
    assert_eq!(server.log().matches("a store is back").count(), 0, "{}", server.log());
    let examined = server.command(&["doctor"]);
    let said = String::from_utf8_lossy(&examined.stdout).into_owned();
    assert!(!examined.status.success() && said.contains("temporary file size exceeds"), "{said}");
    let status = server.command(&["status"]);
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(!status.status.success() && said.contains("temporary file size exceeds"), "{said}");

    postgres.ask("postgres", "ALTER SYSTEM RESET temp_file_limit").await;
    postgres.ask("postgres", "SELECT pg_reload_conf(); DROP FUNCTION full_disk CASCADE").await;
    until("it is back", async || is_up(&server).await == Some(1.0)).await;
    let (status, body) = attempt(&server, "bo", "POST", &format!("/posts/{post}/comments"), &text).await;
    assert_eq!(status, 201, "{body}");
    assert_eq!(ledger_of(&server, "/health/stores").await, (200, "ok".to_owned()));
    assert!(server.log().contains("a store is back"));
}
