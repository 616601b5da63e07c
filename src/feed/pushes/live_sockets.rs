//! Users with a socket that answers. A notification that was delivered to a socket is not pushed if the socket shows
//! afterwards that its client is there: by a pong, or by any other frame.
//!
//! A socket whose network died silently stays open for up to half a minute. So before pushes are sent, the sockets of
//! their users are pinged behind everything that was queued for them, on all nodes. Live delivery itself costs nothing
//! more.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::broker::{Broker, Signal};
use crate::feed::runtime::Runtime;
use crate::model::UserId;

/// How long sockets may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1_500);

/// How much longer the answer of another node may take, which has waited for its sockets.
const TRANSFER_TIMEOUT: Duration = Duration::from_millis(500);

/// The answers of nodes that may wait to be read.
const MAX_ANSWERS: usize = 256;

/// Pings the sockets of this node.
#[async_trait]
pub trait SocketProbe: Send + Sync {
    /// Pings all sockets of these users. Returns the users with a socket that answers in time. Returns early if all
    /// users have one, or no socket is left to wait for.
    async fn answering(&self, users: &[UserId], within: Duration) -> Vec<UserId>;
}

/// Finds users with a socket that answers, on any node.
pub(crate) struct LiveSockets {
    broker: Arc<dyn Broker>,
    runtime: Arc<Runtime>,
    /// Whether other nodes may have sockets of a user.
    is_shared: bool,
    local: OnceLock<Arc<dyn SocketProbe>>,
    /// Receives the answers of other nodes, by request.
    waiting: Mutex<HashMap<String, mpsc::Sender<Vec<UserId>>>>,
}

impl LiveSockets {
    /// Asks this node, and with `is_shared` the other nodes of this broker.
    pub(crate) fn new(broker: Arc<dyn Broker>, runtime: Arc<Runtime>, is_shared: bool) -> Self {
        Self { broker, runtime, is_shared, local: OnceLock::new(), waiting: Mutex::default() }
    }

    /// Sets the sockets of this node, once.
    pub(crate) fn set_local(&self, probe: Arc<dyn SocketProbe>) {
        let _ = self.local.set(probe);
    }

    /// The users among these with a socket that answers.
    pub(crate) async fn answering(&self, users: HashSet<UserId>) -> HashSet<UserId> {
        let users: Vec<UserId> = users.into_iter().collect();
        if users.is_empty() {
            return HashSet::new();
        }
        let local = async {
            match self.local.get() {
                Some(probe) => probe.answering(&users, ANSWER_TIMEOUT).await,
                None => Vec::new(),
            }
        };
        if !self.is_shared {
            return local.await.into_iter().collect();
        }
        let (here, elsewhere) = tokio::join!(local, self.elsewhere(&users));
        here.into_iter().chain(elsewhere).collect()
    }

    /// Asks the other nodes.
    async fn elsewhere(&self, users: &[UserId]) -> HashSet<UserId> {
        let request = uuid::Uuid::new_v4().simple().to_string();
        let (sender, mut answers) = mpsc::channel(MAX_ANSWERS);
        self.waiting.lock().insert(request.clone(), sender);
        let mut found = HashSet::new();
        let signal = Signal::ProbeSockets { request: request.clone(), users: users.to_vec() };
        match self.broker.signal(signal).await {
            Err(error) => tracing::debug!(%error, "other nodes are not asked for live sockets"),
            Ok(receivers) => {
                let ends = Instant::now() + ANSWER_TIMEOUT + TRANSFER_TIMEOUT;
                // Every other node answers once. This one has received the signal as well.
                let mut missing = receivers.saturating_sub(1);
                while missing > 0
                    && found.len() < users.len()
                    && let Ok(Some(users)) = timeout_at(ends, answers.recv()).await
                {
                    found.extend(users);
                    missing -= 1;
                }
            }
        }
        self.waiting.lock().remove(&request);
        found
    }

    /// Answers the request of another node, also with no users: that node waits for all answers.
    pub(crate) fn on_probe(&self, request: String, users: Vec<UserId>) {
        if self.waiting.lock().contains_key(&request) {
            return;
        }
        let probe = self.local.get().cloned();
        let broker = Arc::clone(&self.broker);
        self.runtime.spawn(async move {
            let users = match probe {
                Some(probe) => probe.answering(&users, ANSWER_TIMEOUT).await,
                None => Vec::new(),
            };
            if let Err(error) = broker.signal(Signal::SocketsAnswered { request, users }).await {
                tracing::debug!(%error, "live sockets are not reported");
            }
        });
    }

    /// Takes the answer of another node.
    pub(crate) fn on_answer(&self, request: &str, users: Vec<UserId>) {
        let sender = self.waiting.lock().get(request).cloned();
        if let Some(sender) = sender {
            // It is full only if there are more nodes than answers that are waited for at a time.
            let _ = sender.try_send(users);
        }
    }
}
