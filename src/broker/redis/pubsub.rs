//! Pub/sub of Redis: one connection with all subscriptions, and the task that owns it.
//!
//! The task has three inputs: requests to subscribe or unsubscribe, the loss of its connection, and the timer of the
//! probe. It owns the set of subscribed channels; hints go from the connection to the listener directly. The probe
//! detects a connection that is open but delivers nothing: messages that the node publishes to itself must arrive.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::MissedTickBehavior;
use tokio_util::task::AbortOnDropHandle;

use super::command_connections::{Commands, RedisEndpoint, not_connected, reconnect_backoff};
use super::invalidation_log::InvalidationLog;
use super::keys::Keys;
use super::node_hints::Redirector;
use super::router::{ConnectionHealth, ConnectionName, MessageRouter};
use super::subscribed_channels::SubscribedChannels;
use crate::broker::epoch::new_epoch;
use crate::broker::listener::ListenerCell;
use crate::broker::{BrokerError, Result};
use crate::supervisor::{OnPanic, supervise_while_held};

/// Requests that may wait, and requests that are processed at once.
const MAX_REQUESTS: usize = 4096;
const BATCH: usize = 512;

/// Probes that may be missing before the connection counts as stalled.
const MAX_UNANSWERED_PROBES: u32 = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum SubscriptionChange {
    Subscribe,
    Unsubscribe,
}

struct PubSubRequest {
    change: SubscriptionChange,
    channel: Box<str>,
    done: oneshot::Sender<Result<()>>,
}

/// Why there is no connection; `None`: there is one.
type ConnectionFailure = Arc<parking_lot::Mutex<Option<BrokerError>>>;

/// The handle to the task.
pub(super) struct PubSub {
    requests: mpsc::Sender<PubSubRequest>,
    timeout: Duration,
    failure: ConnectionFailure,
    subscriptions: Arc<SubscribedChannels>,
    node: Arc<str>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl PubSub {
    /// Connects and starts the task. Fails if the first connection does; later connections are retried automatically.
    pub(super) async fn connect(
        endpoint: Arc<RedisEndpoint>,
        commands: Arc<Commands>,
        keys: Keys,
        probe_every: Duration,
        invalidations: Arc<InvalidationLog>,
        listener: ListenerCell,
    ) -> Result<Self> {
        let (sender, requests) = mpsc::channel(MAX_REQUESTS);
        let timeout = endpoint.timeout;
        let node: Arc<str> = uuid::Uuid::new_v4().to_string().into();
        let probe = keys.probe(&new_epoch()).into();
        let node_signals = keys.signal(Some(&node)).into();
        let log_channels = invalidations.channels();
        let subscriptions = Arc::new(SubscribedChannels::new());
        let (redirector, redirecting) = Redirector::start(keys.clone(), Arc::clone(&commands));
        let router = MessageRouter {
            keys,
            probe,
            node_signals,
            listener,
            log_channels,
            invalidations,
            subscriptions: Arc::clone(&subscriptions),
            redirector,
            connection: ConnectionName::default(),
        };
        let failure = ConnectionFailure::default();
        let mut task = PubSubTask {
            endpoint,
            commands,
            router,
            probe_every,
            requests,
            failure: Arc::clone(&failure),
            connection: None,
            number: 1,
        };
        let mut connection = PubSubConnection::connect(Arc::clone(&task.endpoint), task.router.of(task.number)).await?;
        task.subscribe_all(&mut connection).await?;
        task.connection = Some(connection);
        let task = Arc::new(Mutex::new(task));
        let task = supervise_while_held("redis_pubsub", task, |task| async move { task.lock().await.run().await });
        Ok(Self { requests: sender, timeout, failure, subscriptions, node, _tasks: [task, redirecting] })
    }

    /// Fails while there is no connection, with the reason.
    pub(super) fn check(&self) -> Result<()> {
        self.failure.lock().clone().map_or(Ok(()), Err)
    }

    /// The name of this node.
    pub(super) fn node(&self) -> &Arc<str> {
        &self.node
    }

    /// The id of the connection that is subscribed to a channel.
    pub(super) fn connection_of(&self, channel: &str) -> Option<String> {
        self.subscriptions.connection_of(channel)
    }

    /// Subscribes to the hints of a channel; returns once Redis has confirmed it.
    pub(super) async fn subscribe(&self, channel: &str) -> Result<()> {
        self.change(SubscriptionChange::Subscribe, channel).await
    }

    /// Ends the subscription; returns once Redis has confirmed it.
    pub(super) async fn unsubscribe(&self, channel: &str) -> Result<()> {
        self.change(SubscriptionChange::Unsubscribe, channel).await
    }

    async fn change(&self, change: SubscriptionChange, channel: &str) -> Result<()> {
        let (done, answer) = oneshot::channel();
        let request = PubSubRequest { change, channel: channel.into(), done };
        let granted = async {
            self.requests.send(request).await.ok()?;
            answer.await.ok()
        };
        match tokio::time::timeout(self.timeout, granted).await {
            Ok(Some(answer)) => answer,
            Ok(None) => Err(BrokerError::Unreachable("shutting down".to_owned())),
            Err(_) => Err(BrokerError::Unreachable(format!("no answer in {:?}", self.timeout))),
        }
    }
}

/// The connection with the subscriptions.
struct PubSubConnection {
    redis: MultiplexedConnection,
    name: ConnectionName,
    health: Arc<ConnectionHealth>,
}

impl PubSubConnection {
    async fn connect(endpoint: Arc<RedisEndpoint>, router: MessageRouter) -> Result<Self> {
        let health = Arc::new(ConnectionHealth::default());
        let of = Arc::clone(&health);
        let name = router.connection.clone();
        let (redis, _) = endpoint.connect(move |push| router.push(&of, push)).await?;
        Ok(Self { redis, name, health })
    }
}

/// The task's state, which outlives its restarts.
struct PubSubTask {
    endpoint: Arc<RedisEndpoint>,
    commands: Arc<Commands>,
    router: MessageRouter,
    probe_every: Duration,
    requests: mpsc::Receiver<PubSubRequest>,
    failure: ConnectionFailure,
    /// The connection before it is served. A restarted task opens another one.
    connection: Option<PubSubConnection>,
    /// The number of the latest connection.
    number: u64,
}

impl PubSubTask {
    async fn run(&mut self) {
        loop {
            if let Some(mut connection) = self.connection.take() {
                let failure = Arc::clone(&self.failure);
                let _lost = OnPanic(|| *failure.lock() = Some(not_connected()));
                self.serve(&mut connection).await;
                // Nothing may arrive by the old connection while the new one subscribes.
                drop(connection);
                *self.failure.lock() = Some(not_connected());
            }
            self.connection = Some(self.reconnect().await);
            *self.failure.lock() = None;
            tracing::debug!("connected the pub/sub of redis again");
            if let Some(listener) = self.router.listener.get() {
                listener.resync();
            }
        }
    }

