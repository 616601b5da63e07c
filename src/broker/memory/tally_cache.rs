//! The cache of tallies.

use std::sync::Arc;

use moka::sync::Cache;
use parking_lot::Mutex;

use crate::broker::TALLY_TTL;
use crate::model::{Object, Tally};

/// How many are kept; the others are read from the ledger.
const MAX_TALLIES: u64 = 500_000;

/// Behind a lock of its own, because to put something into the cache again costs several times what it costs to look at
/// it. One that the cache lets go just then is written in vain: it comes from the ledger again, and with the next that
/// is settled.
pub(super) type TallyCache = Cache<Object, Arc<Mutex<Tally>>>;

pub(super) fn tally_cache() -> TallyCache {
    Cache::builder().max_capacity(MAX_TALLIES).time_to_live(TALLY_TTL).build()
}
