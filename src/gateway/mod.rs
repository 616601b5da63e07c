//! Connections: from the accepted TCP connection to the feed, and from the hub back to the client.
//!
//! | folder | what is in it |
//! |---|---|
//! | [`accept`] | from the accepted TCP connection to a connection of a client: listener, handshake, limits |
//! | `connection` | the task of one connection: start here |
//! | [`session`] | the pure state machine of one client: a command goes in, an action comes out |
//! | `commands` | executes what takes time: subscriptions, publications, presence, operations, hooks |
//! | [`channels`] | the channels, the rights of clients there, and what a subscription has |
//! | [`hub`] | the clients of this node by channel, and what they receive |
//! | `registry` | the connections of this node by client and by user, and what closes them |
//! | [`wire`] | messages in the format of a connection, and the send queue of one socket |
//! | `transport` | WebSockets, HTTP streams and server-sent events |
//! | [`node`] | messages between nodes, receipts of likes, gauges |
//!
//! A folder uses those that this order names after it, and never the other way round: `node`, `accept`, `connection`,
//! `commands`, `hub`, `registry`, `transport`, `wire`, `session`, `channels`. `scripts/check-cycles --folders gateway`
//! checks that there is no circle.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::Executor;
use crate::api::operations::Operations;
use crate::feed::{Base, ConnectedUsers, Feed};
use crate::hooks::Hooks;
use crate::net::AllowedOrigins;
use crate::protocol::Disconnect;
use crate::reloadable::Reloadable;
use crate::supervisor::supervise;

pub mod accept;
pub mod channels;
mod commands;
mod connection;
pub mod hub;
pub mod node;
mod registry;
pub mod session;
mod transport;
pub mod wire;

pub use channels::pattern::ChannelPattern;
pub use commands::presence::{presence_counts, present_clients};
pub use hub::log_reader::{ChannelLog, LogReader};
pub use node::gauges::GaugeReader;
pub use node::survey::NodeSurvey;

use accept::admission::Admission;
use accept::stream_opener::StreamOpener;
use accept::upgrade::Upgrader;
use commands::channel_commands::ChannelCommands;
use commands::channel_occupancy::ChannelOccupancy;
use commands::hook_runner::HookRunner;
use commands::presence_tracker::{PresenceTracker, presence_ttl};
use commands::rpc::RpcRunner;
use commands::runner::CommandRunner;
use commands::single_connection::SingleConnection;
use commands::subscriptions::Subscriptions;
use connection::clock::SessionClock;
use connection::shared::ConnectionShared;
use hub::room_queue::RoomQueue;
use hub::rooms::RoomTable;
use hub::{Broadcaster, Hub, HubParts};
use node::dispatcher::MessageDispatcher;
use node::emulation::Emulation;
use node::like_receipts::LikeReceipts;
use node::socket_prober::SocketProber;
use registry::access_watcher::AccessWatcher;
use registry::connections::ConnectionRegistry;
use registry::revocation_watcher::RevocationWatcher;
use registry::sockets::UserSockets;
use registry::user_connections::UserConnections;
use session::SessionOptions;
use transport::stream_sessions::StreamSessions;
use wire::write_pacer::WritePacer;

/// How long a shutdown waits for the tasks of connections: a close handshake is bounded, and so are commands.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// The parts that a gateway uses.
pub struct GatewayParts {
    /// The feed.
    pub feed: Arc<Feed>,
    /// The table of operations.
    pub operations: Arc<Operations>,
    /// Runs operations.
    pub executor: Arc<Executor>,
    /// The settings of sessions.
    pub sessions: Arc<SessionOptions>,
    /// Asks the application's backend, if it is to be asked.
    pub hooks: Option<Arc<Hooks>>,
    /// Browser origins that may connect besides the page's own host.
    pub origins: Reloadable<AllowedOrigins>,
    /// The name of this node, for people.
    pub node_name: String,
}

/// The connections of this node: built here, closed by [`drain`](Self::drain).
pub struct Gateway {
    upgrader: Arc<Upgrader>,
    streams: Arc<StreamOpener>,
    emulation: Arc<Emulation>,
    logs: Arc<LogReader>,
    gauges: Arc<GaugeReader>,
    nodes: Arc<NodeSurvey>,
    connections: Arc<ConnectionRegistry>,
    tasks: TaskTracker,
    /// No new connections are accepted.
    draining: CancellationToken,
    /// Background tasks end.
    stopping: CancellationToken,
}

