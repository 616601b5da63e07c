//! Builds the services of timelines.

use std::sync::Arc;

use crate::feed::base::Base;
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
    pub(super) fn new(base: &Arc<Base>, options: &FeedOptions, quarantine: Arc<QuarantinePolicy>) -> Self {
        let backfill = Arc::new(Backfill::new(base.clone(), options.follow_merge));
        let edges = Arc::new(EdgeJobs::new(base.clone(), backfill.clone()));
        let catch_up = Arc::new(CatchUp::new(base.clone(), backfill));
        let cursor: Arc<PullCursor> = Arc::default();
        let limits = TimelineLimits { length: options.timeline_length, recovery: options.recovery_limit };
        let inboxes = Arc::new(Inboxes::new(base.clone(), catch_up.clone(), cursor.clone(), limits));
        let markers = Arc::new(ReadMarkers::new(base.clone(), inboxes.clone(), options.pushes.plan.is_some()));
        let idle = options.timeline_idle;
        let page = options.fanout.page;
        let pull_log = Arc::new(PullLog::new(base.clone(), catch_up, cursor, quarantine, idle, page));
        Self { edges, inboxes, markers, limits, pull_log }
    }

    /// Builds the reader of timeline pages.
    pub(super) fn pages(
        &self,
        base: &Arc<Base>,
        posts: Arc<PostRenderer>,
        events: Arc<EventRenderer>,
    ) -> TimelinePages {
        TimelinePages::new(base.clone(), self.inboxes.clone(), posts, events, self.markers.clone(), self.limits)
    }
}
