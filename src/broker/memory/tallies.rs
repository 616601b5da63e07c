//! What came of objects.

use async_trait::async_trait;
use moka::ops::compute::Op;
use moka::sync::Cache;

use super::MemoryBroker;
use crate::broker::{Result, TALLY_TTL, Tallies};
use crate::model::{Object, Tally};

/// How many are kept; the others are read from the ledger.
const MOST: u64 = 500_000;

pub(super) type Kept = Cache<Object, Tally>;

pub(super) fn kept() -> Kept {
    Cache::builder().max_capacity(MOST).time_to_live(TALLY_TTL).build()
}

#[async_trait]
impl Tallies for MemoryBroker {
    async fn set_tallies(&self, tallies: &[(Object, Tally)]) -> Result<Vec<bool>> {
        let set = |(object, tally): &(Object, Tally)| {
            self.tallies.entry(*object).and_compute_with(|kept| {
                let newer = kept.is_none_or(|kept| kept.value().version < tally.version);
                if newer { Op::Put(*tally) } else { Op::Nop }
            });
            object.channel().is_some_and(|channel| self.known_position(&channel).is_some())
        };
        Ok(tallies.iter().map(set).collect())
    }

    async fn tallies(&self, objects: &[Object]) -> Result<Vec<Option<Tally>>> {
        Ok(objects.iter().map(|object| self.tallies.get(object)).collect())
    }
}
