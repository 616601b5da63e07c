//! Migrations and functions. Each test has its own schema.

use std::time::Duration;

use feedline_test_support::postgres_server::{PostgresServer, shared};
use futures::future::join_all;
use tokio_postgres::Client;

use super::functions::{FUNCTIONS, FunctionFile};
use super::migrations::{Migration, Schema};
use crate::ledger::postgres::endpoint::{Endpoint, PostgresOptions};
use crate::ledger::postgres::url::PostgresUrl;

const NUMBERS: Migration = Migration { sql: "CREATE TABLE numbers (n int)", needs: 1 };
const AFTERWARDS: Migration = Migration { sql: "CREATE TABLE afterwards (n int)", needs: 1 };
const BROKEN: Migration = Migration { sql: "CREATE TABLE broken (n int); SELECT 1 / 0", needs: 1 };

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
async fn missing_migrations_are_applied_all_or_none() {
    let (server, name, endpoint) = database().await;
    let client = server.client(&name).await;
    Schema { migrations: &[NUMBERS], functions: &[] }.apply(&endpoint).await.expect("the first start");
    let state = async || {
        let versions = client.query("SELECT version FROM schema_migrations ORDER BY 1", &[]).await.expect("versions");
        let tables = "SELECT relname::text FROM pg_class WHERE relname IN ('numbers', 'afterwards', 'broken')";
        let tables = client.query(&format!("{tables} ORDER BY 1"), &[]).await.expect("tables");
        let versions: Vec<i32> = versions.iter().map(|row| row.get(0)).collect();
        (versions, tables.iter().map(|row| row.get(0)).collect::<Vec<String>>())
    };
    let broken = Schema { migrations: &[NUMBERS, AFTERWARDS, BROKEN], functions: &[] };
    let refused = broken.apply(&endpoint).await.expect_err("a division by zero").to_string();
    assert!(refused.contains("division by zero"), "{refused}");
    assert_eq!(state().await, (vec![1], vec!["numbers".to_owned()]));
    Schema { migrations: &[NUMBERS, AFTERWARDS], functions: &[] }.apply(&endpoint).await.expect("an update");
    assert_eq!(state().await, (vec![1, 2], vec!["afterwards".to_owned(), "numbers".to_owned()]));
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
