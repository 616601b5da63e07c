//! Builds the services of the feed, lower layers first, and passes each its dependencies.

mod base;
mod likes;
mod policies;
mod timelines;

use std::sync::Arc;

use tokio::sync::Notify;

use base::Base;
use likes::LikeServices;
use policies::Policies;
use timelines::TimelineServices;

use super::content::PostCache;
use super::erasure::ErasureService;
use super::event_queue::EventQueue;
use super::export::Exports;
use super::fanout::FollowerCache;
use super::identity::{
    AccountService, AuthorizationChecks, ErasedUsers, ErasureLog, ErasureRecords, IdentityService, RevocationService,
    TokenLifetimes, UserOrigins,
};
use super::invalidation::Invalidator;
use super::likes::LikeMemory;
use super::lineage::LineageTracker;
use super::node_ids::NodeIds;
use super::options::FeedOptions;
use super::people::UserSearch;
use super::rate_limits::RateLimits;
use super::rendering::{CommentRenderer, EventRenderer, NotificationRenderer, PostRenderer};
use super::runtime::Runtime;
use super::services::Feed;
use super::topics::TopicService;
use super::visibility::{AccessChecks, CommentContexts, RelationCache, VisibilityPolicy};
use super::web_push_key::WebPushKeys;
use super::work::{JobQueue, Owner};
use crate::auth::{Passwords, RevocationList, SessionIssuer, SignInGuard};
use crate::broker::{Broker, DurableQueue};
use crate::ledger::Ledger;
use crate::metrics::Metrics;

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
}

