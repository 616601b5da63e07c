//! The parts that all connections of a node share.

use std::sync::Arc;
use std::time::Duration;

use super::commands::CommandRunner;
use super::connection_registry::ConnectionRegistry;
use super::outbox::Bounds;
use super::session::SessionOptions;
use super::session_clock::SessionClock;
use super::user_connections::UserConnections;
use super::write_pacer::WritePacer;
use crate::feed::IdentityService;
use crate::metrics::Metrics;

/// The parts that all connections of a node share.
pub(super) struct ConnectionShared {
    pub(super) sessions: Arc<SessionOptions>,
    pub(super) clock: SessionClock,
    pub(super) commands: Arc<CommandRunner>,
    /// The cap on connections of one user.
    pub(super) users: Arc<UserConnections>,
    /// A connection is registered from its start until it is dropped.
    pub(super) connections: Arc<ConnectionRegistry>,
    pub(super) identity: Arc<IdentityService>,
    pub(super) metrics: Arc<Metrics>,
    /// The bounds of each send queue.
    pub(super) outbox: Bounds,
    /// Wakes connections that have something to write.
    pub(super) pacer: Arc<WritePacer>,
    /// How long one write may take.
    pub(super) write_timeout: Duration,
}
