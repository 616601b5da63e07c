//! What every ledger must do, and what is SQLite's and PostgreSQL's own.

mod conformance;
mod postgres;
#[path = "../support/postgres.rs"]
mod postgres_server;
mod sqlite;
mod support;
mod timeline;
