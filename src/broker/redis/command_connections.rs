//! Connections for commands: a few, which reconnect automatically.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, PushInfo, PushKind, ServerErrorKind, Value};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::errors::classify;
use super::scripts::SCRIPTS;
use crate::backoff::Backoff;
use crate::broker::{BrokerError, Result};
use crate::store_metrics::{StoreFailure, StoreMeter};
use crate::supervisor::supervise_while_held;

/// The number of connections, used in turn: with two, a long reply does not block the other commands.
const CONNECTIONS: usize = 2;

/// The `maxmemory-policy` under which Redis rejects writes instead of evicting keys.
pub(super) const NO_EVICTION: &str = "noeviction";

/// The capacity of a connection's command queue. Short bursts exceed the default of the `redis` crate, 50.
const QUEUE: usize = 4096;

/// The delays between two attempts to connect.
const MIN_RECONNECT_DELAY: Duration = Duration::from_millis(50);
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(3);

/// Delays between two attempts to connect.
pub(super) fn reconnect_backoff() -> Backoff {
    Backoff::new(MIN_RECONNECT_DELAY, MAX_RECONNECT_DELAY)
}

/// A time to live in milliseconds, within the range that Redis accepts.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).clamp(1, 1 << 48)
}

/// The server and the timeout of its replies.
pub(super) struct RedisEndpoint {
    pub(super) client: Client,
    /// The time limit of one attempt to connect, and of one reply.
    pub(super) timeout: Duration,
}

/// The properties of a server from `INFO`.
#[derive(Clone, Debug)]
pub(super) struct RedisServer {
    pub(super) version: String,
    /// Identifies one run of the process: 6 characters of its run id. Logs that another run wrote may lack their end.
    pub(super) run: Arc<str>,
    /// Its `maxmemory-policy`, if reported.
    pub(super) eviction_policy: Option<Arc<str>>,
}

impl RedisEndpoint {
    /// Runs `work` within the timeout.
    pub(super) async fn in_time<T>(&self, work: impl Future<Output = redis::RedisResult<T>>) -> Result<T> {
        match tokio::time::timeout(self.timeout, work).await {
            Ok(answer) => answer.map_err(|error| classify(&error)),
            Err(_) => Err(BrokerError::Unreachable(format!("no answer in {:?}", self.timeout))),
        }
    }

    /// A connection that is ready for commands: the server has loaded its data and knows the scripts.
    pub(super) async fn connect(
        &self,
        on_push: impl Fn(PushInfo) + Send + Sync + 'static,
    ) -> Result<(MultiplexedConnection, RedisServer)> {
        // Every wait is bounded by `in_time` around it, so the connection's own timeouts are off.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE)
            .set_push_sender(move |push| {
                on_push(push);
                Ok::<(), ()>(())
            });
        let connected = self.in_time(self.client.get_multiplexed_async_connection_with_config(&config));
        let mut connection = connected.await?;
        let mut hello = redis::pipe();
        hello.cmd("PING").ignore().cmd("INFO").arg(&["server", "memory"]);
        for script in SCRIPTS.all() {
            hello.add_command(script.load()).ignore();
        }
        let (info,): (String,) = self.in_time(hello.query_async(&mut connection)).await?;
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
        let version = field("redis_version:").to_owned();
        if version.split('.').next().and_then(|major| major.parse().ok()).is_none_or(|major: u32| major < 7) {
            return Err(BrokerError::Failed(format!("redis 7 or newer is needed, this is {version:?}")));
        }
        let run = field("run_id:").chars().take(6).collect::<String>().into();
        // Managed servers refuse CONFIG GET, but not INFO.
        let eviction_policy = Some(field("maxmemory_policy:")).filter(|policy| !policy.is_empty()).map(Arc::from);
        Ok((connection, RedisServer { version, run, eviction_policy }))
    }
}

/// A connection and its server.
#[derive(Clone)]
pub(super) struct RedisLink {
    connection: MultiplexedConnection,
    pub(super) server: RedisServer,
    slot: usize,
    /// The sequence number of the connection in its slot.
    number: u64,
}

