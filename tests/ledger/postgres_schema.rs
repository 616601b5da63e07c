//! Opening a PostgreSQL database: concurrent starts, newer schemas, migrations that wait.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use feedline::ledger::{
    Ledger, LedgerError, PeopleStore, PostgresLedger, PostgresOptions, PostgresUrl, PullLogStore, RestrictionStore,
};
use feedline::model::UserId;
use futures::future::join_all;

use crate::postgres_server::shared;
use crate::support::{PATIENCE, database, open_at, postgres_options, users};

/// The captured log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("nobody panicked").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn concurrent_opens_of_a_new_database_succeed() {
    let (server, _) = database().await;
    let name = server.database("template1").await;
    for ledger in join_all((0..8).map(|_| open_at(server, &name))).await {
        ledger.ping().await.unwrap();
        ledger.close().await;
    }
    let steps = server.client(&name).await.query("SELECT version FROM schema_migrations", &[]).await.unwrap();
    assert_eq!(steps.len(), std::fs::read_dir("src/ledger/migrations/postgres").unwrap().count());
}

#[tokio::test]
async fn newer_schemas_are_used_if_declared_compatible() {
    let (server, name) = database().await;
    let known = std::fs::read_dir("src/ledger/migrations/postgres").unwrap().count();
    server.ask(&name, &format!("INSERT INTO schema_migrations VALUES (998, {known}, 0)")).await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann"]).await;
    ledger.close().await;
    server.ask(&name, "INSERT INTO schema_migrations VALUES (999, 998, 0)").await;
    let Err(refused) = PostgresLedger::open(postgres_options(server, &name)).await else { panic!("it opened") };
    let said = refused.to_string();
    let place = format!("postgres at 127.0.0.1:{}/{name}", server.port());
    let why =
        format!("its schema is version 999, made for programs that know version 998 or later; this one knows {known}");
    assert_eq!(said, format!("the ledger failed: {place}: {why}"));
}

/// Databases of the first schema keep their rows.
#[tokio::test]
async fn databases_of_the_first_schema_are_migrated() {
    let (server, _) = database().await;
    let name = server.database("template1").await;
    let first = server.client(&name).await;
    first.batch_execute(include_str!("../../src/ledger/migrations/postgres/0001_initial.sql")).await.unwrap();
    first
        .batch_execute(
            "CREATE TABLE schema_migrations (version int PRIMARY KEY, needs int NOT NULL, applied_at bigint NOT NULL);
             CREATE TABLE schema_functions (file text PRIMARY KEY, revision int NOT NULL, sha256 text NOT NULL,
                 applied_at bigint NOT NULL);
             INSERT INTO schema_migrations VALUES (1, 1, 0);
             INSERT INTO users (id, name, created_at) VALUES ('ann', 'Ann', 1), ('bo', '', 1);
             INSERT INTO restrictions (maker, target, kind, at) VALUES ('ann', 'bo', 'mute', 5);
             INSERT INTO restricted_by (maker, target, kind) VALUES ('ann', 'bo', 'mute');
             INSERT INTO topics (name, folded, posts, last) VALUES ('rust', 'rust', 2, 2000000000000);
             INSERT INTO post_counts (post, likes) VALUES (7, 3);
             INSERT INTO pulled (mark, job, author, kind, post, repeated, at) VALUES (7, 7, 'ann', 'p', 7, false, 7)",
        )
        .await
        .unwrap();
    let ledger = open_at(server, &name).await;
    let [ann, bo] = ["ann", "bo"].map(|user| UserId::parse(user).unwrap());
    assert!(ledger.relations(&[(ann.clone(), bo)]).await.unwrap()[0].muted);
    assert_eq!(ledger.users(&[ann]).await.unwrap()[0].name, "Ann");
    assert_eq!(ledger.pulled_after(0, 9).await.unwrap().len(), 1);
    let row = "SELECT period = last >> 24 AND likes = 3 AND reposts = 0 FROM topics, post_counts";
    assert!(first.query_one(row, &[]).await.unwrap().get::<_, bool>(0));
    ledger.close().await;
}

