//! What every ledger must do, and what is SQLite's own.

#[macro_use]
mod conformance;
mod barriers;
mod comments;
mod likes;
mod notifications;
mod sqlite;
mod support;
mod timeline;