struct CommandSlot {
    link: Mutex<Option<RedisLink>>,
    /// The number of the latest connection that was lost. Raised by the first to notice; the slot's keeper waits for
    /// it.
    lost: watch::Sender<u64>,
}

/// The connections, shared by commands and keepers.
struct ConnectionPool {
    endpoint: Arc<RedisEndpoint>,
    slots: [CommandSlot; CONNECTIONS],
    turn: AtomicUsize,
    round_trips: AtomicU64,
    /// Why the last connection could not be opened.
    connect_error: Mutex<Option<BrokerError>>,
}

/// A connection was lost, and nothing is known yet of the attempts to open another one.
pub(super) fn not_connected() -> BrokerError {
    BrokerError::Unreachable("the connection was lost, and is being opened again".to_owned())
}

/// Sends commands. They fail at once while Redis is unreachable.
pub(super) struct Commands {
    shared: Arc<ConnectionPool>,
    /// One task for each slot, which reconnects when its connection is lost.
    _keepers: Vec<AbortOnDropHandle<()>>,
}

impl Commands {
    /// Opens all connections. Fails if one of them does; later they reconnect automatically.
    pub(super) async fn connect(endpoint: Arc<RedisEndpoint>) -> Result<Self> {
        let slots = std::array::from_fn(|_| CommandSlot { link: Mutex::new(None), lost: watch::Sender::new(0) });
        let shared = Arc::new(ConnectionPool {
            endpoint,
            slots,
            turn: AtomicUsize::new(0),
            round_trips: AtomicU64::new(0),
            connect_error: Mutex::default(),
        });
        for slot in 0..CONNECTIONS {
            ConnectionPool::connect(&shared, slot, 1).await?;
        }
        let keep = |slot| {
            let keep = move |shared: Arc<ConnectionPool>| async move { shared.keep(slot).await };
            supervise_while_held("redis_connections", Arc::clone(&shared), keep)
        };
        let keepers = (0..CONNECTIONS).map(keep).collect();
        Ok(Self { shared, _keepers: keepers })
    }

    /// The number of round trips since the start.
    pub(super) fn round_trips(&self) -> u64 {
        self.shared.round_trips.load(Ordering::Relaxed)
    }

    /// An open connection.
    pub(super) fn link(&self) -> Result<RedisLink> {
        let turn = self.shared.turn.fetch_add(1, Ordering::Relaxed);
        let standing = |at: usize| self.shared.slots[(turn.wrapping_add(at)) % CONNECTIONS].link.lock().clone();
        (0..CONNECTIONS).find_map(standing).ok_or_else(|| {
            let reason = self.shared.connect_error.lock().clone();
            let error = reason.unwrap_or_else(not_connected);
            let failure = match &error {
                BrokerError::Refused(..) => StoreFailure::Refused,
                _ => StoreFailure::Unreachable,
            };
            StoreMeter::redis().begin().fail(failure, &error);
            error
        })
    }

