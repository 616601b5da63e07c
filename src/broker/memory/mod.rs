//! The broker of a single process.
//!
//! A map of channels, each behind a lock of its own that is held while the listener is told: entries of a channel
//! are told in the order of their offsets, and nothing else is promised. What has had its time is dropped when its
//! channel is used again, or by a sweep whenever the map has doubled since the last.

mod channel;
mod channel_presence;
mod derived;
mod inbox;
mod inboxes;
mod jobs;
mod lineage;
mod log;
mod logs;
mod permit_buckets;
mod permits;
mod presence;
mod store;
mod tallies;
mod tally_cache;

pub use self::store::MemoryBroker;