impl Gateway {
    /// A gateway that listens to the broker and has no connections yet.
    pub fn new(parts: &GatewayParts) -> Self {
        let limits = &parts.sessions.client;
        let feed = &parts.feed;
        let Base { broker, metrics, .. } = &*feed.base;
        let tasks = TaskTracker::new();
        let draining = CancellationToken::new();
        let stopping = CancellationToken::new();
        let connections = Arc::new(ConnectionRegistry::default());
        let sessions = Arc::new(StreamSessions::default());
        let devices = Arc::downgrade(&feed.device_usage);
        let sockets = Arc::new(UserSockets::new(Arc::clone(&sessions), feed.outlet.users(), devices));
        let connected: Weak<dyn ConnectedUsers> = Arc::<UserSockets>::downgrade(&sockets);
        feed.device_usage.set_local(connected);
        let broadcaster = Arc::new(Broadcaster::new(Arc::clone(metrics), feed.live_sockets.receipts().cloned()));
        let logs = LogReader::new(Arc::clone(broker), Arc::clone(&feed.inboxes), Arc::clone(&feed.event_renderer));
        let logs = Arc::new(logs);
        let rooms = Arc::new(RoomTable::default());
        let queue = Arc::new(RoomQueue::new());
        let nodes = Arc::new(NodeSurvey::new(
            parts.node_name.clone(),
            Arc::clone(broker),
            Arc::clone(&connections),
            Arc::clone(&sockets),
            Arc::clone(&rooms),
            tasks.clone(),
        ));
        let hub = Arc::new(Hub::new(&HubParts {
            feed,
            logs: &logs,
            broadcaster: &broadcaster,
            rooms: &rooms,
            queue: &queue,
            recovery_limit: limits.recovery_limit,
        }));
        broker.listen(Arc::new(MessageDispatcher {
            rooms: Arc::clone(&rooms),
            queue,
            broadcaster: Arc::clone(&broadcaster),
            sockets: Arc::clone(&sockets),
            sessions: Arc::clone(&sessions),
            nodes: Arc::downgrade(&nodes),
            feed: Arc::downgrade(feed),
        }));
        hub.start(&tasks, &stopping);
        let pacer = Arc::new(WritePacer::default());
        let pacing = Arc::clone(&pacer);
        let stop = stopping.clone();
        tasks.spawn(async move {
            let service = Arc::clone(&pacing);
            let paced = supervise("write_pacer", &stop, service, |pacer| async move { pacer.run().await });
            stop.run_until_cancelled(paced).await;
            pacing.stop();
        });

        let receipts = LikeReceipts {
            settlements: Arc::clone(&feed.settlements),
            connections: Arc::clone(&connections),
            hub: Arc::clone(&hub),
            broadcaster,
        };
        let supervised = Supervised { tasks: &tasks, stopping: &stopping };
        supervised.spawn("like_receipts", receipts, |receipts| async move { receipts.run().await });
        let revocations = RevocationWatcher {
            checks: Arc::clone(&feed.authorization_checks),
            identity: Arc::clone(&feed.base.identity),
            sockets: Arc::clone(&sockets),
        };
        supervised.spawn("revocation_watcher", revocations, |revocations| async move { revocations.run().await });

        let access = AccessWatcher {
            checks: Arc::clone(&feed.access_checks),
            sockets: Arc::clone(&sockets),
            connections: Arc::clone(&connections),
            rooms: Arc::clone(&rooms),
            posts: Arc::clone(&feed.base.posts),
        };
        supervised.spawn("access_watcher", access, |access| async move { access.run().await });

        feed.live_sockets.set_local(Arc::new(SocketProber { rooms: Arc::clone(&rooms) }));
        let commands = command_runner(parts, &hub, &logs, sockets, tasks.clone());
        let shared = ConnectionShared {
            sessions: Arc::clone(&parts.sessions),
            clock: SessionClock::new(),
            commands: Arc::new(commands),
            users: UserConnections::new(limits.connections_per_user),
            connections: Arc::clone(&connections),
            base: Arc::clone(&feed.base),
            pacer,
        };
        let admission = Arc::new(Admission {
            connections: Arc::new(shared),
            origins: parts.origins.clone(),
            message_bytes: limits.message_bytes,
            metrics: Arc::clone(metrics),
            tasks: tasks.clone(),
            draining: draining.clone(),
        });
        let node = Arc::clone(broker.node());
        let upgrader =
            Upgrader { admission: Arc::clone(&admission), sessions: Arc::clone(&sessions), node: Arc::clone(&node) };
        let streams = StreamOpener { admission, sessions: Arc::clone(&sessions), node };
        let emulation = Emulation { sessions, base: Arc::clone(&feed.base), message_bytes: limits.message_bytes };
        let broker = Arc::clone(broker);
        let feed = Arc::clone(feed);
        let gauges = GaugeReader { connections: Arc::clone(&connections), hub, broker, feed };
        let upgrader = Arc::new(upgrader);
        let gauges = Arc::new(gauges);
        let streams = Arc::new(streams);
        let emulation = Arc::new(emulation);
        Self { upgrader, streams, emulation, logs, gauges, nodes, connections, tasks, draining, stopping }
    }

