//! Hearing from Redis: one connection that subscribes, and a task that owns it.
//!
//! The task has three inputs: wishes to subscribe or not, the loss of its connection, and the clock of the probe. It
//! owns the set of channels wanted; hints go straight from the connection to the listener. A connection that looks
//! alive but is silent is found by the node's own voice: what it publishes to itself must come back.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::MissedTickBehavior;
use tokio_util::task::AbortOnDropHandle;

use super::commands::{BackOff, Commands, Endpoint};
use super::hint::Hint;
use super::invalidation_log::InvalidationLog;
use super::keys::Keys;
use crate::broker::{BrokerError, Listener, Result, Signal, new_epoch};

/// Wishes that may wait, and how many are taken at once.
const WISHES: usize = 4096;
const BATCH: usize = 512;

/// This many of the node's own messages may be missing before the connection counts as stalled.
const UNANSWERED: u32 = 2;

const NOT_CONNECTED: &str = "not connected, trying to";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    Subscribe,
    Unsubscribe,
}

struct Request {
    wish: Wish,
    channel: Box<str>,
    done: oneshot::Sender<Result<()>>,
}

/// The listener, once it is known.
pub(super) type Audience = Arc<OnceLock<Arc<dyn Listener>>>;

/// The handle to the task.
pub(super) struct PubSub {
    requests: mpsc::Sender<Request>,
    timeout: Duration,
    hearing: Arc<AtomicBool>,
    _task: AbortOnDropHandle<()>,
}

impl PubSub {
    /// Connects and starts the task. Fails if the first connection does: later ones come back by themselves.
    pub(super) async fn connect(
        endpoint: Arc<Endpoint>,
        commands: Arc<Commands>,
        keys: Keys,
        probe_every: Duration,
        invalidations: Arc<InvalidationLog>,
        audience: Audience,
    ) -> Result<Self> {
        let (requests, wishes) = mpsc::channel(WISHES);
        let timeout = endpoint.timeout;
        let probe = keys.probe(&new_epoch());
        let route = Route { keys, probe: probe.into(), audience, of_log: invalidations.channels(), invalidations };
        let hearing = Arc::new(AtomicBool::new(true));
        let of = Arc::clone(&hearing);
        let ear = Ear { endpoint, commands, route, probe_every, wishes, wanted: HashSet::new(), hearing: of };
        let mut line = Line::connect(Arc::clone(&ear.endpoint), ear.route.clone()).await?;
        ear.subscribe_all(&mut line).await?;
        let task = AbortOnDropHandle::new(tokio::spawn(ear.run(line)));
        Ok(Self { requests, timeout, hearing, _task: task })
    }

    /// Fails while nothing can be heard and no channel subscribed to.
    pub(super) fn check(&self) -> Result<()> {
        let hearing = self.hearing.load(Ordering::Acquire);
        if hearing { Ok(()) } else { Err(BrokerError::Unreachable(NOT_CONNECTED.to_owned())) }
    }

    /// Returns when hints of the channel flow.
    pub(super) async fn subscribe(&self, channel: &str) -> Result<()> {
        self.wish(Wish::Subscribe, channel).await
    }

    /// Returns when hints of the channel do not flow any more.
    pub(super) async fn unsubscribe(&self, channel: &str) -> Result<()> {
        self.wish(Wish::Unsubscribe, channel).await
    }

