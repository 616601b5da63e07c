//! The feed: what it is, without sockets and transports.
//!
//! Services own what they need, and are given what they use in their constructor. Commands submit jobs and events; nothing
//! calls back up. [`Feed::new`] wires them, lower services first.
//!
//! | layer | modules |
//! |---|---|
//! | operations | [`operations`], `idempotency`, `heavy`, `rate_limits` |
//! | background work | `fanout/`, `pull_log`, `events`, `likes/`, `erasure/`, `quarantine` |
//! | commands and reads | `posts/`, `people/`, `timelines/`, `notifications/`, `favourites`, `topics`, `export`, `accounts` |
//! | rendering | `rendering/` |
//! | visibility | `visibility/`, `content/`, `caching/` |
//! | identity | `identity/`, `revocations` |
//! | stores in step | `lineage`, `invalidation`, `node_ids`, `id_maker`, `pauses`, `runtime` |
//! | shared by all | `call`, `error`, `input`, `expand`, `page_builder`, `options`, `write_path` |

mod accounts;
mod caching;
mod call;
mod content;
mod erasure;
mod error;
mod events;
mod expand;
mod export;
mod fanout;
mod favourites;
mod heavy;
mod id_maker;
mod idempotency;
mod identity;
mod input;
mod invalidation;
mod likes;
mod lineage;
mod node_ids;
mod notifications;
pub mod operations;
mod options;
mod page_builder;
mod pauses;
mod people;
mod posts;
mod pull_log;
mod quarantine;
mod rate_limits;
mod rendering;
mod revocations;
mod runtime;
mod timelines;
mod topics;
mod visibility;
mod write_path;

use std::sync::Arc;

use bytes::Bytes;

use crate::auth::{Passwords, RevocationList, SessionIssuer, SignInGuard};
use crate::broker::{Broker, CacheLease, Queue};
use crate::ledger::Ledger;
use crate::metrics::Metrics;

pub(crate) use call::Call;
pub use call::{Caller, Credential, Origin};
pub use erasure::{ErasureLogContents, ErasureLogEntry, read_erasure_log};
pub use error::{FeedError, Result};
pub use fanout::FanoutOptions;
pub use identity::NewUser;
pub use likes::{LikesOptions, Whisper};
pub use options::{FeedOptions, Limits};
pub use posts::is_topic_name;
pub use rate_limits::{ADDRESS_READS, Rates};
pub use rendering::{Audience, RenderContext, RenderedEvent, Viewer};
pub use revocations::PendingChecks;
pub use runtime::now;
pub use timelines::Presence;

use content::PostCache;
use export::Exports;
use fanout::{ChannelUpdates, Fanout};
use favourites::Favourites;
use identity::{Identity, UserOrigins};
use invalidation::Invalidator;
use node_ids::NodeIds;
use notifications::Notifications;
use people::{Follows, Profiles, Restrictions, UserSearch};
use posts::{Comments, PostEditor, Posts};
use pull_log::PullLog;
use quarantine::Quarantine;
use rate_limits::RateLimits;
use rendering::{EventRenderer, NotificationRenderer, PostRenderer};
use runtime::Runtime;
use timelines::{Backfill, CatchUp, EdgeJobs, Inboxes, PullCursor, ReadMarkers, TimelineLimits, TimelinePages};
use topics::Topics;
use visibility::{CommentContexts, RelationCache, VisibilityPolicy};
use write_path::WritePath;

/// The feed: its services, wired.
pub struct Feed {
    ledger: Arc<dyn Ledger>,
    broker: Arc<dyn Broker>,
    /// Background tasks, and the name of this process in leases.
    runtime: Arc<Runtime>,
    ids: Arc<NodeIds>,
    lineage: Arc<lineage::LedgerLineage>,
    heavy: heavy::HeavyReads,
    fanout: Arc<Fanout>,
    channel_updates: ChannelUpdates,
    pull_log: Arc<PullLog>,
    job_quarantine: Arc<Quarantine>,
    like_quarantine: Arc<Quarantine>,
    events: Arc<events::EventQueue>,
    likes: likes::Likes,
    revocations: Arc<revocations::Revocations>,
    erasures: Arc<erasure::Erasures>,
    passwords: Passwords,
    issuer: Option<SessionIssuer>,
    sign_ins: Option<Arc<SignInGuard>>,
    metrics: Arc<Metrics>,
    options: FeedOptions,
    post_cache: Arc<PostCache>,
    comment_contexts: Arc<CommentContexts>,
    origins: Arc<UserOrigins>,
    edges: Arc<EdgeJobs>,
    /// Checks callers; the gateway authorises connections with it.
    pub(crate) identity: Arc<Identity>,
    /// Counts reads of clients; the gateway charges subscriptions and look-ups to it.
    pub(crate) rates: Arc<RateLimits>,
    /// Decides who may see what; the gateway checks subscriptions with it.
    pub(crate) visibility: Arc<VisibilityPolicy>,
    /// Drops cached state; the hub passes the invalidations of other nodes to it.
    pub(crate) invalidator: Arc<Invalidator>,
    /// Renders log entries; the hub pushes what it returns.
    pub(crate) event_renderer: Arc<EventRenderer>,
    /// The inboxes; the hub keeps those of connected users up to date.
    pub(crate) inboxes: Arc<Inboxes>,
    /// Exports; backends request those of any user.
    pub(crate) exports: Exports,
    posts: Posts,
    post_editor: PostEditor,
    comments: Comments,
    profiles: Profiles,
    user_search: UserSearch,
    follows: Follows,
    restrictions: Restrictions,
    timelines: TimelinePages,
    read_markers: Arc<ReadMarkers>,
    notifications: Notifications,
    favourites: Favourites,
    topics: Topics,
}

