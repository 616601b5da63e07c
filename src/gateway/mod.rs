//! Sockets: from the accepted TCP connection to the feed, and from the hub back to the socket.
//!
//! | file | what is in it |
//! |---|---|
//! | [`listener`] | the accept loop: HTTP and upgrades on one port, timeouts |
//! | [`connection_counts`] | connections of the process and of an address, and their caps |
//! | `user_connections` | connections of a user, and their cap |
//! | [`upgrade`] | the WebSocket handshake: origins, encodings |
//! | [`session`] | the pure state machine: a command in, what to do about it out |
//! | `connection` | the task of one socket |
//! | `transport` | the WebSocket of one socket |
//! | `commands` | the part of a command that takes time |
//! | [`channels`] | what a channel's name means, and who may do what there |
//! | [`join`] | the request to join a channel, and its result |
//! | [`hub`] | who is in which channel, and what they have been told |
//! | `sockets` | the sockets by user, to be closed |
//! | `connection_registry` | the connections by client id |
//! | `like_receipts` | `like.settled` to the connections that sent the likes |
//! | `presence` | who is in a channel, joins and leaves |
//! | [`outbox`] | what waits for one socket |

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::Executor;
use crate::api::operations::Operations;
use crate::auth::Revoked;
use crate::broker::Broker;
use crate::feed::Feed;
use crate::metrics::{Levels, Metrics};
use crate::net::AllowedOrigins;
use crate::protocol::Disconnect;

pub mod channels;
mod commands;
mod connection;
pub mod connection_counts;
mod connection_registry;
pub mod hub;
pub mod join;
mod like_receipts;
pub mod listener;
pub mod outbox;
mod presence;
pub mod session;
mod sockets;
mod transport;
pub mod upgrade;
mod user_connections;

pub use commands::{Log, clients, presence_counts};

use connection::Connection;
use connection_registry::ConnectionRegistry;
use hub::Hub;
use like_receipts::LikeReceipts;
use outbox::{Bounds, Outbox, Outgoing};
use session::SessionOptions;
use sockets::UserSockets;
use transport::Transport;
use user_connections::UserConnections;

/// The bounds of a socket.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// The largest message a client may send, in bytes.
    pub message_bytes: usize,
    /// How much may wait for a slow reader.
    pub outbox: Bounds,
    /// How long one write may take.
    pub write_timeout: Duration,
    /// Browser origins that may connect besides the page's own host.
    pub origins: AllowedOrigins,
    /// Connections of one user on this node.
    pub connections_per_user: Option<u32>,
    /// How many missed entries one recovery tells.
    pub recovery_limit: usize,
}

/// Sockets, and what they need.
pub struct Gateway {
    hub: Arc<Hub>,
    feed: Arc<Feed>,
    broker: Arc<dyn Broker>,
    operations: Arc<Operations>,
    executor: Arc<Executor>,
    sessions: Arc<SessionOptions>,
    metrics: Arc<Metrics>,
    options: GatewayOptions,
    /// Every connection, by client id.
    clients: Arc<ConnectionRegistry>,
    users: Arc<UserConnections>,
    /// The connected ones, by user.
    sockets: Arc<UserSockets>,
    tasks: TaskTracker,
    /// No new sockets are taken.
    draining: CancellationToken,
    stopping: CancellationToken,
    /// Zero of the sessions' clocks.
    started: Instant,
}

/// What a gateway works with.
pub struct Parts {
    /// The feed.
    pub feed: Arc<Feed>,
    /// The logs.
    pub broker: Arc<dyn Broker>,
    /// The table of operations.
    pub operations: Arc<Operations>,
    /// Runs operations.
    pub executor: Arc<Executor>,
    /// What sessions share.
    pub sessions: SessionOptions,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// tungstenite's buffers: small, because a hundred thousand idle sockets have them too. Its defaults take 131 KB a socket.
/// Only control frames go through the write buffer, which must be larger than the size at which it is flushed.
const READ_BUFFER: usize = 1024;
const WRITE_BUFFER: usize = 512;

/// How much later than its token a socket ends, so that the answer to whoever ended it arrives.
const ANSWER_FIRST: Duration = Duration::from_millis(50);

impl Gateway {
    /// A gateway that hears the broker and serves nobody yet.
    pub fn new(parts: Parts, options: GatewayOptions) -> Arc<Self> {
        let clients = Arc::new(ConnectionRegistry::default());
        let sockets = Arc::new(UserSockets::default());
        let hub = Hub::new(&parts, Arc::clone(&sockets), options.recovery_limit);
        let Parts { feed, broker, operations, executor, sessions, metrics } = parts;
        let gateway = Arc::new(Self {
            hub,
            feed,
            broker,
            operations,
            executor,
            sessions: Arc::new(sessions),
            metrics,
            users: UserConnections::new(options.connections_per_user),
            options,
            clients,
            sockets,
            tasks: TaskTracker::new(),
            draining: CancellationToken::new(),
            stopping: CancellationToken::new(),
            started: Instant::now(),
        });
        gateway.hub.start(&gateway.tasks, &gateway.stopping);
        let settlements = Arc::clone(&gateway.feed.settlements);
        let receipts = LikeReceipts::new(settlements, Arc::clone(&gateway.clients), Arc::clone(&gateway.metrics));
        let stop = gateway.stopping.clone();
        gateway.tasks.spawn(async move { stop.run_until_cancelled(receipts.run()).await });
        let (this, stop) = (Arc::clone(&gateway), gateway.stopping.clone());
        gateway.tasks.spawn(async move { stop.run_until_cancelled(this.close_revoked()).await });
        gateway
    }

