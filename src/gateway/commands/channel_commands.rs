//! What the commands `publish`, `presence`, `presence_stats` and `history` have in common.

use std::sync::Arc;

use crate::feed::Base;
use crate::gateway::hub::Hub;
use crate::gateway::hub::log_reader::LogReader;
use crate::gateway::session::SessionOptions;

/// Executes commands on channels that clients are in.
pub(crate) struct ChannelCommands {
    pub(crate) hub: Arc<Hub>,
    pub(crate) base: Arc<Base>,
    pub(crate) logs: Arc<LogReader>,
    pub(crate) sessions: Arc<SessionOptions>,
}
