//! What the tests share. It knows nothing of Feedline but the built program and its protocols.
//!
//! | file | what is in it |
//! |---|---|
//! | `server`, `redis_server`, `postgres_server` | the real thing: each on a free port, with data of its own |
//! | `client` | a WebSocket client that does what a test says |
//! | `reader` | a client that does what an app does, and keeps a view |
//! | `api` | operations over HTTP, as a backend calls them |
//! | `contract` | validates every answer and push against the server's OpenAPI and AsyncAPI documents |
//! | `random`, `ports` | random choices that a seed repeats; free ports |

pub mod api;
pub mod client;
pub mod contract;
pub mod ports;
pub mod postgres_server;
pub mod random;
pub mod reader;
pub mod redis_server;
pub mod server;
