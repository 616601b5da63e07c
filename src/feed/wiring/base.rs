//! The dependencies that nearly all services share, and services with few others.

use std::sync::Arc;
use std::time::Duration;

use crate::broker::Broker;
use crate::feed::content::PostCache;
use crate::feed::devices::Devices;
use crate::feed::erasure::ErasureJob;
use crate::feed::event_queue::EventQueue;
use crate::feed::fanout::{FanoutWorkers, FollowerCache};
use crate::feed::favourites::FavouriteService;
use crate::feed::identity::{ErasureRecords, IdentityService, RevocationService};
use crate::feed::invalidation::Invalidator;
use crate::feed::likes::CountPublisher;
use crate::feed::lineage::LineageTracker;
use crate::feed::node_ids::NodeIds;
use crate::feed::notifications::{Conversations, EventQuarantine, EventWorker, Notifications};
use crate::feed::options::{FeedOptions, PushOptions};
use crate::feed::outlet::Outlet;
use crate::feed::people::{Follows, Profiles, Restrictions};
use crate::feed::posts::{CommentReader, CommentService, PostEditor, PostService};
use crate::feed::pushes::{LiveSockets, PushReview};
use crate::feed::rate_limits::RateLimits;
use crate::feed::rendering::{NotificationRenderer, PostRenderer};
use crate::feed::runtime::Runtime;
use crate::feed::timelines::EdgeJobs;
use crate::feed::visibility::{CommentContexts, RelationCache, VisibilityPolicy};
use crate::feed::work::{JobQueue, Owner, QuarantinePolicy};
use crate::feed::write_path::WritePath;
use crate::ledger::Ledger;
use crate::metrics::Metrics;
use crate::model::Retention;
/// The dependencies that nearly all services share.
pub(super) struct Base {
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) broker: Arc<dyn Broker>,
    pub(super) runtime: Arc<Runtime>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) ids: Arc<NodeIds>,
    pub(super) lineage: Arc<LineageTracker>,
    pub(super) identity: Arc<IdentityService>,
    pub(super) cache: Arc<PostCache>,
    pub(super) contexts: Arc<CommentContexts>,
    pub(super) relations: Arc<RelationCache>,
    pub(super) followers: Arc<FollowerCache>,
    pub(super) visibility: Arc<VisibilityPolicy>,
    pub(super) invalidator: Arc<Invalidator>,
    pub(super) owner: Arc<Owner>,
    pub(super) jobs: Arc<JobQueue>,
    pub(super) events: Arc<EventQueue>,
}

impl Base {
    /// Decides about the items of one kind of work.
    pub(super) fn quarantine_policy(&self) -> Arc<QuarantinePolicy> {
        Arc::new(QuarantinePolicy::new(self.ledger.clone(), self.broker.clone()))
    }

    pub(super) fn write_path(&self, rates: Arc<RateLimits>) -> WritePath {
        WritePath {
            identity: self.identity.clone(),
            ids: self.ids.clone(),
            rates,
            jobs: self.jobs.clone(),
            events: self.events.clone(),
            invalidator: self.invalidator.clone(),
        }
    }

    pub(super) fn posts(&self, write: WritePath, renderer: Arc<PostRenderer>, options: &FeedOptions) -> PostService {
        let (cache, visibility, lineage) = (self.cache.clone(), self.visibility.clone(), self.lineage.clone());
        let (ledger, broker) = (self.ledger.clone(), self.broker.clone());
        PostService::new(ledger, broker, write, cache, visibility, renderer, lineage, options.limits)
    }

    pub(super) fn post_editor(
        &self,
        write: WritePath,
        renderer: Arc<PostRenderer>,
        options: &FeedOptions,
    ) -> PostEditor {
        let (cache, visibility) = (self.cache.clone(), self.visibility.clone());
        PostEditor::new(self.ledger.clone(), write, cache, visibility, renderer, options.limits)
    }

    pub(super) fn comment_reader(&self) -> CommentReader {
        CommentReader::new(self.ledger.clone(), self.visibility.clone(), self.contexts.clone())
    }

    pub(super) fn comments(
        &self,
        write: WritePath,
        reader: Arc<CommentReader>,
        options: &FeedOptions,
    ) -> CommentService {
        let (ledger, broker, visibility) = (self.ledger.clone(), self.broker.clone(), self.visibility.clone());
        CommentService::new(ledger, broker, write, visibility, reader, options.limits.text)
    }

    pub(super) fn favourites(&self, renderer: Arc<PostRenderer>, options: &FeedOptions) -> FavouriteService {
        let (identity, visibility) = (self.identity.clone(), self.visibility.clone());
        FavouriteService::new(self.ledger.clone(), identity, visibility, renderer, options.limits.favourites)
    }

