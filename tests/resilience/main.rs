//! What must hold, whatever fails: real processes, a real Redis, real sockets, and signals.

mod audience;
mod backlog;
mod carry;
mod chaos;
mod cluster;
mod crashes;
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
mod poison;
mod postgres;
mod proxy;
mod pulled;
mod restored;
mod reverts;
mod revocations;
mod settled;
mod wakes;

use feedline_test_support::{api, client, dice, postgres_server, reader, redis_server, server};
