//! Builds the services of likes.

use std::sync::Arc;

use super::policies::Policies;
use crate::broker::DurableQueue;
use crate::feed::base::Base;
use crate::feed::likes::{
    BatchSettler, CountPublisher, Eligibility, LikeIntake, LikeMemory, LikeQuarantine, LikeRetries, LikeService,
    RevertPublisher, SettlementListener, Settlers,
};
use crate::feed::options::FeedOptions;
use crate::feed::work::Waker;
use crate::model::Retention;

/// The services of likes.
pub(super) struct LikeServices {
    pub(super) likes: LikeService,
    pub(super) counts: Arc<CountPublisher>,
    pub(super) settlements: Arc<SettlementListener>,
    pub(super) intake: Arc<LikeIntake>,
    pub(super) settlers: Arc<Settlers>,
    pub(super) retries: Arc<LikeRetries>,
}

impl LikeServices {
    pub(super) fn new(
        base: &Arc<Base>,
        queue: Arc<dyn DurableQueue>,
        memory: Arc<LikeMemory>,
        policies: &Policies,
        options: &FeedOptions,
    ) -> Self {
        let eligibility = Arc::new(Eligibility::new(base.clone()));
        let wakers: Arc<[Waker]> = (0..queue.partitions()).map(|_| Waker::new()).collect();
        let (queue_length, like_quarantine) = (options.likes.queue_length, LikeQuarantine::new(base.ledger.clone()));
        let intake =
            Arc::new(LikeIntake::new(base.clone(), queue.clone(), memory.clone(), wakers.clone(), queue_length));
        let counts = Arc::new(CountPublisher::new(base.broker.clone(), memory.clone()));
        let reverts = Arc::new(RevertPublisher::new(
            base.clone(),
            memory.clone(),
            policies.reverts.clone(),
            like_quarantine.clone(),
            Retention::notifications(options.timeline_idle),
        ));
        let batches = BatchSettler {
            base: base.clone(),
            queue,
            eligibility: eligibility.clone(),
            counts: counts.clone(),
            reverts: reverts.clone(),
            like_quarantine,
            quarantine: policies.likes.clone(),
            counts_per_second: options.likes.counts_per_second,
        };
        Self {
            retries: Arc::new(LikeRetries::new(base.clone(), memory.clone(), intake.clone(), reverts)),
            settlers: Arc::new(Settlers::new(&base.owner, wakers, batches)),
            settlements: Arc::new(SettlementListener::new(memory.clone())),
            likes: LikeService::new(base.clone(), eligibility, memory, intake.clone()),
            counts,
            intake,
        }
    }
}
