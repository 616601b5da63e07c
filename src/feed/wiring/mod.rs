//! Builds the services of the feed, lower layers first, and passes each its dependencies.

mod likes;
mod timelines;

use std::sync::Arc;

use tokio::sync::Notify;

use likes::LikeServices;
use timelines::TimelineServices;

use super::base::Base;
use super::content::{NewestReposts, PostCache, WaitingCounts};
use super::devices::{DeviceUsage, Devices};
use super::erasure::{self, ErasureJob, ErasureService};
use super::event_queue::EventQueue;
use super::export::Exports;
use super::fanout::FanoutWorkers;
use super::favourites::FavouriteService;
use super::filters::{ContentFilter, FilterCache, Filters};
use super::identity::{
    AccountService, AuthorizationChecks, ErasedUsers, ErasureLog, ErasureRecords, IdentityService, LogProgress,
    RevocationService, Standings, UserOrigins,
};
use super::invalidation::Invalidator;
use super::likes::LikeMemory;
use super::lineage::LineageTracker;
use super::lists::Lists;
use super::moderation::{Removals, Reports, Suspensions};
use super::node_ids::NodeIds;
use super::nodes::NodeRegistry;
use super::notifications::{Conversations, EventWorker, Notifications};
use super::options::FeedOptions;
use super::outlet::Outlet;
use super::pause_detector::PauseDetector;
use super::people::{FollowRequests, Follows, Profiles, Restrictions, UserSearch};
use super::posts::{CommentReader, CommentService, PostEditor, PostService};
use super::pushes::{LiveSockets, PushReview};
use super::rate_limits::RateLimits;
use super::rendering::{EventRenderer, NotificationRenderer, PostRenderer};
use super::reposts::{QuoteService, RepostService};
use super::runtime::Runtime;
use super::services::Feed;
use super::topic_follows::TopicFollows;
use super::topics::TopicService;
use super::visibility::{
    AccessChecks, CommentContexts, FollowedTopics, FollowerCache, ListUsage, RelationCache, VisibilityPolicy,
};
use super::web_push_key::WebPushPublicKey;
use super::work::{JobQueue, Owner, QuarantinePolicy};
use crate::auth::{Passwords, RevocationList, SessionIssuer, SignInGuard};
use crate::broker::{Broker, DurableQueue};
use crate::ledger::{Ledger, NodeDetails};
use crate::metrics::Metrics;
use crate::reloadable::Reloadable;
use crate::telemetry::Tracer;

/// The kinds of work, as `/ready` names them. Each has a policy of its own, because only items of the same kind show
/// that others succeed.
const WORK_KINDS: [&str; 9] =
    ["jobs", "pull_log", "likes", "notifications", "like_notifications", "outlet", "webhooks", "stream", "erasures"];

/// The dependencies of the feed.
pub struct FeedParts {
    /// The durable store.
    pub ledger: Arc<dyn Ledger>,
    /// The broker: logs behind channels, and hints to nodes.
    pub broker: Arc<dyn Broker>,
    /// The write-behind queue of likes: appending acknowledges a like; a settler writes it to the ledger later.
    pub queue: Arc<dyn DurableQueue>,
    /// Hashes passwords.
    pub passwords: Passwords,
    /// Signs the tokens of sessions; `None` if accounts are disabled.
    pub issuer: Option<SessionIssuer>,
    /// The revocations known to this node. The feed keeps the list up to date.
    pub revocations: Arc<RevocationList>,
    /// The metrics of this process.
    pub metrics: Arc<Metrics>,
    /// Records traces, if they are enabled.
    pub tracer: Tracer,
    /// This node, as others see it.
    pub node: NodeDetails,
}

