//! The consumers of the outlet that this process serves: webhooks, and the copy in a Redis Stream.
//!
//! The log of the outlet is in the ledger (`feed/outlet/` fills it). Each consumer is a partition of work
//! (`feed/work/`), so that one process at a time works for it; any number of processes can run all of them.
//!
//! | file | contents |
//! |---|---|
//! | `setup.rs` | the consumers that a configuration asks for |
//! | `webhook_worker.rs` | the work for a webhook: its batches, the events of each owner in order |
//! | `consumer_context.rs` | what a consumer works with |
//! | `delivery.rs` | one attempt, and what its outcome means for the event |
//! | `stream_worker.rs` | copies the log to Redis |

mod consumer_context;
mod delivery;
mod setup;
mod stream_worker;
mod webhook_worker;

pub use setup::{OutletTargets, OutletWorkers, outlet_targets};
