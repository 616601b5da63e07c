//! The parts that the server API uses.

use std::sync::Arc;

use crate::auth::ApiKeys;
use crate::broker::Broker;
use crate::feed::Feed;
use crate::gateway::LogReader;
use crate::gateway::session::SessionOptions;

/// The server API, for backends.
pub(in crate::http) struct ServerApi {
    pub(in crate::http) api_keys: Arc<ApiKeys>,
    /// The channels, and the limits on their names and reads.
    pub(in crate::http) sessions: Arc<SessionOptions>,
    pub(in crate::http) broker: Arc<dyn Broker>,
    pub(in crate::http) logs: Arc<LogReader>,
    /// Revocations, erasures and exports.
    pub(in crate::http) feed: Arc<Feed>,
}