/// What the feed is given.
pub struct Parts {
    /// The durable store.
    pub ledger: Arc<dyn Ledger>,
    /// The logs and hints.
    pub broker: Arc<dyn Broker>,
    /// The write-behind queue: likes are acknowledged from it, and written to the ledger later.
    pub queue: Arc<dyn Queue>,
    /// Hashes passwords.
    pub passwords: Passwords,
    /// Signs the tokens of sessions; `None` where accounts are off.
    pub issuer: Option<SessionIssuer>,
    /// The revocations; the feed keeps the list up to date.
    pub revocations: Arc<RevocationList>,
    /// The metrics of this process.
    pub metrics: Arc<Metrics>,
}

impl Feed {
    /// Wires the services. Nothing runs yet: see [`start`](Self::start).
    pub fn new(parts: Parts, options: FeedOptions) -> Arc<Self> {
        let Parts { ledger, broker, queue, passwords, issuer, revocations, metrics } = parts;
        let lease: Arc<CacheLease> = broker.cache_lease();
        let runtime = Runtime::new();
        let ids = Arc::new(NodeIds::new(broker.clone(), runtime.clone()));
        let lineage = Arc::new(lineage::LedgerLineage::new(broker.clone()));
        let log = erasure::ErasureLog::new(options.erasure_log.clone());
        let revocations = Arc::new(revocations::Revocations::new(revocations));
        let erasures = Arc::new(erasure::Erasures::new(log, lease.clone(), revocations.clone()));
        let erased = erasures.users.clone();
        let origins = Arc::new(UserOrigins::new(ledger.clone()));
        let identity = Arc::new(Identity::new(ledger.clone(), origins.clone(), revocations.clone(), erased.clone()));
        let rates = Arc::new(RateLimits::new(options.rates, options.trusted_proxies.clone(), broker.clone()));

        let cache = Arc::new(PostCache::new(ledger.clone(), lease.clone(), erased.clone()));
        let relations = Arc::new(RelationCache::new(ledger.clone(), &lease));
        let contexts = Arc::new(CommentContexts::new(ledger.clone(), lease.clone()));
        let invalidator = Arc::new(Invalidator::new(
            broker.clone(),
            lease.clone(),
            vec![cache.clone(), relations.clone(), contexts.clone(), origins.clone(), erasures.clone()],
            metrics.clone(),
        ));
        let visibility =
            Arc::new(VisibilityPolicy::new(ledger.clone(), cache.clone(), relations.clone(), erased.clone()));

        let renderer = Arc::new(PostRenderer::new(ledger.clone(), visibility.clone()));
        let notification_renderer = NotificationRenderer::new(ledger.clone(), visibility.clone(), contexts.clone());
        let event_renderer = Arc::new(EventRenderer::new(
            cache.clone(),
            relations.clone(),
            erased,
            notification_renderer.clone(),
            lease,
        ));

        let jobs = Arc::new(Fanout::new(options.fanout, &runtime));
        let job_quarantine = Arc::new(Quarantine::new(ledger.clone(), broker.clone()));
        let events = Arc::new(events::EventQueue::default());
        let write = WritePath {
            identity: identity.clone(),
            ids: ids.clone(),
            rates: rates.clone(),
            jobs: jobs.clone(),
            events: events.clone(),
            invalidator: invalidator.clone(),
        };

        let backfill = Arc::new(Backfill::new(ledger.clone(), broker.clone(), cache.clone(), options.follow_merge));
        let edges = Arc::new(EdgeJobs::new(ledger.clone(), invalidator.clone(), jobs.clone(), backfill.clone()));
        let catch_up = Arc::new(CatchUp::new(
            ledger.clone(),
            broker.clone(),
            visibility.clone(),
            backfill,
            lineage.clone(),
            metrics.clone(),
        ));
        let cursor: Arc<PullCursor> = Arc::default();
        let limits = TimelineLimits { length: options.timeline_length, recovery: options.recovery_limit };
        let inboxes = Arc::new(Inboxes::new(
            ledger.clone(),
            broker.clone(),
            relations.clone(),
            visibility.clone(),
            catch_up.clone(),
            cursor.clone(),
            limits,
        ));
        let read_markers = Arc::new(ReadMarkers::new(
            ledger.clone(),
            broker.clone(),
            identity.clone(),
            inboxes.clone(),
            visibility.clone(),
        ));
        Arc::new(Self {
            posts: Posts::new(
                ledger.clone(),
                broker.clone(),
                write.clone(),
                cache.clone(),
                visibility.clone(),
                renderer.clone(),
                lineage.clone(),
                options.limits,
            ),
            post_editor: PostEditor::new(
                ledger.clone(),
                write.clone(),
                cache.clone(),
                visibility.clone(),
                renderer.clone(),
                options.limits,
            ),
            comments: Comments::new(
                ledger.clone(),
                broker.clone(),
                write,
                visibility.clone(),
                contexts.clone(),
                options.limits.text,
            ),
            profiles: Profiles::new(ledger.clone(), identity.clone(), relations.clone(), visibility.clone()),
            user_search: UserSearch::new(ledger.clone(), visibility.clone()),
            follows: Follows::new(
                ledger.clone(),
                identity.clone(),
                relations,
                visibility.clone(),
                edges.clone(),
                events.clone(),
                options.limits.follows,
            ),
            restrictions: Restrictions::new(ledger.clone(), identity.clone(), edges.clone()),
            timelines: TimelinePages::new(
                ledger.clone(),
                broker.clone(),
                inboxes.clone(),
                visibility.clone(),
                renderer.clone(),
                event_renderer.clone(),
                read_markers.clone(),
                limits,
            ),
            read_markers,
            notifications: Notifications::new(
                ledger.clone(),
                broker.clone(),
                ids.clone(),
                visibility.clone(),
                notification_renderer.clone(),
            ),
            favourites: Favourites::new(
                ledger.clone(),
                identity.clone(),
                visibility.clone(),
                renderer.clone(),
                options.limits.favourites,
            ),
            topics: Topics::new(ledger.clone(), visibility.clone(), renderer),
            exports: Exports::new(ledger.clone(), identity.clone(), notification_renderer),
            pull_log: Arc::new(PullLog::new(
                ledger.clone(),
                broker.clone(),
                runtime.clone(),
                cache.clone(),
                visibility.clone(),
                catch_up,
                cursor,
                lineage.clone(),
                jobs.clone(),
                job_quarantine.clone(),
                metrics.clone(),
                options.timeline_idle,
            )),
            job_quarantine,
            like_quarantine: Arc::new(Quarantine::new(ledger.clone(), broker.clone())),
            channel_updates: ChannelUpdates::new(broker.clone(), cache.clone()),
            likes: likes::Likes::new(queue, options.likes),
            heavy: heavy::HeavyReads::new(),
            sign_ins: SignInGuard::new(options.rates.sessions),
            ledger,
            broker,
            runtime,
            ids,
            lineage,
            fanout: jobs,
            events,
            revocations,
            erasures,
            passwords,
            issuer,
            metrics,
            options,
            post_cache: cache,
            comment_contexts: contexts,
            origins,
            edges,
            identity,
            rates,
            visibility,
            invalidator,
            event_renderer,
            inboxes,
        })
    }

