//! What must hold, whatever fails: real processes, a real Redis, real sockets, and signals.

#[path = "../support/api.rs"]
mod api;
mod audience;
mod backlog;
mod carry;
mod chaos;
#[path = "../support/client.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod client;
mod cluster;
mod crashes;
#[path = "../support/dice.rs"]
mod dice;
mod edits;
mod hints;
mod invalidation;
mod keys;
mod ledger_crashes;
mod likers;
mod likes;
mod model;
mod nodes;
mod notifications;
mod outages;
mod pauses;
#[path = "../support/ports.rs"]
mod ports;
mod postgres;
#[path = "../support/postgres.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod postgres_server;
mod proxy;
mod pulled;
#[path = "../support/reader.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod reader;
#[path = "../support/redis.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod redis_server;
mod restored;
mod reverts;
mod revocations;
#[path = "../support/server.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod server;
mod settled;
mod wakes;
