//! Code that the tests share. It uses only the built program and its protocols.
//!
//! | file | contents |
//! |---|---|
//! | `server`, `redis_server`, `postgres_server` | real servers, each on a free port with its own data |
//! | `server_setup` | what a server is started with: program, folder, environment, limits |
//! | `pooler` | a real PgBouncer in front of a PostgreSQL |
//! | `nginx` | a real nginx in front of servers, with the configuration of `ops/` |
//! | `prometheus` | a real Prometheus that collects from servers, with the alerts of `ops/` |
//! | `client` | a client that the test controls step by step |
//! | `socket`, `stream_socket`, `unidirectional` | its transport: a WebSocket, or a stream with requests beside it |
//! | `protobuf` | the messages of that client in Protobuf |
//! | `reader` | a client that behaves like an app and maintains a view |
//! | `api` | HTTP operations, called as a backend does |
//! | `contract` | validates every response and push against the server's OpenAPI and AsyncAPI documents |
//! | `webhook` | a receiver of webhooks that answers as the test says |
//! | `random`, `ports` | random choices that a seed reproduces; free ports |

pub mod api;
pub mod client;
pub mod contract;
pub mod nginx;
pub mod pooler;
pub mod ports;
pub mod postgres_server;
pub mod prometheus;
pub mod protobuf;
pub mod random;
pub mod reader;
pub mod redis_server;
pub mod server;
mod server_setup;
pub mod socket;
pub mod stream_socket;
pub mod unidirectional;
pub mod webhook;
