//! The services of the feed together: start, stop, and signals of other nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::base::Base;
use super::config::RatesConfig;
use super::devices::{DeviceUsage, Devices};
use super::erasure::{ErasureJob, ErasureService};
use super::export::Exports;
use super::fanout::{FanoutWorkers, PullLog};
use super::favourites::FavouriteService;
use super::filters::Filters;
use super::identity::{AccountService, AuthorizationChecks, RevocationService, Standings};
use super::likes::{LikeIntake, LikeMemory, LikeService, SettlementListener, Settlers};
use super::lists::Lists;
use super::moderation::{Removals, Reports, Suspensions};
use super::nodes::{JoinError, NodeRegistry};
use super::notifications::{Conversations, EventWorker, Notifications};
use super::outlet::Outlet;
use super::people::{FollowRequests, Follows, Profiles, Restrictions, UserSearch};
use super::posts::{CommentReader, CommentService, PostEditor, PostService};
use super::pushes::{LiveSockets, PushReview};
use super::rendering::EventRenderer;
use super::reposts::{QuoteService, RepostService};
use super::timelines::{Inboxes, ReadMarkers, TimelinePages};
use super::topic_follows::TopicFollows;
use super::topics::TopicService;
use super::visibility::AccessChecks;
use super::web_push_key::WebPushPublicKey;
use super::work::{QuarantinePolicy, StoreHealth, WorkKinds};
use crate::auth::SessionIssuer;
use crate::broker::{QueueBacklog, Signal};

/// The services of the feed. The table of operations calls the ones that clients use.
pub struct Feed {
    /// What nearly all services use; `api/`, the gateway and `push/` as well.
    pub(crate) base: Arc<Base>,
    /// Revokes tokens and sessions; backends may do so for any user.
    pub(crate) revocations: Arc<RevocationService>,
    /// The connections that a revocation or an erasure concerns. The gateway closes them.
    pub(crate) authorization_checks: Arc<AuthorizationChecks>,
    /// The users whose subscriptions to posts and profiles must be checked again. The gateway checks them.
    pub(crate) access_checks: Arc<AccessChecks>,
    /// Renders log entries. The hub pushes the result.
    pub(crate) event_renderer: Arc<EventRenderer>,
    /// The inboxes. The hub keeps those of connected users up to date.
    pub(crate) inboxes: Arc<Inboxes>,
    /// Settled likes of this node's clients. The gateway informs the clients.
    pub(crate) settlements: Arc<SettlementListener>,
    pub(crate) accounts: AccountService,
    pub(crate) erasures: ErasureService,
    pub(crate) exports: Exports,
    pub(crate) profiles: Profiles,
    pub(crate) user_search: UserSearch,
    pub(crate) follows: Follows,
    pub(crate) requests: FollowRequests,
    pub(crate) restrictions: Arc<Restrictions>,
    pub(crate) filters: Filters,
    pub(crate) lists: Lists,
    pub(crate) suspensions: Suspensions,
    pub(crate) removals: Removals,
    pub(crate) reports: Reports,
    pub(crate) posts: PostService,
    pub(crate) reposts: RepostService,
    pub(crate) quotes: QuoteService,
    pub(crate) post_editor: PostEditor,
    pub(crate) comment_reader: Arc<CommentReader>,
    pub(crate) comments: Arc<CommentService>,
    pub(crate) likes: LikeService,
    pub(crate) timelines: TimelinePages,
    pub(crate) read_markers: Arc<ReadMarkers>,
    pub(crate) notifications: Arc<Notifications>,
    pub(crate) conversations: Conversations,
    pub(crate) devices: Devices,
    /// Which devices are in use. The gateway reports the users who connect.
    pub(crate) device_usage: Arc<DeviceUsage>,
    pub(crate) web_push_keys: WebPushPublicKey,
    /// Decides about pushes that are due; `push/` sends them.
    pub(crate) pushes: PushReview,
    /// Finds users who take their notifications live. The gateway pings their sockets.
    pub(crate) live_sockets: Arc<LiveSockets>,
    pub(crate) favourites: Arc<FavouriteService>,
    pub(crate) topics: TopicService,
    pub(crate) topic_follows: TopicFollows,
    /// What happened, for consumers outside of Feedline.
    pub(crate) outlet: Arc<Outlet>,
    /// What webhooks, and the Stream of the outlet, wait for.
    pub(crate) webhook_waits: Arc<QuarantinePolicy>,
    pub(crate) stream_waits: Arc<QuarantinePolicy>,
    pub(super) standings: Arc<Standings>,
    pub(super) nodes: Arc<NodeRegistry>,
    pub(super) work: WorkKinds,
    pub(super) fanout: Arc<FanoutWorkers>,
    pub(super) pull_log: Arc<PullLog>,
    pub(super) event_worker: Arc<EventWorker>,
    pub(super) like_intake: Arc<LikeIntake>,
    pub(super) settlers: Arc<Settlers>,
    pub(super) like_memory: Arc<LikeMemory>,
    pub(super) erasure_job: Arc<ErasureJob>,
}

impl Feed {
    /// Registers this node in both stores, which must belong together. To be called before [`start`](Self::start).
    ///
    /// # Errors
    /// If they do not, or a store cannot be reached.
    pub async fn join(&self) -> Result<(), JoinError> {
        self.nodes.join().await
    }