    pub(super) fn notifications(&self, renderer: NotificationRenderer, options: &FeedOptions) -> Notifications {
        let retention = Retention::notifications(options.timeline_idle);
        let (ledger, broker, visibility) = (self.ledger.clone(), self.broker.clone(), self.visibility.clone());
        Notifications::new(ledger, broker, visibility, renderer, retention, options.pushes.plan)
    }

    pub(super) fn conversations(&self) -> Conversations {
        Conversations::new(self.ledger.clone(), self.identity.clone(), self.visibility.clone())
    }

    pub(super) fn devices(&self, options: &FeedOptions) -> Devices {
        Devices::new(self.ledger.clone(), self.identity.clone(), options.target_validator.clone())
    }

    pub(super) fn live_sockets(&self, options: &FeedOptions) -> LiveSockets {
        let PushOptions { plan, several_nodes, .. } = options.pushes;
        let wait = plan.map(|plan| Duration::from_millis(plan.grace.max(plan.digest)));
        LiveSockets::new(self.broker.clone(), self.runtime.clone(), several_nodes, wait)
    }

    pub(super) fn pushes(
        &self,
        revocations: Arc<RevocationService>,
        renderer: NotificationRenderer,
        options: &FeedOptions,
    ) -> PushReview {
        let time_to_live = u64::try_from(options.pushes.time_to_live.as_millis()).unwrap_or(u64::MAX);
        let (visibility, relations) = (self.visibility.clone(), self.relations.clone());
        let (ledger, posts) = (self.ledger.clone(), self.cache.clone());
        PushReview::new(ledger, revocations, renderer, posts, visibility, relations, time_to_live)
    }

    pub(super) fn profiles(&self) -> Profiles {
        let (relations, visibility) = (self.relations.clone(), self.visibility.clone());
        Profiles::new(self.ledger.clone(), self.identity.clone(), relations, visibility, self.invalidator.clone())
    }

    pub(super) fn follows(&self, edges: Arc<EdgeJobs>, options: &FeedOptions) -> Follows {
        Follows::new(
            self.ledger.clone(),
            self.identity.clone(),
            self.relations.clone(),
            self.visibility.clone(),
            edges,
            self.events.clone(),
            options.limits.follows,
        )
    }

    pub(super) fn restrictions(&self, edges: Arc<EdgeJobs>) -> Restrictions {
        Restrictions::new(self.ledger.clone(), self.identity.clone(), self.visibility.clone(), edges)
    }

    pub(super) fn outlet(&self, quarantine: Arc<QuarantinePolicy>, options: &FeedOptions) -> Outlet {
        let (queue, metrics) = (self.events.clone(), self.metrics.clone());
        let (ledger, broker, runtime) = (self.ledger.clone(), self.broker.clone(), self.runtime.clone());
        Outlet::new(ledger, broker, runtime, queue, quarantine, metrics, &options.outlet)
    }

    pub(super) fn event_worker(&self, notifications: Arc<Notifications>, quarantine: EventQuarantine) -> EventWorker {
        EventWorker::new(
            self.ledger.clone(),
            self.runtime.clone(),
            self.events.clone(),
            self.cache.clone(),
            self.contexts.clone(),
            self.visibility.clone(),
            notifications,
            quarantine,
            self.metrics.clone(),
        )
    }

    pub(super) fn fanout(
        &self,
        edges: Arc<EdgeJobs>,
        quarantine: Arc<QuarantinePolicy>,
        favourites: Arc<FavouriteService>,
        options: &FeedOptions,
    ) -> FanoutWorkers {
        FanoutWorkers::new(
            self.ledger.clone(),
            self.followers.clone(),
            self.broker.clone(),
            self.runtime.clone(),
            self.jobs.clone(),
            quarantine,
            self.lineage.clone(),
            self.cache.clone(),
            self.visibility.clone(),
            self.invalidator.clone(),
            favourites,
            edges,
            self.metrics.clone(),
            options.fanout,
        )
    }

    pub(super) fn erasure_job(
        &self,
        edges: Arc<EdgeJobs>,
        counts: Arc<CountPublisher>,
        records: Arc<ErasureRecords>,
        comments: &Arc<CommentService>,
        notifications: &Arc<Notifications>,
        quarantine: Arc<QuarantinePolicy>,
    ) -> ErasureJob {
        ErasureJob::new(
            self.ledger.clone(),
            self.broker.clone(),
            self.runtime.clone(),
            &self.owner,
            records,
            self.jobs.clone(),
            edges,
            comments.clone(),
            notifications.clone(),
            counts,
            quarantine,
            self.metrics.clone(),
        )
    }
}
