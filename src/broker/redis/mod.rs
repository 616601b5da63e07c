//! The broker of any number of processes: Redis 7 or newer.
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | connecting; calls of scripts |
//! | `logs.rs` | channels and their logs: commands and their replies |
//! | `inboxes.rs` | the same for inboxes and fan-out |
//! | `appends.rs` | appends to one log or many |
//! | `keys.rs` | the names of keys and channels |
//! | `scripts/`, `scripts.rs` | Lua scripts, for atomic operations |
//! | `command_connections.rs` | connections for commands, which reconnect |
//! | `inbox_cache.rs` | recently read inboxes, of which only new entries are read |
//! | `queue.rs`, `tallies.rs`, `permits.rs` | the durable queue, tallies, shared rate limits |
//! | `outlet_copy.rs` | the copy of the outlet, for consumer groups |
//! | `presence.rs` | clients in channels |
//! | `invalidation_log.rs` | cache invalidations: appended, followed, confirmed |
//! | `pubsub.rs`, `subscribed_channels.rs` | the connection with all subscriptions |
//! | `router.rs`, `hint.rs` | the messages on it |
//! | `replies.rs`, `errors.rs` | parses replies, classifies errors |
//! | `lineage.rs`, `identity.rs` | the record of the ledger's incarnation; of the ledger and the live nodes |
//! | `rights.rs` | the commands that the user must be allowed to send |
//! | `page_command.rs` | the call that writes one page of a fan-out |
//! | `node_hints.rs` | one message for the inboxes of a page with the same receiver |

mod appends;
mod command_connections;
mod errors;
mod hint;
mod identity;
mod inbox_cache;
mod inboxes;
mod invalidation_log;
mod keys;
mod lineage;
mod logs;
mod node_hints;
mod outlet_copy;
mod page_command;
mod permits;
mod presence;
mod pubsub;
mod queue;
mod replies;
mod rights;
mod router;
mod scripts;
mod subscribed_channels;
mod tallies;

pub use page_command::measured;
pub use queue::queue_backlog;
pub use rights::{RedisFindings, redis_rights};

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use redis::{Client, Cmd, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, Value};
use tokio_util::task::AbortOnDropHandle;

use self::command_connections::{Commands, NO_EVICTION, RedisEndpoint, RedisLink, millis};
use self::inbox_cache::InboxCache;
use self::invalidation_log::InvalidationLog;
use self::keys::Keys;
use self::pubsub::PubSub;
use self::scripts::SCRIPTS;
use super::listener::ListenerCell;
use super::{BrokerError, InboxOptions, POSITION_TTL, READER_TTL, Result, Span, epoch};
use crate::broker::epoch::new_epoch;

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
    /// `redis://HOST:PORT/DB`, and the prefix of keys.
    place: String,
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

/// The place of a Redis, as messages name it.
fn place_of(options: &RedisOptions, address: &str, database: i64) -> String {
    let prefix = &options.prefix;
    match options.url.split_once("://").map(|(scheme, _)| scheme) {
        Some("unix") => format!("unix://{address}?db={database} (prefix {prefix})"),
        scheme => format!("{}://{address}/{database} (prefix {prefix})", scheme.unwrap_or("redis")),
    }
}

/// The address of a URL, with the settings of its connections.
fn connection_info(url: &str) -> Result<ConnectionInfo> {
    let info = url.into_connection_info().map_err(|error| BrokerError::Failed(error.to_string()))?;
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let tcp = info.tcp_settings().clone().set_nodelay(true);
    Ok(info.set_redis_settings(settings).set_tcp_settings(tcp))
}

impl RedisBroker {
    /// Connects.
    ///
    /// # Errors
    /// If Redis cannot be reached now, or is too old. Later connections are retried.
    pub async fn connect(options: RedisOptions) -> Result<Self> {
        let info = connection_info(&options.url)?;
        let address = info.addr().to_string();
        let database = info.redis_settings().db();
        let place = place_of(&options, &address, database);
        let client = Client::open(info).map_err(|error| BrokerError::Failed(error.to_string()))?;
        let endpoint = Arc::new(RedisEndpoint { client, timeout: options.timeout });
        let keys = Keys::new(&options.prefix, database);
        let commands = Arc::new(Commands::connect(Arc::clone(&endpoint)).await?);
        let server = commands.link()?.server;
        let name = format!("redis {} at {address}", server.version);
        warn_of_eviction(server.eviction_policy.as_deref());
        let listener = ListenerCell::default();
        let invalidations = InvalidationLog::new(Arc::clone(&commands), keys.clone(), Arc::clone(&listener));
        let of = Arc::clone(&commands);
        let log = Arc::clone(&invalidations);
        let ears = Arc::clone(&listener);
        let pubsub = PubSub::connect(endpoint, of, keys.clone(), options.probe_every, log, ears).await?;
        let following = invalidations.start();
        let inbox_cache = InboxCache::new();
        let mut seed = redis::cmd("HSETNX");
        seed.arg(keys.epochs()).arg("s").arg(&*new_epoch());
        commands.send(&seed).await?;
        let inbox = options.inbox;
        let position_ttl = POSITION_TTL;
        Ok(Self {
            name,
            place,
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

    /// The keys of a log for scripts: its entries and metadata, its counts, the epochs.
    fn log_keys(&self, channel: &str) -> [String; 4] {
        let [log, meta] = self.keys.log(channel);
        [log, meta, self.keys.counts(channel, &self.incarnation.read()), self.keys.epochs()]
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

    /// Calls a script that may derive an epoch. Its first arguments are the run, the period, and how long a position is
    /// kept for readers at least.
    async fn call_with_epoch(&self, mut call: Cmd, complete: impl FnOnce(&mut Cmd)) -> Result<Value> {
        let mut link = self.commands.link()?;
        call.arg(self.run(&link))
            .arg(millis(epoch::period(self.position_ttl)))
            .arg(millis(READER_TTL.min(self.position_ttl)));
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
