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
//! | `partition.rs` | a partition as this process has it, its worker, and the clocks that the lease is counted on |
//! | `shares.rs` | which partitions a process takes and gives away |
//! | `job_queue.rs`, `author_queues.rs` | fan-out jobs in this process |
//! | `quarantine_policy.rs` | decides which items are set aside because they fail by themselves; what work waits for |

mod author_queues;
mod job_queue;
mod owner;
mod partition;
mod quarantine_policy;
mod shares;

pub(crate) use author_queues::{JobEnd, QueuedJob};
pub(crate) use job_queue::JobQueue;
pub(crate) use owner::Owner;
pub(crate) use partition::{Consumer, Partition, PollSchedule, RunOutcome, work};
pub use quarantine_policy::StoreHealth;
pub(crate) use quarantine_policy::{QuarantinePolicy, WorkKinds};
