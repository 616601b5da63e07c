//! Tallies in memory.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::store::MemoryBroker;
use crate::broker::{Result, TallyStore};
use crate::model::{Object, Tally};

#[async_trait]
impl TallyStore for MemoryBroker {
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
