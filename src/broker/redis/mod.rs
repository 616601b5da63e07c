//! The broker of any number of processes: Redis 7 or newer.
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | connecting; channels and their logs: commands and their replies |
//! | `inboxes.rs` | the same for inboxes and fan-out |
//! | `appends.rs` | appends to one log or many |
//! | `keys.rs` | the names of keys and channels |
//! | `scripts/`, `scripts.rs` | Lua scripts, for atomic operations |
//! | `commands.rs` | connections for commands, which reconnect |
//! | `inbox_cache.rs` | recently read inboxes, of which only new entries are read |
//! | `queue.rs`, `tallies.rs`, `permits.rs` | the durable queue, tallies, shared rate limits |
//! | `presence.rs` | clients in channels |
//! | `invalidation_log.rs` | cache invalidations: appended, followed, confirmed |
//! | `pubsub.rs`, `hint.rs` | the connection with all subscriptions, and the messages on it |

mod appends;
mod commands;
mod hint;
mod inbox_cache;
mod inboxes;
mod invalidation_log;
mod keys;
mod lineage;
mod permits;
mod presence;
mod pubsub;
mod queue;
pub mod raw;
mod replies;
mod scripts;
mod tallies;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::RwLock;
use redis::{Client, Cmd, IntoConnectionInfo, ProtocolVersion, Value};
use tokio_util::task::AbortOnDropHandle;

use self::commands::{Commands, NO_EVICTION, RedisEndpoint, RedisLink, millis};
use self::inbox_cache::InboxCache;
use self::invalidation_log::InvalidationLog;
use self::keys::Keys;
use self::pubsub::PubSub;
use self::scripts::SCRIPTS;
use super::listener::ListenerCell;
use super::{
    Append, AppendOutcome, Broadcast, Broker, BrokerError, CacheLease, Confirmation, InboxOptions, Invalidation,
    MessageListener, NODE_LEASE, NodeLease, POSITION_TTL, PresenceEvent, Result, Signal, Slice, Span, epoch,
    inbox_owner,
};
use crate::broker::epoch::new_epoch;
use crate::model::{Entry, Millis, Position, PostId, UserId};

/// The options of [`RedisBroker`].
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// The address: `redis://[user:password@]host[:port][/db]`, or `rediss://` for TLS.
    pub url: String,
    /// The time limit of one attempt to connect, and of one reply.
    pub timeout: Duration,
    /// The prefix of all keys, before a colon. Deployments with different prefixes can share a Redis.
    pub prefix: String,
    /// The options of inboxes.
    pub inbox: InboxOptions,
    /// The interval of probes of pub/sub. A stalled connection is detected within three intervals.
    pub probe_every: Duration,
}

/// The broker of any number of processes, on Redis 7 or newer. It reconnects automatically.
pub struct RedisBroker {
    name: String,
    keys: Keys,
    inbox: InboxOptions,
    /// How long positions stay valid; [`POSITION_TTL`] except in tests.
    position_ttl: Duration,
    commands: Arc<Commands>,
    pubsub: PubSub,
    listener: ListenerCell,
    inbox_cache: InboxCache,
    invalidations: Arc<InvalidationLog>,
    _following: [AbortOnDropHandle<()>; 2],
    /// The incarnation of the ledger that this node works with.
    incarnation: RwLock<Arc<str>>,
}

impl RedisBroker {
    /// Connects.
    ///
    /// # Errors
    /// If Redis cannot be reached now, or is too old. Later connections are retried.
    pub async fn connect(options: RedisOptions) -> Result<Self> {
        let wrong = |error: redis::RedisError| BrokerError::Refused(error.to_string());
        let info = options.url.as_str().into_connection_info().map_err(wrong)?;
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        let address = info.addr().to_string();
        let client = Client::open(info.set_redis_settings(settings).set_tcp_settings(tcp)).map_err(wrong)?;
        let endpoint = Arc::new(RedisEndpoint { client, timeout: options.timeout });
        let keys = Keys::new(&options.prefix);
        let commands = Arc::new(Commands::connect(Arc::clone(&endpoint)).await?);
        let server = commands.link()?.server;
        let name = format!("redis {} at {address}", server.version);
        warn_of_eviction(server.eviction_policy.as_deref());
        let listener = ListenerCell::default();
        let invalidations = InvalidationLog::new(Arc::clone(&commands), keys.clone(), Arc::clone(&listener));
        let (of, log, ears) = (Arc::clone(&commands), Arc::clone(&invalidations), Arc::clone(&listener));
        let pubsub = PubSub::connect(endpoint, of, keys.clone(), options.probe_every, log, ears).await?;
        let (following, inbox_cache) = (invalidations.start(), InboxCache::new());
        let mut seed = redis::cmd("SET");
        seed.arg(keys.seed()).arg(&*new_epoch()).arg("NX");
        commands.send(&seed).await?;
        let (inbox, position_ttl) = (options.inbox, POSITION_TTL);
        Ok(Self {
            name,
            keys,
            inbox,
            position_ttl,
            commands,
            pubsub,
            listener,
            inbox_cache,
            incarnation: RwLock::new("".into()),
            invalidations,
            _following: following,
        })
    }

