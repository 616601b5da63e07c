//! Builds the services of timelines.

use std::sync::Arc;

use super::base::Base;
use crate::feed::fanout::PullLog;
use crate::feed::options::FeedOptions;
use crate::feed::rendering::{EventRenderer, PostRenderer};
use crate::feed::timelines::{
    Backfill, CatchUp, EdgeJobs, Inboxes, PullCursor, ReadMarkers, TimelineLimits, TimelinePages,
};
use crate::feed::work::QuarantinePolicy;

/// The services of timelines.
pub(super) struct TimelineServices {
    pub(super) edges: Arc<EdgeJobs>,
    pub(super) inboxes: Arc<Inboxes>,
    pub(super) markers: Arc<ReadMarkers>,
    pub(super) limits: TimelineLimits,
    pub(super) pull_log: Arc<PullLog>,
}

impl TimelineServices {
    pub(super) fn new(base: &Base, options: &FeedOptions, quarantine: Arc<QuarantinePolicy>) -> Self {
        let (ledger, broker, visibility) = (&base.ledger, &base.broker, &base.visibility);
        let max_posts = options.follow_merge;
        let backfill = Arc::new(Backfill::new(ledger.clone(), broker.clone(), base.cache.clone(), max_posts));
        let (invalidator, jobs) = (base.invalidator.clone(), base.jobs.clone());
        let edges = Arc::new(EdgeJobs::new(ledger.clone(), invalidator, jobs, backfill.clone()));
        let catch_up = Arc::new(CatchUp::new(
            ledger.clone(),
            broker.clone(),
            visibility.clone(),
            backfill,
            base.lineage.clone(),
            base.metrics.clone(),
        ));
        let cursor: Arc<PullCursor> = Arc::default();
        let limits = TimelineLimits { length: options.timeline_length, recovery: options.recovery_limit };
        let inboxes = Arc::new(Inboxes::new(
            ledger.clone(),
            broker.clone(),
            base.relations.clone(),
            visibility.clone(),
            catch_up.clone(),
            cursor.clone(),
            limits,
        ));
        let markers = Arc::new(ReadMarkers::new(
            ledger.clone(),
            broker.clone(),
            base.identity.clone(),
            inboxes.clone(),
            visibility.clone(),
            options.pushes.plan.is_some(),
        ));
        let pull_log = Arc::new(PullLog::new(
            ledger.clone(),
            broker.clone(),
            base.runtime.clone(),
            base.cache.clone(),
            visibility.clone(),
            catch_up,
            cursor,
            base.lineage.clone(),
            quarantine,
            base.metrics.clone(),
            options.timeline_idle,
            options.fanout.page,
        ));
        Self { edges, inboxes, markers, limits, pull_log }
    }

    /// Builds the reader of timeline pages.
    pub(super) fn pages(&self, base: &Base, posts: Arc<PostRenderer>, events: Arc<EventRenderer>) -> TimelinePages {
        let (inboxes, markers) = (self.inboxes.clone(), self.markers.clone());
        let (ledger, broker, visibility) = (base.ledger.clone(), base.broker.clone(), base.visibility.clone());
        TimelinePages::new(ledger, broker, inboxes, visibility, posts, events, markers, self.limits)
    }
}
