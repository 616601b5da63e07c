//! What nearly all services use: the options, the stores, the caches that stay coherent, rendering, and the
//! submission of work.

use std::sync::Arc;

use super::content::{PostCache, WaitingCounts};
use super::event_queue::EventQueue;
use super::filters::ContentFilter;
use super::identity::IdentityService;
use super::invalidation::Invalidator;
use super::lineage::LineageTracker;
use super::node_ids::NodeIds;
use super::options::FeedOptions;
use super::rate_limits::RateLimits;
use super::rendering::{NotificationRenderer, PostRenderer};
use super::runtime::Runtime;
use super::visibility::{CommentContexts, FollowedTopics, FollowerCache, ListUsage, RelationCache, VisibilityPolicy};
use super::work::{JobQueue, Owner};
use crate::broker::Broker;
use crate::ledger::Ledger;
use crate::metrics::Metrics;
use crate::telemetry::Tracer;

/// What nearly all services use. Each holds the same one.
pub(crate) struct Base {
    pub(crate) options: FeedOptions,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) broker: Arc<dyn Broker>,
    /// Runs background tasks.
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) metrics: Arc<Metrics>,
    /// Records what requests cause.
    pub(crate) tracer: Tracer,
    /// Makes the ids of posts and comments.
    pub(crate) ids: Arc<NodeIds>,
    /// Notices that one of the stores was replaced by a copy.
    pub(crate) lineage: Arc<LineageTracker>,
    /// Records new users, and refuses erased ones.
    pub(crate) identity: Arc<IdentityService>,
    /// Counts reads, writes and mentions against the rate limits.
    pub(crate) rates: Arc<RateLimits>,
    pub(crate) posts: Arc<PostCache>,
    pub(crate) contexts: Arc<CommentContexts>,
    pub(crate) relations: Arc<RelationCache>,
    pub(crate) followers: Arc<FollowerCache>,
    pub(crate) followed_topics: Arc<FollowedTopics>,
    pub(crate) list_usage: Arc<ListUsage>,
    pub(crate) visibility: Arc<VisibilityPolicy>,
    /// Applies the filters of readers.
    pub(crate) content_filter: Arc<ContentFilter>,
    pub(crate) post_renderer: PostRenderer,
    pub(crate) notification_renderer: NotificationRenderer,
    /// Puts changes in force on all nodes.
    pub(crate) invalidator: Arc<Invalidator>,
    /// Owns partitions of durable work.
    pub(crate) owner: Arc<Owner>,
    /// Queues the fan-out jobs of changes.
    pub(crate) jobs: Arc<JobQueue>,
    /// Counts of reposted and quoted posts that are to be pushed.
    pub(crate) waiting_counts: WaitingCounts,
    /// Woken after a write that puts an event into the ledger's queue.
    pub(crate) events: Arc<EventQueue>,
}