impl Feed {
    /// Builds the services. Background tasks start with [`start`](Self::start).
    pub fn new(parts: FeedParts, options: FeedOptions) -> Arc<Self> {
        let FeedParts { ledger, broker, queue, passwords, issuer, revocations, metrics, tracer, node } = parts;
        let lease = broker.cache_lease();
        let runtime = Runtime::new();
        let ids = Arc::new(NodeIds::new(broker.clone(), ledger.clone(), metrics.clone(), runtime.clone()));
        let rates =
            Arc::new(RateLimits::new(options.rates, options.trusted_proxies.clone(), broker.clone(), metrics.clone()));

        let authorization_checks: Arc<AuthorizationChecks> = Arc::default();
        let access_checks: Arc<AccessChecks> = Arc::default();
        let log_grown: Arc<Notify> = Arc::default();
        let erased = Arc::new(ErasedUsers::new(lease.clone(), authorization_checks.clone(), log_grown.clone()));
        let origins = Arc::new(UserOrigins::new(ledger.clone()));
        let posts = Arc::new(PostCache::new(ledger.clone(), lease.clone(), erased.clone()));
        let newest_reposts = Arc::new(NewestReposts::new(ledger.clone(), lease.clone()));
        let standings = Arc::new(Standings::new(ledger.clone(), lease.clone(), authorization_checks.clone()));
        let relations = Arc::new(RelationCache::new(ledger.clone(), &lease, standings.clone()));
        let followers = Arc::new(FollowerCache::new(ledger.clone(), lease.clone(), options.fanout.page));
        let contexts = Arc::new(CommentContexts::new(ledger.clone(), lease.clone()));
        let filters = Arc::new(FilterCache::new(ledger.clone(), &lease));
        let followed_topics = Arc::new(FollowedTopics::new(ledger.clone(), &lease));
        let list_usage = Arc::new(ListUsage::new(ledger.clone(), &lease, followed_topics.clone()));
        let invalidator = Arc::new(Invalidator::new(
            broker.clone(),
            lease.clone(),
            vec![
                posts.clone(),
                newest_reposts.clone(),
                relations.clone(),
                followers.clone(),
                contexts.clone(),
                origins.clone(),
                erased.clone(),
                standings.clone(),
                filters.clone(),
                followed_topics.clone(),
                list_usage.clone(),
                // The last: a check reads the caches above.
                access_checks.clone(),
            ],
            vec![filters.clone(), followed_topics.clone(), list_usage.clone()],
            metrics.clone(),
        ));
        let nodes = Arc::new(NodeRegistry::new(
            ledger.clone(),
            broker.clone(),
            runtime.clone(),
            ids.clone(),
            invalidator.clone(),
            metrics.clone(),
            node,
        ));
        let like_memory = Arc::new(LikeMemory::new(queue.partitions()));
        let derived = vec![invalidator.clone() as _, like_memory.clone() as _];
        let lineage = Arc::new(LineageTracker::new(ledger.clone(), broker.clone(), runtime.clone(), derived));

        let is_alone = !options.pushes.several_nodes;
        let length = options.fanout.lease;
        let owner = Arc::new(Owner::new(ledger.clone(), broker.clone(), runtime.clone(), is_alone, length));
        let erasures = owner.partition(erasure::PARTITION, erasure::PARTITION);
        let log = ErasureLog::new(options.erasure_log.clone());
        let records = Arc::new(ErasureRecords::new(ledger.clone(), erased.clone(), log, erasures.clone()));
        let revocations = Arc::new(RevocationService {
            ledger: ledger.clone(),
            broker: broker.clone(),
            runtime: runtime.clone(),
            lineage: lineage.clone(),
            erasures: records.clone(),
            checks: authorization_checks.clone(),
            auth: options.auth.clone(),
            list: revocations,
            progress: LogProgress::default(),
            pauses: PauseDetector::new(),
            grown: log_grown,
        });
        let identity = Arc::new(IdentityService::new(
            ledger.clone(),
            origins.clone(),
            revocations.clone(),
            erased.clone(),
            standings.clone(),
        ));
        let visibility = Arc::new(VisibilityPolicy::new(
            ledger.clone(),
            posts.clone(),
            newest_reposts,
            relations.clone(),
            followed_topics.clone(),
            erased.clone(),
        ));
        let content_filter = Arc::new(ContentFilter::new(filters, visibility.clone()));
        let base = Arc::new(Base {
            jobs: Arc::new(JobQueue::new(broker.clone(), runtime.clone(), &owner)),
            events: Arc::new(EventQueue::new(
                ledger.clone(),
                broker.clone(),
                runtime.clone(),
                &owner,
                metrics.clone(),
                options.outlet.is_enabled(),
            )),
            post_renderer: PostRenderer::new(ledger.clone(), visibility.clone(), content_filter.clone()),
            notification_renderer: NotificationRenderer {
                ledger: ledger.clone(),
                visibility: visibility.clone(),
                comments: contexts.clone(),
                filter: content_filter.clone(),
            },
            options,
            owner,
            ledger,
            broker,
            runtime,
            metrics,
            tracer,
            ids,
            lineage,
            identity,
            rates,
            posts,
            contexts,
            relations,
            followers,
            followed_topics,
            list_usage,
            visibility,
            content_filter,
            invalidator,
            waiting_counts: WaitingCounts::default(),
        });
        let accounts = AccountService {
            base: base.clone(),
            origins,
            revocations: revocations.clone(),
            passwords,
            issuer: Reloadable::new(issuer),
            guard: Reloadable::new(SignInGuard::new(base.options.rates.sessions)),
        };
        let event_renderer = Arc::new(EventRenderer::new(base.clone(), erased, lease));
        let policies =
            WORK_KINDS.map(|kind| (kind, Arc::new(QuarantinePolicy::new(base.ledger.clone(), base.broker.clone()))));
        let [
            job_policy,
            pull_policy,
            like_policy,
            notification_policy,
            like_notification_policy,
            outlet_policy,
            webhook_waits,
            stream_waits,
            erasure_policy,
        ] = policies.each_ref().map(|(_, policy)| policy.clone());
        let timelines = TimelineServices::new(&base, pull_policy);
        let updates = timelines.updates(&base, event_renderer.clone());
        let comment_reader = Arc::new(CommentReader::new(base.clone()));
        let comments = Arc::new(CommentService::new(base.clone(), comment_reader.clone()));
        let favourites = Arc::new(FavouriteService::new(base.clone()));
        let notifications = Arc::new(Notifications::new(base.clone()));
        let likes = LikeServices::new(&base, queue, like_memory.clone(), like_policy);
        let erasure_job = ErasureJob {
            base: base.clone(),
            partition: erasures,
            records: records.clone(),
            edges: timelines.edges.clone(),
            comments: comments.clone(),
            notifications: notifications.clone(),
            counts: likes.counts,
            quarantine: erasure_policy,
        };
        let event_worker = EventWorker {
            base: base.clone(),
            notifications: notifications.clone(),
            quarantine: notification_policy,
            like_quarantine: like_notification_policy,
        };
        let outlet = Arc::new(Outlet::new(base.clone(), outlet_policy));
        Arc::new(Self {
            posts: PostService::new(base.clone()),
            reposts: RepostService::new(base.clone()),
            quotes: QuoteService::new(base.clone()),
            post_editor: PostEditor::new(base.clone()),
            profiles: Profiles::new(base.clone()),
            conversations: Conversations::new(base.clone()),
            devices: Devices::new(base.clone()),
            device_usage: Arc::new(DeviceUsage::new(base.clone())),
            web_push_keys: WebPushPublicKey::new(base.clone()),
            live_sockets: Arc::new(LiveSockets::new(base.clone())),
            pushes: PushReview::new(base.clone(), revocations.clone()),
            user_search: UserSearch::new(base.clone()),
            follows: Follows::new(base.clone(), timelines.edges.clone()),
            requests: FollowRequests::new(base.clone(), timelines.edges.clone()),
            restrictions: Arc::new(Restrictions::new(base.clone(), timelines.edges.clone())),
            filters: Filters::new(base.clone()),
            lists: Lists::new(base.clone(), timelines.edges.clone(), timelines.inboxes.clone(), updates.clone()),
            suspensions: Suspensions::new(base.clone()),
            removals: Removals::new(base.clone(), comments.clone()),
            reports: Reports::new(base.clone(), comment_reader.clone()),
            standings,
            timelines: timelines.pages(&base, updates),
            topics: TopicService::new(base.clone()),
            topic_follows: TopicFollows::new(base.clone()),
            exports: Exports::new(base.clone()),
            erasures: ErasureService::new(base.clone(), records),
            outlet,
            event_worker: Arc::new(event_worker),
            webhook_waits,
            stream_waits,
            work: policies.to_vec(),
            erasure_job: Arc::new(erasure_job),
            fanout: Arc::new(FanoutWorkers::new(base.clone(), timelines.edges.clone(), favourites.clone(), job_policy)),
            read_markers: timelines.markers,
            inboxes: timelines.inboxes,
            pull_log: timelines.pull_log,
            settlements: likes.settlements,
            like_intake: likes.intake,
            settlers: likes.settlers,
            likes: likes.likes,
            like_memory,
            revocations,
            nodes,
            authorization_checks,
            access_checks,
            event_renderer,
            accounts,
            comment_reader,
            comments,
            favourites,
            notifications,
            base,
        })
    }
}
