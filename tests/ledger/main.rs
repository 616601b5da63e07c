//! What every ledger must do, and what is SQLite's own.

#[macro_use]
mod conformance;
mod barriers;
mod comments;
mod idempotency;
mod notifications;
mod people;
mod sqlite;
mod support;
mod timeline;
