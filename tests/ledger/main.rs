//! What every ledger must do, and what is SQLite's own.

mod conformance;
mod likes;
mod sqlite;
mod support;
mod timeline;
