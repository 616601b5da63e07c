//! The statements of fan-out jobs: their plans, and their commits.

use feedline_test_support::postgres_server::shared;

use super::{Cost, cost, ledger};
use crate::ledger::Ledger as _;
use crate::ledger::postgres::{PostgresLedger, PostgresOptions, PostgresUrl, endpoint::Endpoint, jobs};

/// Jobs are read from the index of their partition, behind its floor.
async fn jobs_are_read_by_partition(ledger: &PostgresLedger) {
    for (sql, arguments) in [
        (jobs::LOAD, "'{1,2}', '{fanout/1,fanout/2}', '{1,1}', '{9,9}', '{}'"),
        (jobs::BACKLOG, "'{1,2}'"),
        (jobs::RAISE_FLOORS, "'{1,2}', '{fanout/1,fanout/2}', '{1,1}', 9"),
    ] {
        let Cost { plan, .. } = cost(ledger, sql, arguments).await;
        assert!(plan.contains("jobs_partition"), "{plan}");
    }
    for (sql, arguments) in [(jobs::HOLDS, "1, 'fanout/1', 1"), (jobs::FINISH, "'{1}', '{fanout/1}', '{1}'")] {
        let Cost { plan, .. } = cost(ledger, sql, arguments).await;
        assert!(plan.contains("jobs_pkey"), "{plan}");
    }
}

#[tokio::test]
async fn jobs_are_read_by_partition_behind_an_old_snapshot() {
    let (ledger, name) = ledger(shared()).await;
    let dump = shared().client(&name).await;
    dump.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM jobs").await.expect("a snapshot");
    let fill = "INSERT INTO jobs (partition, author, work, created_at) \
                SELECT n % 64, 'u', '', 0 FROM generate_series(1, 5000) n; DELETE FROM jobs";
    shared().ask(&name, fill).await;
    // The planner learns that no row is left.
    shared().ask(&name, "VACUUM ANALYZE jobs").await;
    jobs_are_read_by_partition(&ledger).await;
    dump.batch_execute("ROLLBACK").await.expect("to end");
}

#[tokio::test]
async fn job_completion_is_not_awaited() {
    let server = shared();
    let (ledger, name) = ledger(server).await;
    server.ask(&name, "INSERT INTO jobs (partition, author, work, created_at) VALUES (0, 'a', '', 0)").await;
    server.ask(&name, "INSERT INTO work_partitions (name, generation) VALUES ('fanout/0', 1)").await;
    let url = PostgresUrl::parse(&server.url(&name)).expect("a URL");
    let mut client =
        Endpoint::new(&PostgresOptions::new(url)).expect("a place").connect(|| ()).await.expect("a connection");
    let commits = async |client: &tokio_postgres::Transaction<'_>| {
        client.query_one("SHOW synchronous_commit", &[]).await.expect("an answer").get::<_, String>(0)
    };
    let ids = vec![1_i64];
    let names = vec!["fanout/0"];
    let generations = vec![1_i64];
    let transaction = client.transaction().await.expect("a transaction");
    assert_eq!(commits(&transaction).await, "on");
    let changed = transaction.execute(jobs::FINISH, &[&ids, &names, &generations]).await;
    assert_eq!((changed.expect("it is there"), &*commits(&transaction).await), (1, "off"));
    transaction.commit().await.expect("a commit");
    ledger.close().await;
}
