//! Durable work: who runs it, how, and what happens to items that fail.
//!
//! All work that must survive the process is rows of a store, divided into named *partitions* (`fanout/17`,
//! `events/outlet`). One process at a time owns a partition; it runs the rows in order and removes them when they are
//! done. A process that is killed, paused or cut off loses its lease, another one takes its partitions, and whatever
//! the former owner still sends is refused by the generation of its [`Fence`](crate::ledger::Fence), or changes
//! nothing. Repeats are harmless for all kinds of work.
//!
//! | file | contents |
//! |---|---|
//! | `owner.rs` | the lease of this process, and the partitions that it owns |
//! | `lease_clock.rs` | whether the lease can still be in force, by the clocks of this machine |
//! | `worker.rs` | the loop of a partition: wake, gather, run, back off, stop |
//! | `shares.rs` | which partitions a process takes and gives away |
//! | `job_queue.rs`, `author_queues.rs` | fan-out jobs in this process |
//! | `quarantine.rs` | decides which items are set aside because they fail by themselves |
//! | `health.rs` | what work waits for, for operators |

mod author_queues;
mod health;
mod job_queue;
mod lease_clock;
mod owner;
mod quarantine;
mod shares;
mod worker;

pub(crate) use author_queues::{JobEnd, QueuedJob};
pub use health::StoreHealth;
pub(crate) use health::WorkKinds;
pub(crate) use job_queue::JobQueue;
pub(crate) use owner::{Owner, Partition};
pub(crate) use quarantine::QuarantinePolicy;
pub(crate) use worker::{Consumer, PollSchedule, RunOutcome, Waker, work};