    async fn subscribe_all(&self, connection: &mut PubSubConnection) -> Result<()> {
        let router = &self.router;
        let mut own = vec![router.keys.signal(None), router.node_signals.to_string(), router.probe.to_string()];
        own.push(connection.name.channel.to_string());
        own.extend(self.router.log_channels.clone());
        self.endpoint.in_time(connection.redis.subscribe(own)).await?;
        for batch in self.router.subscriptions.all().chunks(BATCH) {
            let names: Vec<String> = batch.iter().map(|channel| self.router.keys.hints(channel)).collect();
            self.endpoint.in_time(connection.redis.subscribe(names)).await?;
            batch.iter().for_each(|channel| self.router.subscriptions.confirm(channel, connection.name.number));
        }
        Ok(())
    }

    /// Serves requests until the connection is lost or stalled.
    async fn serve(&mut self, connection: &mut PubSubConnection) {
        let mut clock = tokio::time::interval(self.probe_every);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut probing: Option<AbortOnDropHandle<()>> = None;
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            tokio::select! {
                () = connection.health.lost.notified() => {
                    tracing::debug!("lost the pub/sub connection to redis");
                    return;
                }
                taken = self.requests.recv_many(&mut batch, BATCH) => {
                    if taken == 0 {
                        // The handle was dropped; the task ends soon.
                        return std::future::pending().await;
                    }
                    if let Err(error) = self.apply(connection, &mut batch).await {
                        tracing::warn!(%error, "cannot subscribe, reconnecting");
                        return;
                    }
                }
                _ = clock.tick() => {
                    if connection.health.unanswered.fetch_add(1, Ordering::Relaxed) >= MAX_UNANSWERED_PROBES {
                        tracing::warn!("redis pub/sub delivers nothing, reconnecting");
                        return;
                    }
                    if probing.as_ref().is_none_or(|probe| probe.is_finished()) {
                        probing = Some(self.probe());
                    }
                }
            }
        }
    }

