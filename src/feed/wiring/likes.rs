//! Builds the services of likes.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::broker::DurableQueue;
use crate::feed::base::Base;
use crate::feed::likes::{
    CountPublisher, Eligibility, LikeIntake, LikeMemory, LikeService, SettlementListener, Settlers,
};
use crate::feed::work::QuarantinePolicy;

/// The services of likes.
pub(super) struct LikeServices {
    pub(super) likes: LikeService,
    pub(super) counts: Arc<CountPublisher>,
    pub(super) settlements: Arc<SettlementListener>,
    pub(super) intake: Arc<LikeIntake>,
    pub(super) settlers: Arc<Settlers>,
}

impl LikeServices {
    pub(super) fn new(
        base: &Arc<Base>,
        queue: Arc<dyn DurableQueue>,
        memory: Arc<LikeMemory>,
        quarantine: Arc<QuarantinePolicy>,
    ) -> Self {
        let eligibility = Arc::new(Eligibility::new(base.clone()));
        let partitions = Settlers::partitions(&base.owner, &*queue);
        let intake = Arc::new(LikeIntake::new(base.clone(), queue.clone(), memory.clone(), partitions.clone()));
        let counts = Arc::new(CountPublisher::new(base.broker.clone(), memory.clone()));
        let settlers = Settlers {
            base: base.clone(),
            partitions,
            queue,
            eligibility: eligibility.clone(),
            counts: counts.clone(),
            intake: intake.clone(),
            memory: memory.clone(),
            quarantine,
            running: Semaphore::new(Settlers::CONCURRENCY),
        };
        Self {
            settlers: Arc::new(settlers),
            settlements: Arc::new(SettlementListener::new(memory.clone())),
            likes: LikeService::new(base.clone(), eligibility, memory, intake.clone()),
            counts,
            intake,
        }
    }
}