    /// The same with another [`POSITION_TTL`]. All nodes on one Redis must agree on it.
    #[must_use]
    pub fn with_position_ttl(self, position_ttl: Duration) -> Self {
        Self { position_ttl, ..self }
    }

    /// The keys of a log for scripts: its entries and metadata, its counts, the seed.
    fn log_keys(&self, channel: &str) -> [String; 4] {
        let [log, meta] = self.keys.log(channel);
        [log, meta, self.keys.counts(channel, &self.incarnation.read()), self.keys.seed()]
    }

    /// The run of Redis together with the incarnation of the ledger. Data that was written under another run counts as
    /// lost.
    fn run(&self, link: &RedisLink) -> String {
        format!("{}{}", link.server.run, self.incarnation.read())
    }

    /// Calls a script whose first argument is the run.
    async fn call_with_run(&self, mut call: Cmd, complete: impl FnOnce(&mut Cmd)) -> Result<Value> {
        let mut link = self.commands.link()?;
        call.arg(self.run(&link));
        complete(&mut call);
        self.commands.send_on(&mut link, &call).await
    }

    /// Calls a script that may derive an epoch. Its first arguments are the run, the period, and whether Redis may
    /// evict keys.
    async fn call_with_epoch(&self, mut call: Cmd, complete: impl FnOnce(&mut Cmd)) -> Result<Value> {
        let mut link = self.commands.link()?;
        call.arg(self.run(&link)).arg(millis(epoch::period(self.position_ttl))).arg(u8::from(link.server.may_evict));
        complete(&mut call);
        self.commands.send_on(&mut link, &call).await
    }

    async fn publish_raw(&self, to: &str, what: &[u8]) -> Result<u64> {
        let receivers = self.commands.send(redis::cmd("PUBLISH").arg(to).arg(what)).await?;
        replies::parse(receivers)
    }

    async fn read_part(&self, keys: &[String], span: Span) -> Result<Option<replies::StreamSlice>> {
        let (command, from, to, count) = match span {
            Span::After(offset, count) => ("XRANGE", format!("(0-{offset}"), "+".to_owned(), count),
            // Offset 0 does not exist, and no offset is below it.
            Span::Before(0, count) => ("XREVRANGE", "0-0".to_owned(), "-".to_owned(), count),
            Span::Before(offset, count) => ("XREVRANGE", format!("(0-{offset}"), "-".to_owned(), count),
        };
        let mut call = SCRIPTS.read.call(keys.len());
        call.arg(keys);
        let answer = self.call_with_epoch(call, |call| {
            call.arg(command).arg(from).arg(to).arg(i64::try_from(count).unwrap_or(i64::MAX));
        });
        replies::part(answer.await?)
    }
}

/// Logs a warning unless Redis keeps every key.
fn warn_of_eviction(policy: Option<&str>) {
    match policy {
        Some(NO_EVICTION) => {}
        Some(policy) => tracing::warn!(
            policy,
            "redis may evict keys: logs and queued likes can be lost; set maxmemory-policy to noeviction"
        ),
        None => tracing::info!("redis does not report its maxmemory-policy; it must be noeviction"),
    }
}

#[async_trait]
impl Broker for RedisBroker {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn listen(&self, listener: Arc<dyn MessageListener>) {
        // The first listener stays.
        let _ = self.listener.set(listener);
        self.invalidations.poll_now.notify_one();
    }

    async fn ping(&self) -> Result<()> {
        self.pubsub.check()?;
        // A write: a replica, and a Redis whose memory is full, reply to PING.
        let mut probe = redis::cmd("SET");
        probe.arg(self.keys.ping()).arg(1).arg("PX").arg(10_000);
        self.commands.send(&probe).await.map(drop)
    }

    fn round_trips(&self) -> u64 {
        self.commands.round_trips()
    }

    async fn subscribe(&self, channel: &str) -> Result<()> {
        self.pubsub.subscribe(channel).await
    }

    async fn unsubscribe(&self, channel: &str) -> Result<()> {
        self.pubsub.unsubscribe(channel).await
    }

