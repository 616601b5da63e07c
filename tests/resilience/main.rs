//! What must hold, whatever fails: real processes, a real Redis, real sockets, and signals.

mod audience;
mod carry;
#[path = "../support/client.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod client;
mod cluster;
mod crashes;
mod dice;
mod hints;
mod likers;
mod likes;
mod model;
mod nodes;
mod outages;
mod postgres;
#[path = "../support/postgres.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod postgres_server;
mod proxy;
mod reader;
#[path = "../support/redis.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod redis_server;
#[path = "../support/server.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod server;