#[tokio::test]
async fn startup_waits_for_another_nodes_migrations_with_a_timeout() {
    let (server, name) = database().await;
    let other = server.client(&name).await;
    let process: i32 = other.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    other.execute("SELECT pg_advisory_lock($1)", &[&0x6665_6564_6c69_6e65_i64]).await.unwrap();
    let log = Log::default();
    let writer = log.clone();
    let logged = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let refused = {
        let _logged = tracing::subscriber::set_default(logged);
        let options = PostgresOptions { patience: Duration::from_millis(300), ..postgres_options(server, &name) };
        PostgresLedger::open(options).await.err().expect("it is not its turn")
    };
    let said = format!(
        "the ledger is unreachable: postgres at 127.0.0.1:{}/{name}: another node is bringing the schema up \
         to date and did not end within 300ms; if it hangs, end the server's process {process}",
        server.port()
    );
    assert_eq!(refused.to_string(), said);
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(log.matches("another node brings the schema up to date, waiting for it").count(), 1, "{log}");

    // A start with a sufficient timeout waits and then succeeds.
    let opening = tokio::spawn(PostgresLedger::open(postgres_options(server, &name)));
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                   AND query LIKE 'SELECT pg_try_advisory%'";
    let until = Instant::now() + PATIENCE;
    while other.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(Instant::now() < until, "nobody waits");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!opening.is_finished());
    other.execute("SELECT pg_advisory_unlock_all()", &[]).await.unwrap();
    opening.await.unwrap().expect("it opens").close().await;
}

#[tokio::test]
async fn migrations_that_wait_for_a_lock_fail_with_the_reason() {
    let server = shared();
    let name = server.database("template1").await;
    // Another transaction holds the name of a table that the first migration creates.
    let other = server.client(&name).await;
    other.batch_execute("BEGIN; CREATE TABLE users (id int)").await.unwrap();
    let options = PostgresOptions { patience: Duration::from_millis(300), ..postgres_options(server, &name) };
    let refused = PostgresLedger::open(options).await.err().expect("it is held up");
    let said = refused.to_string();
    assert!(said.ends_with("needs a lock that somebody else holds, see pg_locks: gave up after 300ms"), "{said}");
    other.batch_execute("ROLLBACK").await.unwrap();
    open_at(server, &name).await.close().await;
}

/// A migration that waits for a lock gives its own locks back, and begins again.
#[tokio::test]
async fn migrations_begin_again_when_a_step_gets_no_lock() {
    let server = shared();
    let name = server.database("template1").await;
    let other = server.client(&name).await;
    other.batch_execute("BEGIN; CREATE TABLE users (id int)").await.unwrap();
    let opening = tokio::spawn(PostgresLedger::open(postgres_options(server, &name)));
    let observer = server.client(&name).await;
    for is_waiting in [true, false, true] {
        let waiters = "SELECT count(*) > 0 FROM pg_stat_activity \
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let seen = async {
            while observer.query_one(waiters, &[]).await.unwrap().get::<_, bool>(0) != is_waiting {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, seen).await.unwrap_or_else(|_| panic!("does it wait: not {is_waiting}"));
    }
    assert!(!opening.is_finished());
    other.batch_execute("ROLLBACK").await.unwrap();
    opening.await.unwrap().expect("it opens").close().await;
}

#[tokio::test]
async fn unusable_databases_are_reported_with_the_reason() {
    let (server, _) = database().await;
    let refusal =
        async |url: &str| match PostgresLedger::open(PostgresOptions::new(PostgresUrl::parse(url).unwrap())).await {
            Ok(_) => panic!("it opened"),
            Err(error) => error,
        };
    let nowhere = refusal(&server.url("nowhere")).await;
    assert!(nowhere.to_string().contains("database \"nowhere\" does not exist"), "{nowhere}");
    let nobody = refusal(&format!("postgres://nobody:hunter2@127.0.0.1:{}/fresh", server.port())).await;
    assert!(matches!(&nobody, LedgerError::Refused(_, why) if why.contains("\"nobody\"")), "{nobody}");
    let unencrypted = refusal(&format!("{}?sslmode=require", server.url("fresh"))).await;
    assert!(unencrypted.to_string().contains("TLS"), "{unencrypted}");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let closed = refusal(&format!("postgres://ann:hunter2@{closed}/feed")).await;
    assert!(matches!(&closed, LedgerError::Unreachable(why) if why.contains("refused")), "{closed}");
    server.ask("postgres", "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'").await;
    let latin = refusal(&server.url("latin")).await;
    assert!(latin.to_string().contains("must be in UTF8"), "{latin}");
    for said in [nobody, closed] {
        assert!(!said.to_string().contains("hunter2"), "{said}");
    }
}
