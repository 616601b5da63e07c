//! Code that the tests share. It uses only the built program and its protocols.
//!
//! | file | contents |
//! |---|---|
//! | `server`, `redis_server`, `postgres_server` | real servers, each on a free port with its own data |
//! | `client` | a WebSocket client that the test controls step by step |
//! | `reader` | a client that behaves like an app and maintains a view |
//! | `api` | HTTP operations, called as a backend does |
//! | `contract` | validates every response and push against the server's OpenAPI and AsyncAPI documents |
//! | `random`, `ports` | random choices that a seed reproduces; free ports |

pub mod api;
pub mod client;
pub mod contract;
pub mod ports;
pub mod postgres_server;
pub mod random;
pub mod reader;
pub mod redis_server;
pub mod server;