    /// Accepts WebSockets.
    pub fn upgrader(&self) -> &Arc<Upgrader> {
        &self.upgrader
    }

    /// Opens HTTP streams and server-sent events.
    pub fn streams(&self) -> &Arc<StreamOpener> {
        &self.streams
    }

    /// Passes commands to these.
    pub fn emulation(&self) -> &Arc<Emulation> {
        &self.emulation
    }

    /// Reads the logs of channels.
    pub fn logs(&self) -> &Arc<LogReader> {
        &self.logs
    }

    /// Reads the values of gauges.
    pub fn gauges(&self) -> &Arc<GaugeReader> {
        &self.gauges
    }

    /// Asks all nodes.
    pub fn nodes(&self) -> &Arc<NodeSurvey> {
        &self.nodes
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

/// Starts tasks that are cancelled at the stop.
struct Supervised<'a> {
    tasks: &'a TaskTracker,
    stopping: &'a CancellationToken,
}

impl Supervised<'_> {
    fn spawn<S, F>(&self, task: &'static str, service: S, run: impl Fn(Arc<S>) -> F + Send + Sync + 'static)
    where
        S: Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = self.stopping.clone();
        let service = Arc::new(service);
        self.tasks.spawn(async move { stop.run_until_cancelled(supervise(task, &stop, service, run)).await });
    }
}

fn command_runner(
    parts: &GatewayParts,
    hub: &Arc<Hub>,
    logs: &Arc<LogReader>,
    sockets: Arc<UserSockets>,
    tasks: TaskTracker,
) -> CommandRunner {
    let feed = &parts.feed;
    let Base { broker, metrics, .. } = &*feed.base;
    let limits = &parts.sessions.client;
    let hooks = Arc::new(HookRunner { hooks: parts.hooks.clone() });
    let occupancy = feed.outlet.channels().map(ChannelOccupancy::new).map(Arc::new);
    let ttl = presence_ttl(limits.ping_interval, limits.pong_timeout);
    let single = limits.single_connection.then(|| SingleConnection { broker: Arc::clone(broker) });
    CommandRunner {
        subscriptions: Subscriptions {
            hub: Arc::clone(hub),
            sockets,
            presence: Arc::new(PresenceTracker::new(Arc::clone(broker), tasks, ttl, occupancy)),
            base: Arc::clone(&feed.base),
            single,
        },
        channels: ChannelCommands {
            hub: Arc::clone(hub),
            base: Arc::clone(&feed.base),
            logs: Arc::clone(logs),
            sessions: Arc::clone(&parts.sessions),
        },
        rpc: RpcRunner {
            operations: Arc::clone(&parts.operations),
            executor: Arc::clone(&parts.executor),
            metrics: Arc::clone(metrics),
            tracer: parts.feed.base.tracer.clone(),
            hooks: Arc::clone(&hooks),
        },
        hooks,
        metrics: Arc::clone(metrics),
    }
}
