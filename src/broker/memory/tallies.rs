//! What came of objects.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use moka::sync::Cache;
use parking_lot::Mutex;

use super::MemoryBroker;
use crate::broker::{Result, TALLY_TTL, Tallies};
use crate::model::{Object, Tally};

/// How many are kept; the others are read from the ledger.
const MOST: u64 = 500_000;

/// Behind a lock of its own, because to put something into the cache again costs several times what it costs to look at it.
/// One that the cache lets go just then is written in vain: it comes from the ledger again, and with the next that is settled.
pub(super) type Kept = Cache<Object, Arc<Mutex<Tally>>>;

pub(super) fn kept() -> Kept {
    Cache::builder().max_capacity(MOST).time_to_live(TALLY_TTL).build()
}

#[async_trait]
impl Tallies for MemoryBroker {
    async fn set_tallies(&self, tallies: &[(Object, Tally)]) -> Result<Vec<bool>> {
        let set = |(object, tally): &(Object, Tally)| {
            let kept = self.tallies.get_with(*object, || Arc::new(Mutex::new(*tally)));
            let mut kept = kept.lock();
            if kept.version < tally.version {
                *kept = *tally;
            }
            drop(kept);
            let is_wanted = object.channel().is_some_and(|channel| self.has_log_or_subscriber(&channel.to_string()));
            if let (Object::Post(post), false) = (object, is_wanted) {
                self.derived.note_unseen(*post, tally.version, Instant::now());
            }
            is_wanted
        };
        Ok(tallies.iter().map(set).collect())
    }

    async fn tallies(&self, objects: &[Object]) -> Result<Vec<Option<Tally>>> {
        Ok(objects.iter().map(|object| self.tallies.get(object).map(|kept| *kept.lock())).collect())
    }
}
