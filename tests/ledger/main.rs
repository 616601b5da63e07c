//! What every ledger must do, and what is SQLite's and PostgreSQL's own.

mod audience;
mod barriers;
mod comments;
mod conformance;
mod counts;
mod erasures;
mod events;
mod favourites;
mod idempotency;
mod jobs;
mod likes;
mod lineage;
mod nodes;
mod notifications;
mod people;
mod personal;
mod postgres;
mod pulled;
mod quarantine;
mod revocations;
mod sqlite;
mod support;
mod timeline;
mod topics;
mod under;
mod waits;

use feedline_test_support::postgres_server;
