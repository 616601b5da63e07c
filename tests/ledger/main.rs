//! What every ledger must do, and what is SQLite's own.

mod barriers;
mod comments;
mod conformance;
mod counts;
mod favourites;
mod idempotency;
mod likes;
mod notifications;
mod people;
mod pulled;
mod sqlite;
mod support;
mod timeline;
mod topics;