    /// Publishes a probe, which arrives like the messages of other nodes.
    fn probe(&self) -> AbortOnDropHandle<()> {
        let commands = Arc::clone(&self.commands);
        let to = Arc::clone(&self.router.probe);
        AbortOnDropHandle::new(tokio::spawn(async move {
            // If it fails, the probe is missing.
            let _ = commands.send(redis::cmd("PUBLISH").arg(&*to).arg("")).await;
        }))
    }

    /// Processes requests in their order, with as few commands as possible.
    async fn apply(&mut self, connection: &mut PubSubConnection, batch: &mut Vec<PubSubRequest>) -> Result<()> {
        let mut failed = None;
        while let Some(first) = batch.first() {
            let change = first.change;
            let same = batch.iter().position(|request| request.change != change).unwrap_or(batch.len());
            let group: Vec<PubSubRequest> = batch.drain(..same).collect();
            if failed.is_none() {
                failed = self.apply_group(connection, change, &group).await.err().map(|error| error.to_string());
            }
            for request in group {
                let answer = failed.clone().map_or(Ok(()), |why| Err(BrokerError::Unreachable(why)));
                // The caller may have given up.
                let _ = request.done.send(answer);
            }
        }
        failed.map_or(Ok(()), |why| Err(BrokerError::Unreachable(why)))
    }

    async fn apply_group(
        &mut self,
        connection: &mut PubSubConnection,
        change: SubscriptionChange,
        group: &[PubSubRequest],
    ) -> Result<()> {
        // Repeated requests need no command.
        let subscriptions = &self.router.subscriptions;
        let news = |request: &&PubSubRequest| match change {
            SubscriptionChange::Subscribe => subscriptions.add(&request.channel),
            SubscriptionChange::Unsubscribe => subscriptions.remove(&request.channel),
        };
        let new: Vec<&PubSubRequest> = group.iter().filter(news).collect();
        if new.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = new.iter().map(|request| self.router.keys.hints(&request.channel)).collect();
        let redis = &mut connection.redis;
        match change {
            SubscriptionChange::Subscribe => {
                let answer = self.endpoint.in_time(redis.subscribe(names)).await;
                new.iter().for_each(|request| match &answer {
                    Ok(()) => subscriptions.confirm(&request.channel, connection.name.number),
                    // The caller receives the error, so the next connection must not subscribe.
                    Err(_) => _ = subscriptions.remove(&request.channel),
                });
                answer
            }
            SubscriptionChange::Unsubscribe => self.endpoint.in_time(redis.unsubscribe(names)).await,
        }
    }

    /// Answers requests while there is no connection: unsubscribing succeeds, subscribing fails.
    fn reject(&mut self, batch: &mut Vec<PubSubRequest>) {
        for request in batch.drain(..) {
            let answer = match request.change {
                SubscriptionChange::Subscribe => self.failure.lock().clone().map_or_else(|| Err(not_connected()), Err),
                SubscriptionChange::Unsubscribe => {
                    self.router.subscriptions.remove(&request.channel);
                    Ok(())
                }
            };
            let _ = request.done.send(answer);
        }
    }

    /// Reconnects and subscribes to all channels. Requests are answered in the meantime.
    async fn reconnect(&mut self) -> PubSubConnection {
        let mut backoff = reconnect_backoff();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            self.number += 1;
            let attempt = {
                let endpoint = Arc::clone(&self.endpoint);
                let router = self.router.of(self.number);
                let mut attempt = std::pin::pin!(async {
                    tokio::time::sleep(backoff.next_delay()).await;
                    PubSubConnection::connect(endpoint, router).await
                });
                loop {
                    tokio::select! {
                        connection = &mut attempt => break connection,
                        1.. = self.requests.recv_many(&mut batch, BATCH) => self.reject(&mut batch),
                    }
                }
            };
            let subscribed = match attempt {
                Ok(mut connection) => self.subscribe_all(&mut connection).await.map(|()| connection),
                Err(error) => Err(error),
            };
            match subscribed {
                Ok(connection) => return connection,
                Err(error) => {
                    tracing::debug!(%error, "cannot connect to redis pub/sub");
                    *self.failure.lock() = Some(error);
                }
            }
        }
    }
}
