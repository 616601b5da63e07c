//! The broker of a single process.
//!
//! A map of channels, each with a lock that is held while the listener is called: the listener receives the entries of
//! a channel in the order of their offsets. Expired data is dropped when its channel is used again, or by a sweep
//! whenever the map has doubled since the last sweep.

mod channel;
mod channel_presence;
mod derived;
mod identity;
mod inbox;
mod inboxes;
mod jobs;
mod lineage;
mod log;
mod logs;
mod outlet_copy;
mod permit_buckets;
mod permits;
mod presence;
mod store;
mod tallies;
mod tally_cache;

pub use self::store::MemoryBroker;
