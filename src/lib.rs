//! Feedline: a WebSocket gateway for social feeds.
//!
//! A client keeps one WebSocket open and receives the changes of its timeline over it. This page lists the modules;
//! ARCHITECTURE.md follows a post and a reconnect through them.
//!
//! Data flows one way: socket → session → feed → ledger and broker → hub → socket.
//!
//! | folder | contents |
//! |---|---|
//! | [`api`] | the table of operations, and the executor that runs them |
//! | [`app`] | builds the parts, starts and stops them in order |
//! | [`cli`] | the command line |
//! | [`config`] | the configuration, composed of the sections of the parts |
//! | `settings` | reads the keys of a section, and checks them |
//! | [`http`] | the route table, the API of backends, OpenAPI, health, metrics, the page |
//! | [`gateway`] | sockets: accept loop, session, connection, outbox, hub |
//! | [`hooks`] | questions to the application's backend |
//! | [`protocol`] | the client protocol: commands, replies, codes |
//! | [`feed`] | the rules of the feed, one file for each concept |
//! | [`breaker`] | leaves servers that fail alone for a while |
//! | [`auth`] | tokens, API keys, passwords |
//! | `jwks` | fetches the public keys of issuers |
//! | [`denials`] | refused credentials and requests: logged and counted by reason |
//! | [`broker`] | the logs of channels and the delivery to their subscribers: memory, Redis |
//! | [`ledger`] | the durable store: SQLite, PostgreSQL |
//! | [`logs`] | the log of the process: lost lines, repeated lines |
//! | [`limiter`] | rate limits in bounded memory |
//! | [`model`] | the basic types: users, posts, log entries |
//! | [`net`] | client addresses behind proxies, browser origins |
//! | [`metrics`] | the metrics for Prometheus |
//! | [`outlet`] | what happened, for webhooks and a Redis Stream |
//! | [`store_refusal`] | why a store refuses to work |
//! | [`push`] | the push bridge: notifications for people who are not connected |
//! | [`shares`] | the part of a limited resource that one user or address may have |
//! | [`store_metrics`] | the time and the failures of calls to stores |
//! | `store_outage` | the log lines of a store that is away |
//! | `supervisor` | restarts background tasks that end |
//! | [`telemetry`] | traces of requests, sent to a collector of OpenTelemetry |
//! | `text` | mentions, topics and links in a text, normal forms, characters that nobody sees |
//!
//! The program `feedline` is [`cli::main`]. The member `bench` of the workspace measures it.

// Printing panics or blocks if nobody reads: see `logs`.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod api;
pub mod app;
pub mod auth;
mod backoff;
pub mod breaker;
pub mod broker;
pub mod cli;
pub mod config;
pub mod demo;
pub mod denials;
pub mod feed;
pub mod gateway;
pub mod hooks;
pub mod http;
mod jwks;
pub mod ledger;
pub mod limiter;
pub mod logs;
pub mod metrics;
pub mod model;
pub mod net;
pub mod outlet;
pub mod protocol;
pub mod push;
pub mod reloadable;
mod settings;
pub mod shares;
pub mod store_metrics;
mod store_outage;
pub mod store_refusal;
mod supervisor;
pub mod telemetry;
mod text;
