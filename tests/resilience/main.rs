//! Guarantees that hold during failures, tested with real processes, a real Redis, sockets and signals.

mod audience;
mod backlog;
mod behind_nginx;
mod chaos;
mod cluster;
mod connected_first;
mod crashes;
mod dashboard;
mod edits;
mod emulation;
mod erasures;
mod fingerprints;
mod former_build;
mod full_disk;
mod hints;
mod idempotency;
mod identity;
mod invalidation;
mod ledger_crashes;
mod likers;
mod likes;
mod locks;
mod logs;
mod model;
mod model_operations;
mod nodes;
mod notifications;
mod outages;
mod outlet;
mod partitions;
mod paused_nodes;
mod paused_settlers;
mod poolers;
mod postgres;
mod proxy;
mod pulled;
mod push_process;
mod pushes;
mod quarantine;
mod receipts;
mod refusal_table;
mod refusals;
mod restored;
mod reverts;
mod revocations;
mod standings;
mod traces;
mod transfer;
mod transports;
mod unlocks;

use feedline_test_support::{
    api, client, nginx, pooler, postgres_server, prometheus, random, reader, redis_server, server, stream_socket,
    webhook,
};
