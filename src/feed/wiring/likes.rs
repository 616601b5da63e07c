//! Builds the services of likes.

use std::sync::Arc;

use super::base::Base;
use super::policies::Policies;
use crate::broker::DurableQueue;
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
        base: &Base,
        queue: Arc<dyn DurableQueue>,
        memory: Arc<LikeMemory>,
        policies: &Policies,
        options: &FeedOptions,
    ) -> Self {
        let (ledger, broker) = (&base.ledger, &base.broker);
        let eligibility = Arc::new(Eligibility::new(base.visibility.clone(), base.contexts.clone()));
        let wakers: Arc<[Waker]> = (0..queue.partitions()).map(|_| Waker::new()).collect();
        let intake = Arc::new(LikeIntake::new(
            queue.clone(),
            base.runtime.clone(),
            memory.clone(),
            wakers.clone(),
            base.metrics.clone(),
            options.likes.queue_length,
        ));
        let counts = Arc::new(CountPublisher::new(broker.clone(), memory.clone()));
        let like_quarantine = LikeQuarantine::new(ledger.clone());
        let reverts = Arc::new(RevertPublisher::new(
            ledger.clone(),
            broker.clone(),
            base.lineage.clone(),
            memory.clone(),
            policies.reverts.clone(),
            like_quarantine.clone(),
            Retention::notifications(options.timeline_idle),
        ));
        let retries = Arc::new(LikeRetries::new(
            ledger.clone(),
            base.runtime.clone(),
            memory.clone(),
            intake.clone(),
            reverts.clone(),
        ));
        let batches = BatchSettler {
            ledger: ledger.clone(),
            broker: broker.clone(),
            queue,
            runtime: base.runtime.clone(),
            lineage: base.lineage.clone(),
            eligibility: eligibility.clone(),
            counts: counts.clone(),
            reverts,
            events: base.events.clone(),
            like_quarantine,
            quarantine: policies.likes.clone(),
            metrics: base.metrics.clone(),
            counts_per_second: options.likes.counts_per_second,
        };
        let settlers = Arc::new(Settlers::new(&base.owner, wakers, batches));
        let settlements = Arc::new(SettlementListener::new(memory.clone()));
        let (visibility, intake_of) = (base.visibility.clone(), intake.clone());
        let likes = LikeService::new(ledger.clone(), broker.clone(), visibility, eligibility, memory, intake_of);
        Self { likes, counts, settlements, intake, settlers, retries }
    }
}
