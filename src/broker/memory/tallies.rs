//! Tallies in memory.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::store::MemoryBroker;
use crate::broker::{Result, TallyStore};
use crate::model::{ContentId, Tally};

#[async_trait]
impl TallyStore for MemoryBroker {
    async fn set_tallies(&self, tallies: &[(ContentId, Tally)]) -> Result<Vec<bool>> {
        let set = |(object, tally): &(ContentId, Tally)| {
            let kept = self.tallies.get_with(*object, || Arc::new(Mutex::new(*tally)));
            let mut kept = kept.lock();
            if kept.version < tally.version {
                *kept = *tally;
            }
            drop(kept);
            let is_wanted = object.channel().is_some_and(|channel| self.has_log_or_subscriber(&channel.to_string()));
            if let (ContentId::Post(post), false) = (object, is_wanted) {
                self.derived.note_unseen(*post, tally.version, Instant::now());
            }
            is_wanted
        };
        Ok(tallies.iter().map(set).collect())
    }

    async fn tallies(&self, objects: &[ContentId]) -> Result<Vec<Option<Tally>>> {
        Ok(objects.iter().map(|object| self.tallies.get(object).map(|kept| *kept.lock())).collect())
    }
}
