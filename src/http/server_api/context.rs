//! The parts that the server API uses.

use std::sync::Arc;

use crate::api::Executor;
use crate::api::operations::Operations;
use crate::auth::ApiKeys;
use crate::feed::{Caller, Credential, Feed, Origin};
use crate::gateway::session::SessionOptions;
use crate::gateway::{LogReader, NodeSurvey};
use crate::model::TraceContext;
use crate::reloadable::Reloadable;

/// The server API, for backends.
pub(in crate::http) struct ServerApi {
    pub(in crate::http) api_keys: Reloadable<ApiKeys>,
    /// The channels, and the limits on their names and reads.
    pub(in crate::http) sessions: Arc<SessionOptions>,
    pub(in crate::http) logs: Arc<LogReader>,
    /// Asks all nodes.
    pub(in crate::http) nodes: Arc<NodeSurvey>,
    /// Revocations, erasures and exports.
    pub(in crate::http) feed: Arc<Feed>,
    /// The operations for `rpc`.
    pub(in crate::http) operations: Arc<Operations>,
    pub(in crate::http) executor: Arc<Executor>,
}

/// The caller of `rpc`: the user in `X-User`, or nobody.
#[derive(Clone, Debug)]
pub(in crate::http) struct BackendCaller {
    pub(super) caller: Caller,
    pub(super) credential: Credential,
    pub(super) origin: Origin,
    /// The span of the request, if its trace is recorded.
    pub(super) trace: Option<TraceContext>,
}
