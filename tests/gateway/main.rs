//! The server from the users' view: the real binary and real sockets, without access to its internals.

mod activity;
mod app_notifications;
mod app_pushes;
mod audience;
mod backend;
mod base_path;
mod both_pairs;
mod callers;
mod cent;
mod channels;
mod choices;
mod clocks;
mod close_codes;
mod comment_edits;
mod comment_lists;
mod comments;
mod compose_limits;
mod compression_savings;
mod contract;
mod conversations;
mod cors;
mod delta_savings;
mod deltas;
mod devices;
mod disconnects;
mod edits;
mod emulation;
mod endings;
mod erasure;
mod expansions;
mod expiry;
mod explore;
mod favourites;
mod filters;
mod hook_failures;
mod hooks;
mod http;
mod idempotency;
mod identity;
mod insecure;
mod issuer_keys;
#[path = "../push/keys.rs"]
#[expect(dead_code, reason = "the tests of transports need more of it")]
mod keys;
mod likes;
mod limits;
mod list_logs;
mod lists;
mod locked;
mod malformed_input;
mod metrics;
mod moderation;
mod notification_retention;
mod notifications;
mod nulls;
mod operation_cases;
mod outlet;
mod overrides;
mod own_api;
mod own_lists;
mod page;
mod people;
mod protobuf;
mod proxies;
mod pulled;
mod push_alerts;
#[path = "../push/browser.rs"]
mod push_browser;
mod push_clears;
mod push_digests;
mod push_live;
#[path = "../push/server.rs"]
#[expect(dead_code, reason = "the tests of transports need more of it")]
mod push_provider;
mod push_queue;
mod push_receiver;
mod pushes;
mod python_packages;
mod python_sdk;
mod rates;
mod reading;
mod reload;
mod reports;
mod repost_rules;
mod reposts;
mod restrictions;
mod revocations;
mod rights;
mod server_api;
mod sources;
mod spellings;
mod stalls;
mod statements;
mod status;
mod streams;
mod text;
mod timelines;
mod tokens;
mod topic_follows;
mod topics;
mod unidirectional;
mod visibility;
mod withdrawals;

use feedline_test_support::{client, ports, postgres_server, redis_server, server, stream_socket, webhook};

/// Channels of the application: with all options, with none, private, and open for publishing.
const NAMESPACES: &str = r#"[
    {"name":"chat","history_size":10,"history_ttl":"60s","presence":true,"join_leave":true,"publish":"subscriber"},
    {"name":"plain"},
    {"name":"shut","subscribe":"nobody"},
    {"name":"open","publish":"anyone"}
]"#;
