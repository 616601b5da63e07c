//! Connections: from the accepted TCP connection to the feed, and from the hub back to the client.
//!
//! | file | what is in it |
//! |---|---|
//! | [`listener`] | the accept loop: HTTP and upgrades on one port, timeouts |
//! | [`connection_counts`] | connections of the process and of an address, and their caps |
//! | `user_connections` | connections of a user, and their cap |
//! | [`upgrade`] | the WebSocket handshake: origins, encodings |
//! | [`session`] | the pure state machine: a command goes in, an action comes out |
//! | `connection`, `connection_end` | the task of one connection |
//! | `transport` | the WebSocket of one connection |
//! | [`outbox`] | the send queue of one connection |
//! | [`write_pacer`] | the order in which connections write |
//! | `commands`, `command_outcome` | starts commands that take time |
//! | `subscriptions` | executes `connect` and `subscribe` |
//! | `channel_commands`, `rpc` | executes the other commands |
//! | [`channels`] | the channels, and the rights of clients there |
//! | [`join`] | the request to join a channel, and its result |
//! | [`hub`] | the clients of this node by channel |
//! | `log_reader` | log entries as publications in replies |
//! | `like_receipts` | `like.settled` to the connections that sent the likes |
//! | `presence` | the clients in a channel, joins and leaves |
//! | `connection_registry`, `sockets` | the connections by client id, and by user |
//! | `revocation_watcher` | closes connections whose tokens end |
//! | `session_clock`, `gauges` | the time of sessions, the values of gauges |

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::Executor;
use crate::api::operations::Operations;
use crate::broker::Broker;
use crate::feed::Feed;
use crate::metrics::Metrics;
use crate::net::AllowedOrigins;
use crate::protocol::Disconnect;

mod channel_commands;
pub mod channels;
mod command_outcome;
mod commands;
mod connection;
pub mod connection_counts;
mod connection_end;
mod connection_registry;
mod gauges;
pub mod hub;
pub mod join;
mod like_receipts;
pub mod listener;
mod log_reader;
pub mod outbox;
mod presence;
mod revocation_watcher;
mod rpc;
pub mod session;
mod session_clock;
mod sockets;
mod subscriptions;
mod transport;
pub mod upgrade;
mod user_connections;
pub mod write_pacer;

pub use channel_commands::{presence_counts, present_clients};
pub use gauges::GaugeReader;
pub use log_reader::{ChannelLog, LogReader};

use channel_commands::ChannelCommands;
use commands::CommandRunner;
use connection::ConnectionShared;
use connection_registry::ConnectionRegistry;
use hub::{Broadcaster, Hub, HubParts};
use like_receipts::LikeReceipts;
use outbox::Bounds;
use presence::PresenceTracker;
use revocation_watcher::RevocationWatcher;
use rpc::RpcRunner;
use session::SessionOptions;
use session_clock::SessionClock;
use sockets::UserSockets;
use subscriptions::Subscriptions;
use upgrade::Upgrader;
use user_connections::UserConnections;
use write_pacer::WritePacer;

/// How long a shutdown waits for the tasks of connections: a close handshake is bounded, and so are commands.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// The bounds of connections.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// The largest message of a client, in bytes.
    pub message_bytes: usize,
    /// The bounds of the send queue of one connection.
    pub outbox: Bounds,
    /// How long one write may take.
    pub write_timeout: Duration,
    /// Browser origins that may connect besides the page's own host.
    pub origins: AllowedOrigins,
    /// The most connections of one user on this node; `None`: unlimited.
    pub connections_per_user: Option<u32>,
    /// The most entries that one recovery returns.
    pub recovery_limit: usize,
}

/// The parts that a gateway uses.
pub struct GatewayParts {
    /// The feed.
    pub feed: Arc<Feed>,
    /// The logs.
    pub broker: Arc<dyn Broker>,
    /// The table of operations.
    pub operations: Arc<Operations>,
    /// Runs operations.
    pub executor: Arc<Executor>,
    /// The settings of sessions.
    pub sessions: Arc<SessionOptions>,
    /// Counts deliveries and connections.
    pub metrics: Arc<Metrics>,
}

/// The connections of this node: built here, closed by [`drain`](Self::drain).
pub struct Gateway {
    upgrader: Arc<Upgrader>,
    logs: Arc<LogReader>,
    gauges: Arc<GaugeReader>,
    connections: Arc<ConnectionRegistry>,
    tasks: TaskTracker,
    /// No new connections are accepted.
    draining: CancellationToken,
    /// Background tasks end.
    stopping: CancellationToken,
}