impl Feed {
    /// Builds the services. Background tasks start with [`start`](Self::start).
    pub fn new(parts: FeedParts, options: &FeedOptions) -> Arc<Self> {
        let FeedParts { ledger, broker, queue, passwords, issuer, revocations, metrics } = parts;
        let lease = broker.cache_lease();
        let runtime = Runtime::new();
        let ids = Arc::new(NodeIds::new(broker.clone(), runtime.clone()));
        let rates = Arc::new(RateLimits::new(options.rates, options.trusted_proxies.clone(), broker.clone()));

        let authorization_checks: Arc<AuthorizationChecks> = Arc::default();
        let access_checks: Arc<AccessChecks> = Arc::default();
        let log_grown: Arc<Notify> = Arc::default();
        let erased = Arc::new(ErasedUsers::new(lease.clone(), authorization_checks.clone(), log_grown.clone()));
        let origins = Arc::new(UserOrigins::new(ledger.clone()));
        let cache = Arc::new(PostCache::new(ledger.clone(), lease.clone(), erased.clone()));
        let relations = Arc::new(RelationCache::new(ledger.clone(), &lease));
        let followers = Arc::new(FollowerCache::new(ledger.clone(), lease.clone(), options.fanout.page));
        let contexts = Arc::new(CommentContexts::new(ledger.clone(), lease.clone()));
        let invalidator = Arc::new(Invalidator::new(
            broker.clone(),
            lease.clone(),
            vec![
                cache.clone(),
                relations.clone(),
                followers.clone(),
                contexts.clone(),
                origins.clone(),
                erased.clone(),
                // The last: a check reads the caches above.
                access_checks.clone(),
            ],
            metrics.clone(),
        ));
        let like_memory = Arc::new(LikeMemory::new(queue.partitions()));
        let derived = vec![invalidator.clone() as _, like_memory.clone() as _];
        let lineage = Arc::new(LineageTracker::new(ledger.clone(), broker.clone(), runtime.clone(), derived));

        let log = ErasureLog::new(options.erasure_log.clone());
        let records = Arc::new(ErasureRecords::new(ledger.clone(), erased.clone(), log));
        let revocations = Arc::new(RevocationService::new(
            ledger.clone(),
            broker.clone(),
            runtime.clone(),
            lineage.clone(),
            records.clone(),
            authorization_checks.clone(),
            TokenLifetimes { session: options.session_ttl, leeway: options.leeway, revocation: options.revocation_ttl },
            revocations,
            log_grown,
        ));
        let identity =
            Arc::new(IdentityService::new(ledger.clone(), origins.clone(), revocations.clone(), erased.clone()));
        let accounts = AccountService::new(
            ledger.clone(),
            identity.clone(),
            origins,
            revocations.clone(),
            invalidator.clone(),
            rates.clone(),
            passwords,
            issuer,
            SignInGuard::new(options.rates.sessions),
            options.trusted_proxies.clone(),
        );

        let visibility =
            Arc::new(VisibilityPolicy::new(ledger.clone(), cache.clone(), relations.clone(), erased.clone()));
        let renderer = Arc::new(PostRenderer::new(ledger.clone(), visibility.clone()));
        let notification_renderer = NotificationRenderer::new(ledger.clone(), visibility.clone(), contexts.clone());
        let event_renderer = Arc::new(EventRenderer::new(
            cache.clone(),
            relations.clone(),
            erased,
            CommentRenderer::new(ledger.clone()),
            notification_renderer.clone(),
            lease,
        ));
        let (is_alone, length) = (!options.pushes.several_nodes, options.fanout.lease);
        let owner = Arc::new(Owner::new(ledger.clone(), broker.clone(), runtime.clone(), is_alone, length));
        let base = Base {
            jobs: Arc::new(JobQueue::new(broker.clone(), runtime.clone(), &owner)),
            events: Arc::new(EventQueue::new(
                ledger.clone(),
                broker.clone(),
                runtime.clone(),
                &owner,
                metrics.clone(),
                options.outlet.enabled,
            )),
            owner,
            ledger,
            broker,
            runtime,
            metrics,
            ids,
            lineage,
            identity,
            cache,
            contexts,
            relations,
            followers,
            visibility,
            invalidator,
        };
        let policies = Policies::new(&base);
        let timelines = TimelineServices::new(&base, options, policies.pull_log.clone());
        let write = base.write_path(rates.clone());
        let comment_reader = Arc::new(base.comment_reader());
        let comments = Arc::new(base.comments(write.clone(), comment_reader.clone(), options));
        let favourites = Arc::new(base.favourites(renderer.clone(), options));
        let notifications = Arc::new(base.notifications(notification_renderer.clone(), options));
        let likes = LikeServices::new(&base, queue, like_memory.clone(), &policies, options);
        let erasure_job = base.erasure_job(
            timelines.edges.clone(),
            likes.counts,
            records.clone(),
            &comments,
            &notifications,
            policies.erasures.clone(),
        );
        let fanout = base.fanout(timelines.edges.clone(), policies.jobs.clone(), favourites.clone(), options);
        Arc::new(Self {
            posts: base.posts(write.clone(), renderer.clone(), options),
            post_editor: base.post_editor(write, renderer.clone(), options),
            profiles: base.profiles(),
            conversations: base.conversations(),
            devices: base.devices(options),
            web_push_keys: WebPushKeys::new(options.vapid_public_key.clone()),
            live_sockets: Arc::new(base.live_sockets(options)),
            pushes: base.pushes(revocations.clone(), notification_renderer.clone(), options),
            user_search: UserSearch::new(base.ledger.clone(), base.visibility.clone()),
            follows: base.follows(timelines.edges.clone(), options),
            restrictions: base.restrictions(timelines.edges.clone()),
            timelines: timelines.pages(&base, renderer.clone(), event_renderer.clone()),
            topics: TopicService::new(base.ledger.clone(), base.visibility.clone(), renderer),
            exports: Exports::new(base.ledger.clone(), base.identity.clone(), notification_renderer),
            erasures: ErasureService::new(base.ledger.clone(), base.invalidator.clone(), records),
            outlet: base.outlet(policies.outlet.clone(), options),
            event_worker: Arc::new(base.event_worker(notifications.clone(), policies.events())),
            post_alert_quarantine: policies.post_alerts.clone(),
            webhook_waits: policies.webhooks.clone(),
            stream_waits: policies.stream.clone(),
            work: policies.health(),
            erasure_job: Arc::new(erasure_job),
            fanout: Arc::new(fanout),
            read_markers: timelines.markers,
            inboxes: timelines.inboxes,
            pull_log: timelines.pull_log,
            settlements: likes.settlements,
            like_intake: likes.intake,
            settlers: likes.settlers,
            like_retries: likes.retries,
            likes: likes.likes,
            like_memory,
            owner: base.owner,
            jobs: base.jobs,
            ledger: base.ledger,
            broker: base.broker,
            runtime: base.runtime,
            ids: base.ids,
            lineage: base.lineage,
            events: base.events,
            identity: base.identity,
            visibility: base.visibility,
            invalidator: base.invalidator,
            revocations,
            authorization_checks,
            access_checks,
            rates,
            event_renderer,
            accounts,
            comment_reader,
            comments,
            favourites,
            notifications,
        })
    }
}
