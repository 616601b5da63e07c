//! Migrations, functions and concurrent indexes. Each test has its own schema.

use std::time::Duration;

use feedline_test_support::postgres_server::{PostgresServer, shared};
use futures::future::join_all;
use tokio_postgres::Client;

use super::concurrent_index;
use super::functions::{FUNCTIONS, FunctionFile};
use super::migrations::{Migration, Schema};
use crate::ledger::postgres::endpoint::{Endpoint, PostgresOptions};
use crate::ledger::postgres::url::PostgresUrl;

const NUMBERS: Migration = Migration {
    sql: "CREATE TABLE numbers (n int, part int); \
          CREATE TABLE parted (n int, part int) PARTITION BY HASH (part); \
          CREATE TABLE parted_0 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 0); \
          CREATE TABLE parted_1 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
    needs: 1,
};

const INDEXES: Migration = Migration {
    sql: "-- concurrent\n\
          -- One of each kind.\n\
          CREATE INDEX CONCURRENTLY numbers_part ON numbers (part) WHERE n > 0;\n\
          CREATE UNIQUE INDEX CONCURRENTLY numbers_n ON numbers (n);\n\
          CREATE UNIQUE INDEX CONCURRENTLY parted_n ON parted\n    (n, part);\n",
    needs: 1,
};

const AFTERWARDS: Migration = Migration { sql: "CREATE TABLE afterwards (n int)", needs: 1 };

const ONE: FunctionFile = FunctionFile {
    name: "numbers",
    sql: "-- revision: 1\nCREATE OR REPLACE FUNCTION a_number() RETURNS int LANGUAGE sql AS 'SELECT 1'",
};
const TWO: FunctionFile = FunctionFile {
    name: "numbers",
    sql: "-- revision: 2\nCREATE OR REPLACE FUNCTION a_number() RETURNS int LANGUAGE sql AS 'SELECT 2'",
};
/// The same revision with another text.
const ALSO_TWO: FunctionFile = FunctionFile {
    name: "numbers",
    sql: "-- revision: 2\nCREATE OR REPLACE FUNCTION a_number() RETURNS int LANGUAGE sql AS 'SELECT 22'",
};

async fn database() -> (&'static PostgresServer, String, Endpoint) {
    let server = shared();
    let name = server.database("template1").await;
    let url = PostgresUrl::parse(&server.url(&name)).expect("a URL");
    let options = PostgresOptions { patience: Duration::from_secs(20), ..PostgresOptions::new(url) };
    (server, name, Endpoint::new(&options).expect("an endpoint"))
}

/// The result of `a_number`, and the transaction that replaced it.
async fn number(client: &Client) -> (i32, String) {
    let sql = "SELECT a_number(), xmin::text FROM pg_proc WHERE proname = 'a_number'";
    let row = client.query_one(sql, &[]).await.expect("the function");
    (row.get(0), row.get(1))
}

#[tokio::test]
async fn functions_are_replaced_if_their_text_changed() {
    let (server, name, endpoint) = database().await;
    let client = server.client(&name).await;
    Schema { migrations: &[NUMBERS], functions: &[ONE] }.apply(&endpoint).await.expect("the first start");
    let (first, replaced_by) = number(&client).await;
    assert_eq!(first, 1);
    Schema { migrations: &[NUMBERS], functions: &[ONE] }.apply(&endpoint).await.expect("the same");
    assert_eq!(number(&client).await, (1, replaced_by), "an unchanged file is not applied");
    Schema { migrations: &[NUMBERS], functions: &[TWO] }.apply(&endpoint).await.expect("a changed file");
    assert_eq!(number(&client).await.0, 2);
    Schema { migrations: &[NUMBERS], functions: &[ALSO_TWO] }.apply(&endpoint).await.expect("a changed file");
    assert_eq!(number(&client).await.0, 22);
    Schema { migrations: &[NUMBERS], functions: &[ONE] }.apply(&endpoint).await.expect("an older node");
    assert_eq!(number(&client).await.0, 22, "an older node does not replace a later revision");
    // A newer program maintains its functions itself.
    let newer = "INSERT INTO schema_migrations VALUES (2, 1, 0); DELETE FROM schema_functions";
    server.ask(&name, newer).await;
    Schema { migrations: &[NUMBERS], functions: &[TWO] }.apply(&endpoint).await.expect("an older node");
    assert_eq!(number(&client).await.0, 22);
}

#[tokio::test]
async fn nodes_that_start_at_once_apply_the_functions_once() {
    let (server, name, endpoint) = database().await;
    let client = server.client(&name).await;
    Schema { migrations: &[NUMBERS], functions: &[ONE] }.apply(&endpoint).await.expect("the first start");
    let schemas = [TWO, TWO, ONE, TWO, ONE, TWO, TWO, ONE]
        .map(|file| Schema { migrations: &[NUMBERS], functions: Box::leak(Box::new([file])) });
    for applied in join_all(schemas.iter().map(|schema| schema.apply(&endpoint))).await {
        applied.expect("a start");
    }
    assert_eq!(number(&client).await.0, 2);
    let functions = client.query("SELECT revision FROM schema_functions", &[]).await.expect("rows");
    assert_eq!(functions.iter().map(|row| row.get(0)).collect::<Vec<i32>>(), [2]);
}

