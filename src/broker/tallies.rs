//! Tallies: the settled counts of posts and comments, each with a version.

use async_trait::async_trait;

use super::Result;
use crate::model::{ContentId, Tally};

/// How long a tally is kept: in Redis after its last write, in memory after it was added. Missing ones are read from
/// the ledger.
///
/// Derived epochs depend on tallies. So a tally is kept until no epoch that was derived before it can be mistaken for
/// one that is derived after it is removed.
pub const TALLY_TTL: std::time::Duration = super::POSITION_TTL;

/// Tallies. The ledger has them too: missing ones are loaded from it, and never replace newer ones.
#[async_trait]
pub trait TallyStore: Send + Sync {
    /// Writes tallies that are newer than the stored ones, each atomically. Returns for each object, in their order,
    /// whether its counts are to be appended to its channel: `true` if the channel has a log or a subscriber. Otherwise
    /// clients that return to the channel receive `recovered: false`.
    async fn set_tallies(&self, tallies: &[(ContentId, Tally)]) -> Result<Vec<bool>>;

    /// The tally of each of `objects`, in their order; `None` if the broker has none.
    async fn tallies(&self, objects: &[ContentId]) -> Result<Vec<Option<Tally>>>;
}
