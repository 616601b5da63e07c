//! A broker of either kind with a listener.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use feedline::broker::{
    Append, AppendOutcome, Broker, FanOut, FannedOut, InboxOptions, InboxState, JobAttempt, MemoryBroker,
    MessageListener, PageRecipients, PresenceEvent, Receipt, RedisBroker, RedisOptions, Signal,
};
use feedline::ledger::JobId;
use feedline::model::{Entry, Epoch, InboxId, Position, PositionRef, PostId, Retention, UserId};
use tokio::sync::mpsc;

use crate::redis_server::RedisServer;

/// Maximum number of entries of an inbox in these tests.
pub(crate) const LENGTH: u64 = 50;

/// The longest time that any operation may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The inbox of a user's timeline.
pub(crate) fn timeline(user: &UserId) -> InboxId {
    InboxId::Timeline(user.clone())
}

pub(crate) fn timelines(users: &[UserId]) -> Vec<InboxId> {
    users.iter().map(timeline).collect()
}

/// One notification that the listener received.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Entry(String, Option<Position>, Entry),
    Notice(String, PresenceEvent),
    Signal(Signal),
    Resync,
}

struct TestListener(mpsc::UnboundedSender<Heard>);

impl TestListener {
    fn hear(&self, heard: Heard) {
        // The test may have ended.
        let _ = self.0.send(heard);
    }
}

impl MessageListener for TestListener {
    fn entry(&self, channel: &str, position: Option<PositionRef<'_>>, entry: &Entry) {
        self.hear(Heard::Entry(channel.to_owned(), position.map(PositionRef::to_position), entry.clone()));
    }

    fn presence_event(&self, channel: &str, notice: &PresenceEvent) {
        self.hear(Heard::Notice(channel.to_owned(), notice.clone()));
    }

    fn signal(&self, signal: Signal) {
        self.hear(Heard::Signal(signal));
    }

    fn resync(&self) {
        self.hear(Heard::Resync);
    }
}

/// A broker, the notifications that its listener received, and the Redis server, if any.
pub(crate) struct Engine {
    pub(crate) broker: Arc<dyn Broker>,
    pub(crate) heard: mpsc::UnboundedReceiver<Heard>,
    pub(crate) server: Option<RedisServer>,
    memory: Option<Arc<MemoryBroker>>,
    inbox: InboxOptions,
}

pub(crate) fn inbox_options() -> InboxOptions {
    InboxOptions { length: LENGTH, idle: Duration::from_secs(3600) }
}

/// Options with timeouts long enough for a busy machine, but not for an unresponsive server.
pub(crate) fn redis_options(server: &RedisServer) -> RedisOptions {
    RedisOptions {
        url: server.url(),
        timeout: Duration::from_secs(2),
        prefix: "feedline".to_owned(),
        inbox: inbox_options(),
        probe_every: Duration::from_millis(300),
    }
}

impl Engine {
    pub(crate) fn memory() -> Self {
        Self::of_memory(MemoryBroker::new(inbox_options()), inbox_options())
    }

    fn of_memory(broker: MemoryBroker, inbox: InboxOptions) -> Self {
        let broker = Arc::new(broker);
        Self { memory: Some(Arc::clone(&broker)), ..Self::listening(broker, None, inbox) }
    }

    pub(crate) async fn redis() -> Self {
        let server = RedisServer::start();
        let options = redis_options(&server);
        Self::redis_with(server, options).await
    }

    pub(crate) async fn redis_with(server: RedisServer, options: RedisOptions) -> Self {
        let inbox = options.inbox;
        let broker = RedisBroker::connect(options).await.expect("to connect");
        Self::listening(Arc::new(broker), Some(server), inbox)
    }

    /// A new, empty broker of the same kind with other inbox options.
    pub(crate) async fn with_inboxes(self, inbox: InboxOptions) -> Self {
        let Some(server) = self.server else {
            return Self::of_memory(MemoryBroker::new(inbox), inbox);
        };
        let options = RedisOptions { inbox, ..redis_options(&server) };
        Self::redis_with(server, options).await
    }

    /// Another node on the same Redis.
    pub(crate) async fn beside(&self) -> Self {
        let server = self.server.as_ref().expect("a test of Redis");
        let options = RedisOptions { inbox: self.inbox, ..redis_options(server) };
        let broker = RedisBroker::connect(options).await.expect("to connect");
        Self::listening(Arc::new(broker), None, self.inbox)
    }

    fn listening(broker: Arc<dyn Broker>, server: Option<RedisServer>, inbox: InboxOptions) -> Self {
        let (sender, heard) = mpsc::unbounded_channel();
        broker.listen(Arc::new(TestListener(sender)));
        Self { broker, heard, server, memory: None, inbox }
    }

    /// A new, empty broker of the same kind with another TTL for positions.
    pub(crate) async fn with_position_ttl(self, ttl: Duration) -> Self {
        let Some(server) = self.server else {
            return Self::of_memory(MemoryBroker::new(self.inbox).with_position_ttl(ttl), self.inbox);
        };
        let broker = RedisBroker::connect(redis_options(&server)).await.expect("to connect").with_position_ttl(ttl);
        Self::listening(Arc::new(broker), Some(server), self.inbox)
    }

