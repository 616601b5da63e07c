//! The cache of tallies.

use std::sync::Arc;

use moka::sync::Cache;
use parking_lot::Mutex;

use crate::broker::TALLY_TTL;
use crate::model::{ContentId, Tally};

/// The maximum number of cached tallies; the others are read from the ledger.
const MAX_TALLIES: u64 = 500_000;

/// Each tally has its own lock, because an insert into the cache costs several times a lookup. A write to a tally that
/// the cache evicts at that moment is lost: the tally is then read from the ledger, and updated by the next settlement.
pub(super) type TallyCache = Cache<ContentId, Arc<Mutex<Tally>>>;

pub(super) fn tally_cache() -> TallyCache {
    Cache::builder().max_capacity(MAX_TALLIES).time_to_live(TALLY_TTL).build()
}