    /// For each of [`FINGERPRINTS`](super::FINGERPRINTS), which nodes differ from this one; `None`: none does.
    pub fn fingerprints(&self) -> Vec<(&'static str, Option<String>)> {
        self.nodes.mismatches().report()
    }

    /// Replaces the fingerprints of this node, after a reload of its keys.
    pub fn replace_fingerprints(&self, fingerprints: BTreeMap<String, String>) {
        self.nodes.set_fingerprints(fingerprints);
    }

    /// Replaces the rate limits.
    pub fn replace_rates(&self, rates: RatesConfig) {
        self.base.rates.set(rates);
        self.accounts.replace_guard(rates.sessions);
    }

    /// Replaces the key that signs the tokens of sessions; `None` if accounts are off.
    pub fn replace_issuer(&self, issuer: Option<SessionIssuer>) {
        self.accounts.issuer.set(issuer);
    }

    /// Waits until this node cannot go on with its stores, and returns the reason: other nodes have moved to other ones
    /// while it was paused.
    pub async fn refused(&self) -> JoinError {
        self.nodes.refused().await
    }

    /// Compares the stores, leases this node's number, and starts the background work until [`stop`](Self::stop).
    ///
    /// # Errors
    /// If a store cannot be reached, or no number can be leased.
    pub async fn start(&self) -> Result<(), JoinError> {
        self.base.lineage.start().await?;
        self.base.ids.start().await?;
        self.base.invalidator.start(&self.base.runtime);
        self.revocations.start().await?;
        self.standings.start(&self.base.runtime).await?;
        self.erasure_job.start();
        self.pull_log.start().await?;
        self.fanout.start();
        self.base.owner.start().await;
        self.base.events.start();
        self.event_worker.start();
        self.restrictions.start();
        self.like_intake.start();
        self.settlers.start();
        self.device_usage.start();
        Ok(self.outlet.start().await?)
    }

    /// Leaves the work of the feed itself to other processes: for one that only sends. To be called before senders
    /// name their partitions.
    pub fn unregister_work(&self) {
        self.base.owner.unregister_all();
    }

    /// As [`start`](Self::start), for a process that only sends pushes: it follows the revocations, and keeps its
    /// caches coherent.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub async fn start_for_pushes(&self) -> Result<(), JoinError> {
        self.base.lineage.start().await?;
        self.base.ids.start().await?;
        self.base.invalidator.start(&self.base.runtime);
        self.revocations.start().await?;
        self.standings.start(&self.base.runtime).await?;
        self.outlet.register().await?;
        self.base.owner.start().await;
        Ok(())
    }

    /// Answers requests that wait for something to happen: the process drains.
    pub fn drain(&self) {
        self.outlet.drain();
    }

    /// Stops the background work, also after a failed start. Unfinished jobs stay in the ledger for other nodes, and
    /// the node number is released.
    pub async fn stop(&self) {
        self.base.runtime.stop().await;
        self.base.owner.stop().await;
        self.base.ids.release().await;
        if self.base.invalidator.repeat_failed().await {
            self.nodes.leave().await;
        } else {
            // Lost, for the other nodes: they clear the caches that may miss a change.
            tracing::warn!("changes of this node could not be announced to the others");
        }
    }

    /// Asks both stores whether they work, and collects what the work of this process waits for.
    pub async fn store_health(&self) -> StoreHealth {
        StoreHealth::read(&self.work, &*self.base.ledger, &*self.base.broker).await
    }

    /// The queue of likes, if the broker can be reached and knows the ages of likes.
    pub async fn likes_backlog(&self) -> Option<QueueBacklog> {
        self.like_intake.queue().backlog().await.ok().flatten()
    }

    /// Handles a signal of any node.
    pub fn on_signal(&self, signal: Signal) {
        match signal {
            Signal::PullLogAppended => self.pull_log.on_signal(),
            Signal::JobsWaiting(partition) => _ = self.base.jobs.on_signal(partition),
            Signal::WorkFreed => self.base.owner.on_freed(),
            Signal::EventsWritten => self.base.events.on_signal(),
            Signal::OutletAppended => self.outlet.wake(),
            Signal::LedgerReplaced => self.base.lineage.compare_soon(),
            Signal::RevocationsAppended => self.revocations.on_signal(),
            Signal::LikesSettled(settlement) => self.settlements.on_settled(settlement),
            Signal::PostTraced { post, trace } => self.base.tracer.note_post(post, trace),
            Signal::ProbeSockets { request, items } => self.live_sockets.on_probe(request, items),
            Signal::SocketsAnswered { request, items } => self.live_sockets.on_answer(&request, items),
            // The gateway handles connections.
            Signal::Disconnect(_)
            | Signal::Subscribe(_)
            | Signal::Unsubscribe(_)
            | Signal::Refresh(_)
            | Signal::AskNodes { .. }
            | Signal::NodeAnswered { .. }
            | Signal::Emulated(_) => {}
        }
    }

    /// Handles a loss of signals: this node may have missed some.
    pub fn on_resync(&self) {
        self.pull_log.on_signal();
        self.revocations.on_signal();
        self.like_memory.on_resync();
        // If the broker lost its record of the ledger, the record must be written before the next number is used.
        self.base.lineage.compare_soon();
        // If the broker lost its data, it may give this node's number to another node.
        self.base.ids.renew_soon();
    }
}