    /// Number of stored items: keys of topics in Redis, channels in memory.
    pub(crate) fn kept(&self) -> u64 {
        match (&self.server, &self.memory) {
            (Some(server), _) => {
                let count = server.ask(r#"EVAL "return #redis.call('KEYS', '*:{topic:*')" 0"#);
                count.trim_start_matches(':').parse().expect("a number")
            }
            (None, Some(memory)) => memory.channels() as u64,
            (None, None) => panic!("an engine without a broker"),
        }
    }

    pub(crate) fn server(&mut self) -> &mut RedisServer {
        self.server.as_mut().expect("a test of Redis")
    }

    pub(crate) fn length(&self) -> u64 {
        self.inbox.length
    }

    /// The next notification.
    pub(crate) async fn hear(&mut self) -> Heard {
        let heard = tokio::time::timeout(PATIENCE, self.heard.recv()).await;
        heard.expect("a notification before the timeout").expect("the listener is open")
    }

    /// All notifications so far: sends a signal and reads up to it.
    pub(crate) async fn all_pushes(&mut self) -> Vec<Heard> {
        self.broker.signal(Signal::EventsWritten).await.expect("a signal");
        let mut all = Vec::new();
        loop {
            match self.hear().await {
                Heard::Signal(_) => return all,
                heard => all.push(heard),
            }
        }
    }

    pub(crate) async fn append(&self, channel: &str, text: &'static str) -> AppendOutcome {
        let entry = data(text);
        self.broker.append(Append { channel, ..to(&entry) }).await.expect("append succeeds")
    }

    /// Opens an inbox and fills it without posts.
    pub(crate) async fn open(&self, user: &UserId) -> Position {
        self.open_with(user, &[]).await
    }

    /// Opens an inbox and fills it with posts.
    pub(crate) async fn open_with(&self, user: &UserId, past: &[u64]) -> Position {
        let epoch = self.open_unfilled(user).await;
        self.fill(user, &epoch, past, 0).await.expect("the inbox exists")
    }

    pub(crate) async fn open_unfilled(&self, user: &UserId) -> Epoch {
        match self.broker.open_inbox(&timeline(user)).await.expect("open_inbox succeeds") {
            InboxState::Unfilled(epoch) => epoch,
            InboxState::Ready(..) => panic!("the inbox is already filled"),
        }
    }

    pub(crate) async fn fill(&self, user: &UserId, epoch: &Epoch, past: &[u64], floor: u64) -> Option<Position> {
        let past = ids(past);
        self.broker.fill_inbox(&timeline(user), epoch, &past, PostId(floor), 0).await.expect("fill_inbox succeeds")
    }

    /// The first attempt at a job.
    pub(crate) fn attempt(&self, job: u64) -> JobAttempt {
        JobAttempt { job: JobId(job), generation: 1, retry: 0, run: self.broker.run().expect("the broker has a run") }
    }

    /// Fans one entry out to one user in a job of its own. The inbox is searched for a post that another path may have
    /// written.
    pub(crate) async fn fan(&self, user: &UserId, entry: Entry) -> Receipt {
        let attempt = self.attempt(u64::from(rand::random::<u32>()) << 16);
        let users = std::slice::from_ref(user);
        let page = FanOut {
            attempt: &attempt,
            page: &PageRecipients::Users(0),
            entry: &entry,
            author: &self::user("author"),
            users,
            created_at: 0,
        };
        match self.broker.fan_out(page).await.expect("fan_out succeeds") {
            FannedOut::Written(receipts) => receipts[0],
            FannedOut::Fenced => panic!("the job has no other attempt"),
        }
    }

    /// All entries of an inbox.
    pub(crate) async fn entries(&self, user: &UserId) -> Vec<Entry> {
        let inbox =
            self.broker.read_inbox(&timeline(user)).await.expect("read_inbox succeeds").expect("the inbox exists");
        inbox.entries.into_iter().map(|(_, entry)| entry).collect()
    }
}

pub(crate) fn user(name: &str) -> UserId {
    UserId::parse(name).expect("a user id")
}

pub(crate) fn post(id: u64) -> Entry {
    Entry::Post(PostId(id))
}

pub(crate) fn posts(ids: &[u64]) -> Vec<Entry> {
    ids.iter().map(|id| post(*id)).collect()
}

pub(crate) fn ids(ids: &[u64]) -> Vec<PostId> {
    ids.iter().map(|id| PostId(*id)).collect()
}

pub(crate) fn data(text: &'static str) -> Entry {
    Entry::Data(Bytes::from_static(text.as_bytes()))
}

/// A plain append to channel `app:1`.
pub(crate) fn to(entry: &Entry) -> Append<'_> {
    let retention = Retention { size: 100, ttl: Duration::from_secs(60) };
    Append { channel: "app:1", entry, retention, idempotency_key: None, version: None }
}