    /// Compares the stores, leases this node's number, and starts the background work until [`stop`](Self::stop).
    ///
    /// # Errors
    /// If a store cannot be reached, or no number can be leased.
    pub async fn start(self: &Arc<Self>) -> Result<()> {
        self.start_lineage().await?;
        self.ids.start().await?;
        self.start_revocations().await?;
        self.start_erasure_job();
        self.pull_log.start().await?;
        self.start_fanout();
        self.start_events();
        self.start_likes();
        self.start_forgetting();
        Ok(())
    }

    /// Stops the background work. Unfinished jobs stay in the ledger for other nodes.
    pub async fn stop(&self) {
        self.runtime.stop().await;
        self.release_leases().await;
    }

    /// Round trips made to the ledger so far.
    pub fn ledger_round_trips(&self) -> u64 {
        self.ledger.round_trips()
    }

    /// Whether both stores answer.
    ///
    /// # Errors
    /// The first that does not.
    pub async fn ready(&self) -> Result<()> {
        self.ledger.ping().await?;
        Ok(self.broker.ping().await?)
    }

    /// Handles a signal of another node.
    pub fn on_signal(&self, message: &Bytes) {
        if *message == pull_log::GROWN {
            return self.pull_log.on_signal();
        }
        if *message == events::WRITTEN {
            return self.events.on_signal();
        }
        if *message == lineage::LEDGER_REPLACED {
            return self.lineage.compare_soon();
        }
        if *message == revocations::REVOKED {
            return self.revocations.grown.notify_one();
        }
        if message.starts_with(likes::SETTLED.as_bytes()) {
            self.likes.on_settled(message.slice(likes::SETTLED.len()..));
        }
    }

    /// This node may have missed signals.
    pub fn on_resync(&self) {
        self.pull_log.on_signal();
        self.revocations.grown.notify_one();
        self.likes.on_resync();
        // A broker that lost its record of the ledger has to have it before the next number is used.
        self.lineage.compare_soon();
        // A broker that lost its data gives this node's number to the next node that asks.
        self.ids.renew_soon();
    }
}