    async fn connected(&self, users: &[UserId]) -> Result<Vec<bool>> {
        if users.is_empty() {
            return Ok(Vec::new());
        }
        let mut ask = redis::cmd("PUBSUB");
        ask.arg("NUMSUB");
        users.iter().for_each(|user| _ = ask.arg(self.keys.inbox_hints(user)));
        replies::subscribed(self.commands.send(&ask).await?, users.len())
    }

    async fn signal(&self, signal: Signal) -> Result<()> {
        let message = signal.encode().map_err(|error| BrokerError::Refused(error.to_string()))?;
        self.publish_raw(&self.keys.signal(), &message).await.map(drop)
    }

    async fn invalidate(&self, what: &[Invalidation]) -> Result<Confirmation> {
        self.invalidations.append(what).await
    }

    fn cache_lease(&self) -> Arc<CacheLease> {
        self.invalidations.lease()
    }

    async fn append(&self, append: Append<'_>) -> Result<AppendOutcome> {
        self.append_to_one(append).await
    }

    async fn broadcast(&self, broadcast: Broadcast<'_>) -> Vec<Result<AppendOutcome>> {
        self.append_to_all(broadcast).await
    }

    async fn publish(&self, channel: &str, entry: &Entry) -> Result<AppendOutcome> {
        self.publish_raw(&self.keys.hints(channel), &hint::unlogged(entry)).await.map(AppendOutcome::unlogged)
    }

    async fn publish_presence_event(&self, channel: &str, event: &PresenceEvent) -> Result<()> {
        self.publish_raw(&self.keys.hints(channel), &hint::presence_event(event)).await.map(drop)
    }

    async fn position(&self, channel: &str) -> Result<Option<Position>> {
        if inbox_owner(channel).is_some() {
            return Ok(self.positions(&[channel.into()]).await?.pop().flatten());
        }
        let mut call = SCRIPTS.position.call(4);
        call.arg(&self.log_keys(channel)[..]);
        let answer = self.call_with_epoch(call, |call| _ = call.arg(millis(self.position_ttl)));
        replies::position(answer.await?).map(Some)
    }

    async fn positions(&self, channels: &[Arc<str>]) -> Result<Vec<Option<Position>>> {
        if channels.is_empty() {
            return Ok(Vec::new());
        }
        let mut call = SCRIPTS.positions.call(1 + 3 * channels.len());
        call.arg(self.keys.seed());
        for channel in channels {
            call.arg(&self.keys.log(channel)[..]).arg(self.keys.counts(channel, &self.incarnation.read()));
        }
        let answer = self.call_with_epoch(call, |call| {
            call.arg(millis(self.position_ttl));
            channels.iter().for_each(|channel| _ = call.arg(u8::from(inbox_owner(channel).is_some())));
        });
        replies::positions(answer.await?)
    }

    async fn read(&self, channel: &str, span: Span) -> Result<Option<Slice>> {
        let part = match inbox_owner(channel) {
            Some(_) => self.read_part(&self.keys.log(channel), span).await?,
            None => self.read_part(&self.log_keys(channel), span).await?,
        };
        Ok(part.map(|part| Slice { top: part.top, entries: part.entries }))
    }

    async fn drop_logs(&self, channels: &[String]) -> Result<()> {
        // One command for each channel: the keys of a channel are in one slot.
        for channel in channels {
            let mut call = SCRIPTS.drop.call(2);
            call.arg(&self.keys.log(channel)[..]);
            let answer = self.call_with_run(call, |call| {
                let is_inbox = inbox_owner(channel).is_some();
                call.arg(&*new_epoch()).arg(millis(self.position_ttl)).arg(u8::from(is_inbox));
            });
            answer.await?;
        }
        Ok(())
    }

    async fn lease_node(&self, holder: &str, number: Option<u8>, ceiling: Millis) -> Result<NodeLease> {
        const NUMBERS: u8 = 1 << PostId::NODE_BITS;
        let keeps = number.is_some();
        let start = number.unwrap_or_else(|| rand::random_range(0..NUMBERS)) % NUMBERS;
        let number = |at: u8| (start + at) % NUMBERS;
        let mut call = SCRIPTS.lease.call(1 + usize::from(NUMBERS));
        call.arg(self.keys.node_ceilings());
        (0..NUMBERS).for_each(|at| _ = call.arg(self.keys.node(number(at))));
        call.arg(holder).arg(millis(NODE_LEASE)).arg(ceiling).arg(u8::from(keeps));
        (0..NUMBERS).for_each(|at| _ = call.arg(number(at)));
        match replies::parse::<(u8, Millis)>(self.commands.send(&call).await?)? {
            (0, _) => Err(BrokerError::Refused(format!("all {NUMBERS} node numbers are taken"))),
            (at, used_until) => Ok(NodeLease { number: number(at - 1), ttl: Some(NODE_LEASE), used_until }),
        }
    }
}
