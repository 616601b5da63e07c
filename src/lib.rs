//! Feedline: a WebSocket gateway for social feeds.
//!
//! A client keeps one WebSocket open and receives the changes of its timeline over it. This page lists the modules;
//! ARCHITECTURE.md follows a post and a reconnect through them.
//!
//! Data flows one way: socket → session → feed → ledger and broker → hub → socket.
//!
//! | folder | contents |
//! | [`api`] | the table of operations, and the executor that runs them |
//! |---|---|
//! | [`app`] | builds the parts, starts and stops them in order |
//! | [`config`] | reads and validates the configuration |
//! | [`http`] | the route table, the API of backends, OpenAPI, health, metrics, the page |
//! | [`gateway`] | sockets: accept loop, session, connection, outbox, hub |
//! | [`protocol`] | the client protocol: commands, replies, codes |
//! | [`feed`] | the rules of the feed, one file for each concept |
//! | [`auth`] | tokens, API keys, passwords |
//! | [`broker`] | the logs of channels and the delivery to their subscribers: memory, Redis |
//! | [`ledger`] | the durable store: SQLite, PostgreSQL |
//! | [`limiter`] | rate limits in bounded memory |
//! | [`model`] | the basic types: users, posts, log entries |
//! | [`net`] | client addresses behind proxies, browser origins |
//! | [`metrics`] | the metrics for Prometheus |
//!
//! The program `feedline` adds the command line (`cli`) and, behind the feature `bench`, `feedline bench`.

pub mod api;
pub mod app;
pub mod auth;
mod backoff;
pub mod broker;
pub mod config;
pub mod demo;
pub mod feed;
pub mod gateway;
pub mod http;
pub mod ledger;
pub mod limiter;
pub mod metrics;
pub mod model;
pub mod net;
pub mod protocol;
