//! Questions to all nodes, for backends: which nodes there are, and which channels have subscribers.
//!
//! The node that is asked sends a signal, and collects the answers of as many nodes as received it, for a bounded time.
//! A node that does not answer in time is missing from the result.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout_at;
use tokio_util::task::TaskTracker;

use super::process_usage::ProcessUsage;
use crate::broker::{Broker, NodeAnswer, NodeInfo, NodeQuestion, Signal};
use crate::feed::FeedError;
use crate::gateway::channels::pattern::ChannelPattern;
use crate::gateway::hub::rooms::RoomTable;
use crate::gateway::registry::connections::ConnectionRegistry;
use crate::gateway::registry::sockets::UserSockets;
use crate::gateway::session::VERSION;
use crate::model::PostId;

/// How long nodes may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The most nodes whose answers are collected: as many as there are node numbers.
const MAX_NODES: usize = PostId::NODES as usize;

/// The most channels of one node's answer. It passes through the broker's pub/sub.
const MAX_CHANNELS: usize = 10_000;

/// Questions that a node answers or asks at once; more of other nodes are not answered.
const MAX_CONCURRENT: usize = 4;

/// Asks all nodes, and answers for this node.
pub struct NodeSurvey {
    broker: Arc<dyn Broker>,
    connections: Arc<ConnectionRegistry>,
    sockets: Arc<UserSockets>,
    rooms: Arc<RoomTable>,
    tasks: TaskTracker,
    uid: String,
    name: String,
    started: Instant,
    asking: Semaphore,
    answering: Arc<Semaphore>,
    /// Receives the answers, by request.
    waiting: Mutex<HashMap<String, mpsc::Sender<NodeAnswer>>>,
}

impl NodeSurvey {
    /// A survey of the nodes of this broker. `name` is that of this node, for people.
    pub(crate) fn new(
        name: String,
        broker: Arc<dyn Broker>,
        connections: Arc<ConnectionRegistry>,
        sockets: Arc<UserSockets>,
        rooms: Arc<RoomTable>,
        tasks: TaskTracker,
    ) -> Self {
        Self {
            connections,
            sockets,
            rooms,
            tasks,
            uid: broker.node().to_string(),
            broker,
            name,
            started: Instant::now(),
            asking: Semaphore::new(MAX_CONCURRENT),
            answering: Arc::new(Semaphore::new(MAX_CONCURRENT)),
            waiting: Mutex::default(),
        }
    }

    /// All nodes that answer, by name.
    ///
    /// # Errors
    /// If the broker cannot be reached.
    pub async fn nodes(&self) -> Result<Vec<NodeInfo>, FeedError> {
        let answers = self.ask(NodeQuestion::Info).await?;
        let info = |answer| match answer {
            NodeAnswer::Info(info) => Some(info),
            NodeAnswer::Channels(_) => None,
        };
        let mut nodes: Vec<NodeInfo> = answers.into_iter().filter_map(info).collect();
        nodes.sort_by(|one, other| (&one.name, &one.uid).cmp(&(&other.name, &other.uid)));
        Ok(nodes)
    }

    /// The channels with subscribers on any node whose names match a pattern, with the number of subscribers. Of each
    /// node at most 10,000 channels.
    ///
    /// # Errors
    /// If the broker cannot be reached.
    pub async fn channels(&self, pattern: &str) -> Result<BTreeMap<String, u64>, FeedError> {
        let mut all: BTreeMap<String, u64> = BTreeMap::new();
        for answer in self.ask(NodeQuestion::Channels(pattern.to_owned())).await? {
            let NodeAnswer::Channels(channels) = answer else { continue };
            for (channel, subscribers) in channels {
                *all.entry(channel).or_default() += subscribers;
            }
        }
        Ok(all)
    }

    async fn ask(&self, question: NodeQuestion) -> Result<Vec<NodeAnswer>, FeedError> {
        let _permit = self.asking.acquire().await.map_err(|_| FeedError::Unavailable)?;
        let request = uuid::Uuid::new_v4().simple().to_string();
        let (sender, mut answers) = mpsc::channel(MAX_NODES);
        let waiting = WaitingRequest { survey: self, request: request.clone() };
        self.waiting.lock().insert(request.clone(), sender);
        let receivers = self.broker.signal(Signal::AskNodes { request, question }).await?;
        let ends = tokio::time::Instant::now() + ANSWER_TIMEOUT;
        let mut found = Vec::new();
        while (found.len() as u64) < receivers
            && found.len() < MAX_NODES
            && let Ok(Some(answer)) = timeout_at(ends, answers.recv()).await
        {
            found.push(answer);
        }
        drop(waiting);
        Ok(found)
    }

    /// Answers the question of a node.
    pub(crate) fn on_question(self: &Arc<Self>, request: String, question: NodeQuestion) {
        let Ok(permit) = Arc::clone(&self.answering).try_acquire_owned() else {
            tracing::debug!("too many questions of other nodes");
            return;
        };
        let survey = Arc::clone(self);
        self.tasks.spawn(async move {
            let _permit = permit;
            let Some(answer) = survey.answer(&question) else { return };
            // The answer to a question of this node needs no detour.
            if survey.take_answer(&request, &answer) {
                return;
            }
            if let Err(error) = survey.broker.signal(Signal::NodeAnswered { request, answer }).await {
                tracing::debug!(%error, "a question of another node is not answered");
            }
        });
    }

    /// Takes the answer of a node.
    pub(crate) fn on_answer(&self, request: &str, answer: &NodeAnswer) {
        self.take_answer(request, answer);
    }

    /// Whether the request is of this node.
    fn take_answer(&self, request: &str, answer: &NodeAnswer) -> bool {
        let Some(sender) = self.waiting.lock().get(request).cloned() else { return false };
        // If the channel is full, more nodes answer than there can be.
        let _ = sender.try_send(answer.clone());
        true
    }

    fn answer(&self, question: &NodeQuestion) -> Option<NodeAnswer> {
        Some(match question {
            NodeQuestion::Info => NodeAnswer::Info(self.info()),
            NodeQuestion::Channels(pattern) => {
                NodeAnswer::Channels(self.rooms.subscribed(&ChannelPattern::parse(pattern)?, MAX_CHANNELS))
            }
        })
    }
}

impl NodeSurvey {
    fn info(&self) -> NodeInfo {
        let ProcessUsage { cpu_millis, memory } = ProcessUsage::read();
        NodeInfo {
            uid: self.uid.clone(),
            name: self.name.clone(),
            version: VERSION.to_owned(),
            clients: self.connections.len() as u64,
            users: self.sockets.users() as u64,
            channels: self.rooms.len() as u64,
            subscriptions: self.rooms.subscriptions() as u64,
            uptime: self.started.elapsed().as_secs(),
            cpu_millis,
            memory,
        }
    }
}

/// Removes the request when it is dropped, whether it was answered or cancelled.
struct WaitingRequest<'a> {
    survey: &'a NodeSurvey,
    request: String,
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.survey.waiting.lock().remove(&self.request);
    }
}