impl Gateway {
    /// A gateway that listens to the broker and has no connections yet.
    pub fn new(parts: &GatewayParts, options: GatewayOptions) -> Self {
        let GatewayParts { feed, broker, metrics, .. } = parts;
        let (tasks, draining, stopping) = (TaskTracker::new(), CancellationToken::new(), CancellationToken::new());
        let connections = Arc::new(ConnectionRegistry::default());
        let sockets = Arc::new(UserSockets::default());
        let broadcaster = Arc::new(Broadcaster::new(Arc::clone(metrics)));
        let logs = LogReader::new(Arc::clone(broker), Arc::clone(&feed.inboxes), Arc::clone(&feed.event_renderer));
        let logs = Arc::new(logs);
        let hub = Arc::new(Hub::new(&HubParts {
            feed,
            broker,
            logs: &logs,
            broadcaster: &broadcaster,
            sockets: &sockets,
            metrics,
            recovery_limit: options.recovery_limit,
        }));
        hub.start(&tasks, &stopping);
        let pacer = Arc::new(WritePacer::default());
        let (pacing, stop) = (Arc::clone(&pacer), stopping.clone());
        tasks.spawn(async move {
            stop.run_until_cancelled(pacing.run()).await;
            pacing.stop();
        });

        let receipts = LikeReceipts::new(Arc::clone(&feed.settlements), Arc::clone(&connections), broadcaster);
        let stop = stopping.clone();
        tasks.spawn(async move { stop.run_until_cancelled(receipts.run()).await });
        let revocations = RevocationWatcher {
            checks: Arc::clone(&feed.authorization_checks),
            identity: Arc::clone(&feed.identity),
            sockets: Arc::clone(&sockets),
        };
        let stop = stopping.clone();
        tasks.spawn(async move { stop.run_until_cancelled(revocations.run()).await });

        let commands = command_runner(parts, &hub, &logs, sockets, tasks.clone());
        let shared = ConnectionShared {
            sessions: Arc::clone(&parts.sessions),
            clock: SessionClock::new(),
            commands: Arc::new(commands),
            users: UserConnections::new(options.connections_per_user),
            connections: Arc::clone(&connections),
            identity: Arc::clone(&feed.identity),
            metrics: Arc::clone(metrics),
            outbox: options.outbox,
            pacer,
            write_timeout: options.write_timeout,
        };
        let upgrader = Upgrader {
            connections: Arc::new(shared),
            origins: options.origins,
            message_bytes: options.message_bytes,
            metrics: Arc::clone(metrics),
            tasks: tasks.clone(),
            draining: draining.clone(),
        };
        let (broker, feed) = (Arc::clone(broker), Arc::clone(feed));
        let gauges = GaugeReader { connections: Arc::clone(&connections), hub, broker, feed };
        let (upgrader, gauges) = (Arc::new(upgrader), Arc::new(gauges));
        Self { upgrader, logs, gauges, connections, tasks, draining, stopping }
    }

    /// Accepts WebSockets.
    pub fn upgrader(&self) -> &Arc<Upgrader> {
        &self.upgrader
    }

    /// Reads the logs of channels.
    pub fn logs(&self) -> &Arc<LogReader> {
        &self.logs
    }

    /// Reads the values of gauges.
    pub fn gauges(&self) -> &Arc<GaugeReader> {
        &self.gauges
    }

    /// Cancelled when a shutdown begins.
    pub fn draining(&self) -> &CancellationToken {
        &self.draining
    }

    /// Accepts no new connections, closes the open ones with a code after which clients reconnect, spread over `over`
    /// so that they do not all reconnect at once, and waits for their tasks.
    pub async fn drain(&self, over: Duration) {
        self.draining.cancel();
        let outboxes = self.connections.all();
        tracing::info!(connections = outboxes.len(), ?over, "closing connections");
        let started = Instant::now();
        let count = u32::try_from(outboxes.len()).unwrap_or(u32::MAX).max(1);
        for (nth, outbox) in (0_u32..).zip(&outboxes) {
            tokio::time::sleep_until(started + over / count * nth).await;
            outbox.close(Disconnect::SHUTDOWN);
        }
        // Connections that were accepted meanwhile.
        self.connections.close_all(&Disconnect::SHUTDOWN);
        self.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(STOP_TIMEOUT, self.tasks.wait()).await.is_err() {
            tracing::warn!(connections = self.connections.len(), "some connections did not end in time");
        }
    }
}

fn command_runner(
    parts: &GatewayParts,
    hub: &Arc<Hub>,
    logs: &Arc<LogReader>,
    sockets: Arc<UserSockets>,
    tasks: TaskTracker,
) -> CommandRunner {
    let GatewayParts { feed, broker, metrics, .. } = parts;
    CommandRunner {
        subscriptions: Subscriptions {
            hub: Arc::clone(hub),
            sockets,
            presence: Arc::new(PresenceTracker::new(Arc::clone(broker), tasks)),
            identity: Arc::clone(&feed.identity),
            rates: Arc::clone(&feed.rates),
            visibility: Arc::clone(&feed.visibility),
        },
        channels: ChannelCommands {
            broker: Arc::clone(broker),
            logs: Arc::clone(logs),
            rates: Arc::clone(&feed.rates),
            sessions: Arc::clone(&parts.sessions),
        },
        rpc: RpcRunner {
            operations: Arc::clone(&parts.operations),
            executor: Arc::clone(&parts.executor),
            metrics: Arc::clone(metrics),
        },
        metrics: Arc::clone(metrics),
    }
}