    /// The feed behind it.
    pub fn feed(&self) -> &Arc<Feed> {
        &self.feed
    }

    /// Runs operations.
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// The broker behind it.
    pub fn broker(&self) -> &Arc<dyn Broker> {
        &self.broker
    }

    /// The table of operations.
    pub fn operations(&self) -> &Arc<Operations> {
        &self.operations
    }

    /// What sessions share.
    pub fn sessions(&self) -> &SessionOptions {
        &self.sessions
    }

    /// The browser origins that may connect besides the page's own host.
    pub fn origins(&self) -> &AllowedOrigins {
        &self.options.origins
    }

    /// What is counted.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Whether a shutdown is under way.
    pub fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// What the gauges show now.
    pub fn levels(&self) -> Levels {
        Levels {
            connections: self.clients.len(),
            channels: self.hub.channels(),
            queue_bytes: self.clients.queued_bytes(),
            broker_round_trips: self.broker.round_trips(),
            ledger_round_trips: self.feed.ledger.round_trips(),
            cache_lease: self.feed.invalidator.holds_lease(),
        }
    }

    /// Closes the sockets of those whose tokens end, who are blocked or erased, and ends subscriptions whose tokens
    /// end, for ever.
    async fn close_revoked(&self) {
        loop {
            let pending = self.feed.authorization_checks.next().await;
            let refused = self.sockets.refused(&pending, |user, token| match user {
                Some(user) if self.feed.identity.refuse_erased(user).is_err() => Err(Revoked::Token),
                user => self.feed.identity.check_revoked(user, token),
            });
            for (outbox, channel) in refused.subscriptions {
                outbox.push(Outgoing::Revoked(channel));
            }
            if refused.sockets.is_empty() {
                continue;
            }
            // Whoever ended their own session, or erased themselves, hears the answer first.
            tokio::time::sleep(ANSWER_FIRST).await;
            for (outbox, why) in refused.sockets {
                outbox.close(why);
            }
        }
    }

    /// How sockets are set up.
    fn websocket(&self) -> WebSocketConfig {
        let mut config = WebSocketConfig::default();
        config.read_buffer_size = READ_BUFFER;
        config.write_buffer_size = WRITE_BUFFER;
        config.max_write_buffer_size = 16 * WRITE_BUFFER;
        config.max_message_size = Some(self.options.message_bytes);
        config.max_frame_size = Some(self.options.message_bytes);
        config
    }

    /// Takes in a socket of a client at this address. The gateway knows it as long as the connection is there.
    fn admit(self: Arc<Self>, socket: Transport, address: IpAddr) -> Box<Connection> {
        let client: Arc<str> = uuid::Uuid::new_v4().to_string().into();
        let outbox = Arc::new(Outbox::new(self.options.outbox));
        self.clients.add(&client, &outbox);
        self.metrics.accepted();
        if self.is_draining() {
            outbox.close(Disconnect::SHUTDOWN);
        }
        Box::new(Connection::new(self, socket, client, address, outbox))
    }

    /// Takes no new sockets, closes those that are there with a code that makes clients come back, spread over `over` so
    /// that they do not all come at once, and waits for their tasks.
    pub async fn drain(&self, over: Duration) {
        self.draining.cancel();
        let outboxes = self.clients.all();
        tracing::info!(sockets = outboxes.len(), ?over, "closing sockets");
        let started = Instant::now();
        let many = u32::try_from(outboxes.len()).unwrap_or(u32::MAX).max(1);
        for (nth, outbox) in (0_u32..).zip(&outboxes) {
            tokio::time::sleep_until(started + over / many * nth).await;
            outbox.close(Disconnect::SHUTDOWN);
        }
        // Those that came in while the others went.
        self.clients.close_all(&Disconnect::SHUTDOWN);
        self.stopping.cancel();
        self.tasks.close();
        // A close handshake is bounded, and so is what a command waits for.
        if tokio::time::timeout(Duration::from_secs(10), self.tasks.wait()).await.is_err() {
            tracing::warn!(sockets = self.clients.len(), "some sockets did not end in time");
        }
    }
}
