//! What every ledger must do, and what is SQLite's own.

mod barriers;
mod conformance;
mod sqlite;
mod support;
mod timeline;
