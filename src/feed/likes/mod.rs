//! Likes: acknowledged at once, settled later, with exact counts.
//!
//! | file | contents |
//! |---|---|
//! | `commands.rs` | like, unlike, list likers |
//! | `eligibility.rs` | whether a user may like an object, decided from the caches where possible |
//! | `intake.rs` | appends concurrent likes to the queue in one call; a like as the queue stores it |
//! | `memory.rs` | acknowledged states, counts and pending likes of this node, updated by settlements |
//! | `pending.rs` | counts that include unsettled likes; likes of this node's clients, until they are settled |
//! | `settler.rs` | the work of a partition of the queue: moves batches into the ledger, and publishes the result |
//! | `count_publisher.rs` | counts on `post:<id>`, a few per second |
//!
//! A like has three stages. **Intake**: the like is checked against the caches, appended to the durable queue, and
//! acknowledged. **Settling**: the owner of the partition reads a batch, keeps the last state of each user and object,
//! and writes rows, counts and its position in one ledger transaction. If it dies, the next settler continues at the
//! ledger's position; the ledger refuses a batch that is read twice. **Publication**: absolute counts with versions.
//! The queue is trimmed only up to the published entries, so that the next settler can publish the rest.

mod commands;
mod count_publisher;
mod eligibility;
mod intake;
mod memory;
mod pending;
mod settler;

pub(crate) use commands::{AcceptedLike, LikeService, LikeTarget};
pub(crate) use count_publisher::CountPublisher;
pub(crate) use eligibility::Eligibility;
pub(crate) use intake::LikeIntake;
pub(crate) use memory::{LikeMemory, SettlementListener, SettlementNews, UserLike};
pub(crate) use pending::SettledLike;
pub(crate) use settler::Settlers;