#[tokio::test]
async fn an_interrupted_index_is_built_again() {
    let (server, name, endpoint) = database().await;
    let client = server.client(&name).await;
    Schema { migrations: &[NUMBERS], functions: &[] }.apply(&endpoint).await.expect("tables");
    // Duplicates end a build in the middle, as an outage does: complete indexes stay, the interrupted one is invalid.
    server.ask(&name, "INSERT INTO numbers SELECT 7, n FROM generate_series(1, 2) n").await;
    server.ask(&name, "INSERT INTO parted SELECT 7, 7 FROM generate_series(1, 2) n").await;
    let schema = Schema { migrations: &[NUMBERS, INDEXES, AFTERWARDS], functions: &[ONE] };
    let state = "SELECT c.relname::text, i.indisvalid, c.oid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
                 WHERE c.relname LIKE 'numbers%' OR c.relname LIKE 'parted%' ORDER BY 1";
    let state = async || {
        let rows = client.query(state, &[]).await.expect("indexes");
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect::<Vec<(String, bool, u32)>>()
    };
    let refused = schema.apply(&endpoint).await.expect_err("duplicates").to_string();
    assert!(refused.contains("numbers_n"), "{refused}");
    let first = state().await;
    let names: Vec<_> = first.iter().map(|(name, valid, _)| (&**name, *valid)).collect();
    assert_eq!(names, [("numbers_n", false), ("numbers_part", true)]);

    server.ask(&name, "DELETE FROM numbers WHERE part = 2").await;
    schema.apply(&endpoint).await.expect_err("duplicates in a partition");
    server.ask(&name, "DELETE FROM parted WHERE ctid IN (SELECT min(ctid) FROM parted)").await;
    schema.apply(&endpoint).await.expect("the third attempt");
    let last = state().await;
    let names: Vec<_> = last.iter().map(|(name, valid, _)| (&**name, *valid)).collect();
    let expected = ["numbers_n", "numbers_part", "parted_n", "parted_n_0", "parted_n_1"].map(|name| (name, true));
    assert_eq!(names, expected);
    assert_eq!(last[1], first[1], "a complete index is not built again");
    let adopted = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'parted_n'::regclass";
    assert_eq!(client.query_one(adopted, &[]).await.expect("a count").get::<_, i64>(0), 2);
    let versions = client.query("SELECT version FROM schema_migrations ORDER BY 1", &[]).await.expect("versions");
    assert_eq!(versions.iter().map(|row| row.get(0)).collect::<Vec<i32>>(), [1, 2, 3]);
}

#[tokio::test]
async fn an_index_is_built_while_writes_go_on() {
    let (server, name, endpoint) = database().await;
    Schema { migrations: &[NUMBERS], functions: &[] }.apply(&endpoint).await.expect("tables");
    // The build waits for this transaction; other writes do not wait for the build.
    let open = server.client(&name).await;
    open.batch_execute("BEGIN; INSERT INTO numbers VALUES (1, 1)").await.expect("a transaction");
    let schema = Schema { migrations: &[NUMBERS, INDEXES], functions: &[] };
    let building = schema.apply(&endpoint);
    let writing = async {
        let other = server.client(&name).await;
        let begun = "SELECT count(*) FROM pg_class WHERE relname = 'numbers_part'";
        while other.query_one(begun, &[]).await.expect("a count").get::<_, i64>(0) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let write = "SET lock_timeout = 3000; INSERT INTO numbers VALUES (2, 2); INSERT INTO parted VALUES (2, 2)";
        other.batch_execute(write).await.expect("a write during the build");
        open.batch_execute("COMMIT").await.expect("a commit");
    };
    let (built, ()) = tokio::join!(building, writing);
    built.expect("indexes");
}

#[test]
fn concurrent_migrations_consist_of_indexes() {
    assert_eq!(concurrent_index::parse("CREATE TABLE t (n int)"), Ok(None));
    assert!(concurrent_index::parse(INDEXES.sql).is_ok_and(|indexes| indexes.is_some_and(|all| all.len() == 3)));
    for wrong in ["CREATE TABLE t (n int)", "CREATE INDEX i ON t (n)", "CREATE INDEX CONCURRENTLY ON t (n)"] {
        assert_eq!(concurrent_index::parse(&format!("-- concurrent\n{wrong};")), Err(wrong.to_owned()));
    }
}

#[test]
fn every_file_of_functions_is_listed_and_has_a_revision() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ledger/postgres/functions");
    let files = std::fs::read_dir(folder).expect("the functions");
    let mut files: Vec<_> = files.map(|file| file.expect("a file").file_name().into_string().expect("text")).collect();
    let mut listed: Vec<_> = FUNCTIONS.iter().map(|file| format!("{}.sql", file.name)).collect();
    files.sort_unstable();
    listed.sort_unstable();
    assert_eq!(files, listed);
    for file in FUNCTIONS {
        assert!(file.revision() > 0, "{}: the first line is `-- revision: N`", file.name);
        let created = file.sql.matches("\nCREATE ").count();
        assert_eq!(created, file.sql.matches("\nCREATE OR REPLACE FUNCTION feedline_").count(), "{}", file.name);
    }
}
