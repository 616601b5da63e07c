//! The parts that all connections of a node share.

use std::sync::Arc;

use super::clock::SessionClock;
use crate::feed::Base;
use crate::gateway::commands::runner::CommandRunner;
use crate::gateway::registry::connections::ConnectionRegistry;
use crate::gateway::registry::user_connections::UserConnections;
use crate::gateway::session::SessionOptions;
use crate::gateway::wire::write_pacer::WritePacer;

/// The parts that all connections of a node share.
pub(crate) struct ConnectionShared {
    pub(crate) sessions: Arc<SessionOptions>,
    pub(crate) clock: SessionClock,
    pub(crate) commands: Arc<CommandRunner>,
    /// The cap on connections of one user.
    pub(crate) users: Arc<UserConnections>,
    /// A connection is registered from its start until it is dropped.
    pub(crate) connections: Arc<ConnectionRegistry>,
    pub(crate) base: Arc<Base>,
    /// Wakes connections that have something to write.
    pub(crate) pacer: Arc<WritePacer>,
}