    async fn wish(&self, wish: Wish, channel: &str) -> Result<()> {
        let (done, answer) = oneshot::channel();
        let request = Request { wish, channel: channel.into(), done };
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

/// Where what is heard goes.
#[derive(Clone)]
struct Route {
    keys: Keys,
    /// Where the node publishes to itself.
    probe: Arc<str>,
    audience: Audience,
    invalidations: Arc<InvalidationLog>,
    /// The channels of the invalidation log: invalidations, and confirmations for this node.
    of_log: [String; 2],
}

/// A connection that hears.
struct Line {
    connection: MultiplexedConnection,
    signs: Arc<Signs>,
}

/// What a connection tells of itself.
#[derive(Default)]
struct Signs {
    /// It is lost.
    lost: Notify,
    /// How many of the node's own messages have not come back.
    unanswered: AtomicU32,
}

impl Line {
    async fn connect(endpoint: Arc<Endpoint>, route: Route) -> Result<Self> {
        let signs = Arc::new(Signs::default());
        let of = Arc::clone(&signs);
        let (connection, _) = endpoint.connect(move |push| route.push(&of, push)).await?;
        Ok(Self { connection, signs })
    }
}

impl Route {
    /// Takes a message to the listener. Runs in the connection's own task.
    fn push(&self, signs: &Signs, push: PushInfo) {
        match push.kind {
            PushKind::Disconnection => signs.lost.notify_one(),
            PushKind::Message => {
                let mut data = push.data.into_iter();
                if let (Some(Value::BulkString(to)), Some(Value::BulkString(said))) = (data.next(), data.next()) {
                    self.message(signs, &to, &said.into());
                }
            }
            _ => {}
        }
    }

    fn message(&self, signs: &Signs, to: &[u8], said: &Bytes) {
        let Ok(to) = std::str::from_utf8(to) else { return };
        if to == &*self.probe {
            signs.unanswered.store(0, Ordering::Relaxed);
            return;
        }
        let [invalidations, confirmations] = &self.of_log;
        if to == invalidations {
            return self.invalidations.on_published(said);
        }
        if to == confirmations {
            return self.invalidations.on_confirmation(said);
        }
        let Some(listener) = self.audience.get() else { return };
        let Some(channel) = self.keys.channel(to) else {
            if let Some(signal) = Signal::decode(said) {
                listener.signal(signal);
            }
            return;
        };
        match Hint::decode(said) {
            Some(Hint::Entry(position, entry)) => listener.entry(channel, position.as_ref(), &entry),
            Some(Hint::Notice(notice)) => listener.notice(channel, &notice),
            // Written by a newer version: whoever cares sees the gap.
            None => {}
        }
    }
}

/// The task's state.
struct Ear {
    endpoint: Arc<Endpoint>,
    commands: Arc<Commands>,
    route: Route,
    probe_every: Duration,
    wishes: mpsc::Receiver<Request>,
    /// What the connection subscribes to, and the next one will.
    wanted: HashSet<Box<str>>,
    /// Whether there is a connection.
    hearing: Arc<AtomicBool>,
}

impl Ear {
    async fn run(mut self, mut line: Line) {
        loop {
            self.serve(&mut line).await;
            // What comes of it is taken up by the reconnect; meanwhile nothing must arrive by the old way.
            drop(line);
            self.hearing.store(false, Ordering::Release);
            line = self.reconnect().await;
            self.hearing.store(true, Ordering::Release);
            tracing::info!(channels = self.wanted.len(), "hearing redis again");
            if let Some(listener) = self.route.audience.get() {
                listener.resync();
            }
        }
    }

    async fn subscribe_all(&self, line: &mut Line) -> Result<()> {
        let own = [self.route.keys.signal(), self.route.probe.to_string()];
        let wanted = self.wanted.iter().map(|channel| self.route.keys.hints(channel));
        let names: Vec<String> = own.into_iter().chain(self.route.of_log.clone()).chain(wanted).collect();
        for batch in names.chunks(BATCH) {
            self.endpoint.in_time(line.connection.subscribe(batch)).await?;
        }
        Ok(())
    }

    /// Hears until the connection is lost, or as good as.
    async fn serve(&mut self, line: &mut Line) {
        let mut clock = tokio::time::interval(self.probe_every);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut probing: Option<AbortOnDropHandle<()>> = None;
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            tokio::select! {
                () = line.signs.lost.notified() => {
                    tracing::warn!("lost the connection that hears redis");
                    return;
                }
                taken = self.wishes.recv_many(&mut batch, BATCH) => {
                    if taken == 0 {
                        // The handle is gone; the task is about to be.
                        return std::future::pending().await;
                    }
                    if let Err(error) = self.grant(line, &mut batch).await {
                        tracing::warn!(%error, "cannot subscribe, connecting anew");
                        return;
                    }
                }
                _ = clock.tick() => {
                    if line.signs.unanswered.fetch_add(1, Ordering::Relaxed) >= UNANSWERED {
                        tracing::warn!("redis pub/sub has fallen silent, connecting anew");
                        return;
                    }
                    if probing.as_ref().is_none_or(|probe| probe.is_finished()) {
                        probing = Some(self.probe());
                    }
                }
            }
        }
    }

    /// Publishes to itself, by the way that everybody else's messages come.
    fn probe(&self) -> AbortOnDropHandle<()> {
        let commands = Arc::clone(&self.commands);
        let to = Arc::clone(&self.route.probe);
        AbortOnDropHandle::new(tokio::spawn(async move {
            // If it fails, its echo is missing, which is what counts.
            let _ = commands.ask(redis::cmd("PUBLISH").arg(&*to).arg("")).await;
        }))
    }

    /// Does what was asked for, in the order asked, in as few commands as that allows.
    async fn grant(&mut self, line: &mut Line, batch: &mut Vec<Request>) -> Result<()> {
        let mut failed = None;
        while let Some(first) = batch.first() {
            let wish = first.wish;
            let same = batch.iter().position(|request| request.wish != wish).unwrap_or(batch.len());
            let group: Vec<Request> = batch.drain(..same).collect();
            if failed.is_none() {
                failed = self.grant_same(line, wish, &group).await.err().map(|error| error.to_string());
            }
            for request in group {
                let answer = failed.clone().map_or(Ok(()), |why| Err(BrokerError::Unreachable(why)));
                // Whoever asked may have given up.
                let _ = request.done.send(answer);
            }
        }
        failed.map_or(Ok(()), |why| Err(BrokerError::Unreachable(why)))
    }

    async fn grant_same(&mut self, line: &mut Line, wish: Wish, group: &[Request]) -> Result<()> {
        // Known already, or asked for twice, there is nothing to do.
        let news = |request: &&Request| match wish {
            Wish::Subscribe => self.wanted.insert(request.channel.clone()),
            Wish::Unsubscribe => self.wanted.remove(&request.channel),
        };
        let new: Vec<&Request> = group.iter().filter(news).collect();
        if new.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = new.iter().map(|request| self.route.keys.hints(&request.channel)).collect();
        let connection = &mut line.connection;
        match wish {
            Wish::Subscribe => {
                let answer = self.endpoint.in_time(connection.subscribe(names)).await;
                if answer.is_err() {
                    // Whoever asked is told that it failed, so it must not come back with the connection.
                    new.iter().for_each(|request| _ = self.wanted.remove(&request.channel));
                }
                answer
            }
            Wish::Unsubscribe => self.endpoint.in_time(connection.unsubscribe(names)).await,
        }
    }

    /// Answers while nothing can be heard: giving up a channel works, wanting one does not.
    fn deny(&mut self, batch: &mut Vec<Request>) {
        for request in batch.drain(..) {
            let answer = match request.wish {
                Wish::Subscribe => Err(BrokerError::Unreachable(NOT_CONNECTED.to_owned())),
                Wish::Unsubscribe => {
                    self.wanted.remove(&request.channel);
                    Ok(())
                }
            };
            let _ = request.done.send(answer);
        }
    }

    /// Tries until it hears again on every channel wanted. Wishes are answered meanwhile.
    async fn reconnect(&mut self) -> Line {
        let mut back_off = BackOff::new();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let attempt = {
                let (endpoint, route) = (Arc::clone(&self.endpoint), self.route.clone());
                let mut attempt = std::pin::pin!(async {
                    back_off.pause().await;
                    Line::connect(endpoint, route).await
                });
                loop {
                    tokio::select! {
                        line = &mut attempt => break line,
                        1.. = self.wishes.recv_many(&mut batch, BATCH) => self.deny(&mut batch),
                    }
                }
            };
            let heard = match attempt {
                Ok(mut line) => self.subscribe_all(&mut line).await.map(|()| line),
                Err(error) => Err(error),
            };
            match heard {
                Ok(line) => return line,
                Err(error) => tracing::debug!(%error, "cannot hear redis"),
            }
        }
    }
}
