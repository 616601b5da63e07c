//! Counts that many ask for and few change: the settled ones, each with its version.

use async_trait::async_trait;

use super::Result;
use crate::model::{Object, Tally};

/// How long a tally is kept, in Redis after it was last written, in memory after it came; one that is gone is read from the
/// ledger.
///
/// Derived epochs depend on tallies, so none goes while an epoch that was derived before it came could be taken for one that
/// is derived afterwards.
pub const TALLY_TTL: std::time::Duration = super::POSITION_TTL;

/// Tallies. The ledger has them too: whatever is missing here is put in from there, and cannot overwrite a newer one.
#[async_trait]
pub trait TallyStore: Send + Sync {
    /// Writes those that are newer than what is kept, each at one moment. Answers for each object, in the order given,
    /// whether its counts are to be appended to its channel: the channel has a log, or a subscriber. Where not, clients that
    /// come back to the channel are not told that they missed nothing.
    async fn set_tallies(&self, tallies: &[(Object, Tally)]) -> Result<Vec<bool>>;

    /// The tally of each of `objects`, in their order; `None` where none is kept.
    async fn tallies(&self, objects: &[Object]) -> Result<Vec<Option<Tally>>>;
}
