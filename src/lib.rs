//! Feedline: a WebSocket gateway for social feeds.
//!
//! Clients hold one socket and see their timeline move. This page is the map; ARCHITECTURE.md walks a post and a
//! reconnect through it.
//!
//! Data flows one way: socket → session → feed → ledger and broker → hub → socket.
//!
//! | folder | what is in it |
//! |---|---|
//! | [`app`] | builds the parts, starts and stops them in order |
//! | [`config`] | what the user wrote → what is valid |
//! | [`http`] | the route table, the API of backends, OpenAPI, health, metrics, the page |
//! | [`gateway`] | sockets: accept loop, session, connection, outbox, hub |
//! | [`protocol`] | the client wire, pure |
//! | [`feed`] | what a feed is, one file a concept; the table of operations |
//! | [`auth`] | tokens, API keys, passwords |
//! | [`broker`] | the logs behind channels, and who hears of them: memory, Redis |
//! | [`ledger`] | the durable truth: SQLite |
//! | [`limiter`] | rate limits in bounded memory |
//! | [`model`] | the vocabulary: users, posts, log entries |
//! | [`net`] | client addresses behind proxies, browser origins |
//! | [`metrics`] | what is counted |
//!
//! The program `feedline` adds the command line (`cli`) and, behind the feature `bench`, `feedline bench`.

pub mod api;
pub mod app;
pub mod auth;
mod backoff;
pub mod broker;
pub mod config;
pub mod feed;
pub mod gateway;
pub mod http;
pub mod ledger;
pub mod limiter;
pub mod metrics;
pub mod model;
pub mod net;
pub mod protocol;
