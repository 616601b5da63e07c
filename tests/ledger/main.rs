//! What every ledger must do, and what is SQLite's and PostgreSQL's own.

#[macro_use]
mod support;
mod barriers;
mod comments;
mod conformance;
mod notifications;
mod postgres;
#[path = "../support/postgres.rs"]
mod postgres_server;
mod sqlite;
mod timeline;
