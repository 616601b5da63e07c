//! Builds the services of timelines.

use std::sync::Arc;

use crate::feed::base::Base;
use crate::feed::fanout::PullLog;
use crate::feed::rendering::EventRenderer;
use crate::feed::timelines::{
    Backfill, CatchUp, EdgeJobs, Inboxes, PullCursor, ReadMarkers, TimelinePages, UpdatesReader,
};
use crate::feed::work::QuarantinePolicy;

/// The services of timelines.
pub(super) struct TimelineServices {
    pub(super) edges: Arc<EdgeJobs>,
    pub(super) inboxes: Arc<Inboxes>,
    pub(super) markers: Arc<ReadMarkers>,
    pub(super) pull_log: Arc<PullLog>,
}

impl TimelineServices {
    pub(super) fn new(base: &Arc<Base>, quarantine: Arc<QuarantinePolicy>) -> Self {
        let backfill = Arc::new(Backfill::new(base.clone()));
        let edges = Arc::new(EdgeJobs::new(base.clone(), backfill.clone()));
        let catch_up = Arc::new(CatchUp::new(base.clone(), backfill));
        let cursor: Arc<PullCursor> = Arc::default();
        let inboxes = Arc::new(Inboxes::new(base.clone(), catch_up.clone(), cursor.clone()));
        let markers = Arc::new(ReadMarkers::new(base.clone(), inboxes.clone()));
        let pull_log = Arc::new(PullLog::new(base.clone(), catch_up, cursor, quarantine));
        Self { edges, inboxes, markers, pull_log }
    }

    /// Builds the reader of updates.
    pub(super) fn updates(&self, base: &Arc<Base>, events: Arc<EventRenderer>) -> Arc<UpdatesReader> {
        Arc::new(UpdatesReader::new(base.clone(), self.inboxes.clone(), events))
    }

    /// Builds the reader of timeline pages.
    pub(super) fn pages(&self, base: &Arc<Base>, updates: Arc<UpdatesReader>) -> TimelinePages {
        TimelinePages::new(base.clone(), self.inboxes.clone(), updates, self.markers.clone())
    }
}