    /// Sends a command on any connection.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value> {
        self.send_on(&mut self.link()?, command).await
    }

    /// Sends a command on this connection.
    pub(super) async fn send_on(&self, link: &mut RedisLink, command: &Cmd) -> Result<Value> {
        self.count();
        self.send_uncounted(link, command).await
    }

    fn count(&self) {
        self.shared.round_trips.fetch_add(1, Ordering::Relaxed);
    }

    /// Sends a command of a background task, which is not counted: the number of round trips is the cost of operations.
    pub(super) async fn send_uncounted(&self, link: &mut RedisLink, command: &Cmd) -> Result<Value> {
        let slot = link.slot;
        let number = link.number;
        let connection = &mut link.connection;
        let answer = self.timed((slot, number), async {
            let answer = connection.send_packed_command(command).await.and_then(Value::extract_error);
            match answer {
                // The script cache of the server was flushed.
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                    let mut load = redis::pipe();
                    for script in SCRIPTS.all() {
                        load.add_command(script.load()).ignore();
                    }
                    load.exec_async(connection).await?;
                    connection.send_packed_command(command).await.and_then(Value::extract_error)
                }
                answer => answer,
            }
        });
        answer.await
    }

    /// Sends several commands as a transaction.
    pub(super) async fn send_atomic<T: redis::FromRedisValue>(
        &self,
        link: &mut RedisLink,
        commands: impl IntoIterator<Item = Cmd> + Send,
    ) -> Result<T> {
        self.count();
        let mut pipe = redis::pipe();
        pipe.atomic();
        commands.into_iter().for_each(|command| _ = pipe.add_command(command));
        let which = (link.slot, link.number);
        self.timed(which, async { pipe.query_async(&mut link.connection).await }).await
    }

    /// Sends several commands in one round trip.
    pub(super) async fn send_pipeline<T: redis::FromRedisValue>(&self, commands: &redis::Pipeline) -> Result<T> {
        let mut link = self.link()?;
        self.count();
        let which = (link.slot, link.number);
        self.timed(which, async { commands.query_async(&mut link.connection).await }).await
    }

    async fn timed<T>(
        &self,
        (slot, number): (usize, u64),
        work: impl Future<Output = redis::RedisResult<T>>,
    ) -> Result<T> {
        let call = StoreMeter::redis().begin();
        let answer = tokio::time::timeout(self.shared.endpoint.timeout, work).await;
        let (answer, retires) = match answer {
            Ok(Ok(value)) => {
                call.succeed();
                return Ok(value);
            }
            // A dropped connection or a demoted server: reconnect.
            Ok(Err(error)) => {
                let retires = error.is_unrecoverable_error() || error.code() == Some("READONLY");
                (classify(&error), retires)
            }
            // If the server hangs, commands would pile up on this connection.
            Err(_) => (BrokerError::Unreachable(format!("no answer in {:?}", self.shared.endpoint.timeout)), true),
        };
        let failure = match answer {
            BrokerError::Unreachable(_) => StoreFailure::Unreachable,
            BrokerError::Refused(..) => StoreFailure::Refused,
            BrokerError::Failed(_) => StoreFailure::Failed,
        };
        call.fail(failure, &answer);
        if retires {
            self.shared.retire(slot, number);
        }
        Err(answer)
    }
}

impl ConnectionPool {
    async fn connect(self: &Arc<Self>, slot: usize, number: u64) -> Result<()> {
        let weak = Arc::downgrade(self);
        let on_push = move |push: PushInfo| {
            if let (PushKind::Disconnection, Some(shared)) = (push.kind, weak.upgrade()) {
                shared.retire(slot, number);
            }
        };
        let (connection, server) = self.endpoint.connect(on_push).await?;
        let former = self.slots[slot].link.lock().replace(RedisLink { connection, server, slot, number });
        StoreMeter::redis().opened();
        if former.is_some() {
            StoreMeter::redis().closed();
        }
        if *self.slots[slot].lost.borrow() >= number {
            // It was lost before it was in its slot.
            self.retire(slot, number);
        }
        Ok(())
    }

    /// Retires a connection. Commands in flight on it still receive their replies, if in time.
    fn retire(&self, slot: usize, number: u64) {
        let slot = &self.slots[slot];
        let retired = slot.link.lock().take_if(|link| link.number <= number);
        slot.lost.send_if_modified(|lost| std::mem::replace(lost, number.max(*lost)) < number);
        if retired.is_some() {
            StoreMeter::redis().closed();
        }
    }

    async fn keep(self: &Arc<Self>, slot: usize) {
        let mut lost = self.slots[slot].lost.subscribe();
        // After a restart of this task, the connection may have any number.
        let current = self.slots[slot].link.lock().as_ref().map(|link| link.number);
        let first = current.unwrap_or_else(|| (*lost.borrow()).max(1));
        for number in first.. {
            // The sender lives as long as `self` does.
            let _ = lost.wait_for(|lost| *lost >= number).await;
            tracing::debug!(slot, "lost a connection to redis");
            let mut backoff = reconnect_backoff();
            while let Err(error) = self.connect(slot, number + 1).await {
                tracing::debug!(slot, %error, "cannot connect to redis");
                *self.connect_error.lock() = Some(error);
                tokio::time::sleep(backoff.next_delay()).await;
            }
            tracing::debug!(slot, "connected to redis again");
        }
    }
}
