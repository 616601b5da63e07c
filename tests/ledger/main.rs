//! Conformance tests of every ledger, and tests specific to SQLite and PostgreSQL.

mod audience;
mod clears;
mod comments;
mod conformance;
mod conversations;
mod counts;
mod devices;
mod erasures;
mod events;
mod favourites;
mod idempotency;
mod jobs;
mod likes;
mod lineage;
mod lock_waits;
mod nodes;
mod notifications;
mod outlet;
mod people;
mod personal;
mod post_alerts;
mod postgres;
mod postgres_schema;
mod postgres_tls;
mod previews;
mod pulled;
mod pushes;
mod quarantine;
mod restrictions;
mod revocations;
mod sqlite;
mod support;
mod timeline;
mod topics;

use feedline_test_support::postgres_server;
