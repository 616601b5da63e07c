//! What users took live, so that it is not pushed.
//!
//! A *notification* is taken if a socket that received it gave a sign afterwards: its node keeps a
//! [receipt](DeliveryReceipts). Only sockets with the user's channel of notifications receive one, and only those that
//! were connected when it was written. A client that connects later and recovers it from the log gets the push, too.
//!
//! A *post* with an alert is one of many in a timeline, so no ping follows it. Right before the push, the sockets that
//! have been subscribed to the user's timeline since before the post are pinged, behind everything that was queued for
//! them. Sockets whose network died silently do not answer.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::delivery_receipts::DeliveryReceipts;
use crate::broker::{LiveItems, LiveItemsTaken, Signal};
use crate::feed::base::Base;
use crate::ledger::PushPlan;
use crate::model::{Millis, Notification, NotificationId, PostId, UserId};

/// How long sockets may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1_500);

/// How long the answer of another node may take, besides the time for its sockets.
const TRANSFER_TIMEOUT: Duration = Duration::from_millis(500);

/// The answers of nodes that may wait to be read.
const MAX_ANSWERS: usize = 256;

/// Pings the sockets of this node.
#[async_trait]
pub trait SocketProbe: Send + Sync {
    /// Pings the sockets that have been subscribed to the timelines of these users since before these posts. Returns
    /// the posts with a socket that answers in time. Returns early if all have one, or no socket is left to wait for.
    async fn readers(&self, posts: &[(UserId, PostId)], within: Duration) -> Vec<(UserId, PostId)>;
}

/// What was taken live, of the items of a batch.
#[derive(Debug, Default)]
pub(crate) struct LiveDeliveries {
    /// The state in which notifications were taken.
    notifications: HashMap<(UserId, NotificationId), Millis>,
    /// Posts with a socket that has them.
    posts: HashSet<(UserId, PostId)>,
}

impl LiveDeliveries {
    /// Whether the user took the notification in its present state.
    pub(crate) fn has_notification(&self, user: &UserId, notification: &Notification) -> bool {
        let taken = self.notifications.get(&(user.clone(), notification.id));
        taken.is_some_and(|updated_at| *updated_at >= notification.updated_at)
    }

    /// Whether a socket with the user's timeline answers, and was there before the post.
    pub(crate) fn has_post(&self, user: &UserId, post: PostId) -> bool {
        self.posts.contains(&(user.clone(), post))
    }

    fn add(&mut self, taken: LiveItemsTaken) {
        for (user, id, updated_at) in taken.notifications {
            let state = self.notifications.entry((user, id)).or_default();
            *state = updated_at.max(*state);
        }
        self.posts.extend(taken.posts);
    }
}

/// Finds what was taken live, on any node.
pub(crate) struct LiveSockets {
    base: Arc<Base>,
    /// `None`: there are no pushes.
    receipts: Option<Arc<DeliveryReceipts>>,
    local: OnceLock<Arc<dyn SocketProbe>>,
    /// Receives the answers of other nodes, by request.
    waiting: Mutex<HashMap<String, mpsc::Sender<LiveItemsTaken>>>,
}

impl LiveSockets {
    /// Asks this node, and the other nodes of this broker.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        let longest_wait = |plan: PushPlan| Duration::from_millis(plan.grace.max(plan.digest));
        let receipts = |plan| Arc::new(DeliveryReceipts::new(longest_wait(plan)));
        let receipts = base.options.pushes.plan.map(receipts);
        Self { base, receipts, local: OnceLock::new(), waiting: Mutex::default() }
    }

    /// Sets the sockets of this node, once.
    pub(crate) fn set_local(&self, probe: Arc<dyn SocketProbe>) {
        let _ = self.local.set(probe);
    }

    /// The receipts of this node; `None`: there are no pushes.
    pub(crate) fn receipts(&self) -> Option<&Arc<DeliveryReceipts>> {
        self.receipts.as_ref()
    }

    /// Finds which of these items were taken live. Takes up to two seconds if there are posts, otherwise no longer than
    /// other nodes take for an answer.
    pub(crate) async fn taken(&self, items: LiveItems) -> LiveDeliveries {
        let mut found = LiveDeliveries::default();
        if items.notifications.is_empty() && items.posts.is_empty() {
            return found;
        }
        if !self.base.options.pushes.several_nodes {
            found.add(self.taken_here(&items).await);
            return found;
        }
        let (here, elsewhere) = tokio::join!(self.taken_here(&items), self.taken_elsewhere(&items));
        found.add(here);
        elsewhere.into_iter().for_each(|taken| found.add(taken));
        found
    }

    async fn taken_here(&self, items: &LiveItems) -> LiveItemsTaken {
        let posts = match self.local.get() {
            Some(probe) if !items.posts.is_empty() => probe.readers(&items.posts, ANSWER_TIMEOUT).await,
            _ => Vec::new(),
        };
        let taken = |(user, id): &(UserId, NotificationId)| {
            let updated_at = self.receipts.as_ref()?.get(user, *id)?;
            Some((user.clone(), *id, updated_at))
        };
        LiveItemsTaken { notifications: items.notifications.iter().filter_map(taken).collect(), posts }
    }

    /// Asks the other nodes.
    async fn taken_elsewhere(&self, items: &LiveItems) -> Vec<LiveItemsTaken> {
        let request = uuid::Uuid::new_v4().simple().to_string();
        let (sender, mut answers) = mpsc::channel(MAX_ANSWERS);
        self.waiting.lock().insert(request.clone(), sender);
        let mut found = Vec::new();
        let signal = Signal::ProbeSockets { request: request.clone(), items: items.clone() };
        match self.base.broker.signal(signal).await {
            Err(error) => tracing::debug!(%error, "other nodes are not asked for live sockets"),
            Ok(receivers) => {
                let within = if items.posts.is_empty() { Duration::ZERO } else { ANSWER_TIMEOUT };
                let ends = Instant::now() + within + TRANSFER_TIMEOUT;
                // Every other node answers once. This one has received the signal as well.
                let mut missing = receivers.saturating_sub(1);
                while missing > 0
                    && let Ok(Some(taken)) = timeout_at(ends, answers.recv()).await
                {
                    found.push(taken);
                    missing -= 1;
                }
            }
        }
        self.waiting.lock().remove(&request);
        found
    }

    /// Answers the request of another node, also with nothing: that node waits for all answers.
    pub(crate) fn on_probe(self: &Arc<Self>, request: String, items: LiveItems) {
        if self.waiting.lock().contains_key(&request) {
            return;
        }
        let live = Arc::clone(self);
        self.base.runtime.spawn(async move {
            let items = live.taken_here(&items).await;
            let answer = Signal::SocketsAnswered { request, items };
            if let Err(error) = live.base.broker.signal(answer).await {
                tracing::debug!(%error, "live sockets are not reported");
            }
        });
    }

    /// Takes the answer of another node.
    pub(crate) fn on_answer(&self, request: &str, items: LiveItemsTaken) {
        let sender = self.waiting.lock().get(request).cloned();
        if let Some(sender) = sender {
            // It is full only if there are more nodes than answers that are waited for at a time.
            let _ = sender.try_send(items);
        }
    }
}
