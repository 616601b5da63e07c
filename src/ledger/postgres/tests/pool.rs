//! Calls that share connections.

use std::time::Duration;

use feedline_test_support::pooler::Pooler;
use feedline_test_support::postgres_server::{PostgresServer, shared};
use futures::future::join_all;

use super::id;
use crate::ledger::postgres::{PostgresLedger, PostgresOptions, PostgresUrl};
use crate::ledger::{BulkLoad as _, Ledger as _, PeopleStore as _};

#[tokio::test]
async fn reads_do_not_wait_behind_writes_that_wait_for_a_row() {
    let server = shared();
    let name = server.database("template1").await;
    let url = PostgresUrl::parse(&server.url(&name)).expect("a URL");
    let options = PostgresOptions { connections: 4, ..PostgresOptions::new(url) };
    let ledger = PostgresLedger::open(options).await.expect("it opens");
    ledger.load_users(&[id("ann")], 1).await.expect("a user");
    while ledger.pool.open_connections() < 4 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let holder = server.client(&name).await;
    holder.batch_execute("BEGIN; SELECT FROM users WHERE id = 'ann' FOR UPDATE").await.expect("a lock");
    let ann = [id("ann")];
    let write = || ledger.pool.write("UPDATE users SET name = 'Ann' WHERE id = 'ann'", &[]);
    let writes = join_all((0..12).map(|_| write()));
    let reads = async {
        // The writes are under way.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let read = || tokio::time::timeout(Duration::from_millis(800), ledger.users(&ann));
        for read in join_all((0..20).map(|_| read())).await {
            read.expect("a read in time").expect("a read");
        }
        holder.batch_execute("COMMIT").await.expect("the end of the lock");
    };
    let (writes, ()) = tokio::join!(writes, reads);
    assert!(writes.iter().all(Result::is_ok), "{writes:?}");
    ledger.close().await;
}

#[tokio::test]
async fn cancelled_calls_leave_no_prepared_statement_behind_a_pooler() {
    let server = PostgresServer::start();
    let pooler = Pooler::start(&server, "transaction").await;
    let url = PostgresUrl::parse(&pooler.url("postgres")).expect("a URL");
    let timeout = Duration::from_secs(1);
    let options = PostgresOptions { prepared_statements: false, timeout, ..PostgresOptions::new(url) };
    let ledger = PostgresLedger::open(options).await.expect("it opens");
    // To parse a statement, the server waits for the table: until the caller is cancelled, and for longer than a call
    // may take.
    for (sql, limit, held) in [
        ("SELECT count(*) FROM reports", timeout / 4, timeout / 2),
        ("SELECT max(id) FROM reports", timeout * 3, timeout * 2),
    ] {
        let holder = server.client("postgres").await;
        holder.batch_execute("BEGIN; LOCK TABLE reports").await.expect("a lock");
        let call = tokio::time::timeout(limit, ledger.pool.read(sql, &[]));
        let (answer, ()) = tokio::join!(call, tokio::time::sleep(held));
        assert!(!matches!(answer, Ok(Ok(_))), "{sql}: the lock is held");
        holder.batch_execute("COMMIT").await.expect("the end of the lock");
        ledger.pool.read(sql, &[]).await.expect("it is asked again");
    }
    ledger.close().await;
    let prepared = pooler.ask_each("SELECT name FROM pg_prepared_statements", "postgres").await;
    assert_eq!(prepared, [""; 0]);
}
