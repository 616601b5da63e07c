//! The server from the users' view: the real binary and real sockets, without access to its internals.

mod activity;
mod audience;
mod backend;
mod channels;
mod close_codes;
mod comment_edits;
mod comment_lists;
mod comments;
mod contract;
mod conversations;
mod cors;
mod edits;
mod erasure;
mod expansions;
mod expiry;
mod explore;
mod favourites;
mod http;
mod idempotency;
mod identity;
mod likes;
mod limits;
mod malformed_input;
mod notifications;
mod own_lists;
mod people;
mod proxies;
mod pulled;
mod rates;
mod reading;
mod restrictions;
mod revocations;
mod rights;
mod sources;
mod stalls;
mod timelines;
mod tokens;
mod topics;
mod visibility;

use feedline_test_support::{client, ports, postgres_server, redis_server, server};

/// Channels of the application: with all options, with none, private, and open for publishing.
const NAMESPACES: &str = r#"[
    {"name":"chat","history_size":10,"history_ttl":"60s","presence":true,"join_leave":true,"publish":"subscriber"},
    {"name":"plain"},
    {"name":"shut","subscribe":"nobody"},
    {"name":"open","publish":"anyone"}
]"#;
