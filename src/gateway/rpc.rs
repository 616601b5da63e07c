//! Executes `rpc`: operations over a connection.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::command_outcome::CommandOutcome;
use super::session::RpcCall;
use crate::api::operations::Operations;
use crate::api::{Executor, Request};
use crate::feed::{Caller, Credential, FeedError, Origin};
use crate::metrics::Metrics;
use crate::protocol::{ErrorCode, ReplyBody, reply, reply_error};

/// Runs operations for clients.
pub(super) struct RpcRunner {
    pub(super) operations: Arc<Operations>,
    pub(super) executor: Arc<Executor>,
    pub(super) metrics: Arc<Metrics>,
}

impl RpcRunner {
    pub(super) async fn run(&self, call: RpcCall) -> CommandOutcome {
        let Some(operation) = self.operations.by_rpc(&call.method) else {
            return CommandOutcome::refused(call.id, ErrorCode::NOT_AVAILABLE);
        };
        let input = match call.data.as_ref().map(|data| serde_json::from_str(data.get())) {
            None | Some(Ok(Value::Null)) => Value::Object(Map::new()),
            Some(Ok(input @ Value::Object(_))) => input,
            Some(_) => return CommandOutcome::refused(call.id, ErrorCode::BAD_REQUEST),
        };
        let caller = call.user.map_or(Caller::Anonymous, Caller::User);
        let credential = call.token.map_or(Credential::Nothing, Credential::Token);
        let (origin, client) = (Origin::Connection(call.address), Some(call.client));
        let request = Request { caller, credential, origin, client, key: None, input };
        let result = self.executor.run(operation, request).await;
        self.metrics.operation(operation.name, result.as_ref().map_or_else(FeedError::code, |_| "ok"));
        match result.map(|output| String::from_utf8(output.into()).map(RawValue::from_string)) {
            Ok(Ok(Ok(data))) => CommandOutcome::Reply(reply(call.id, &ReplyBody::Rpc { data })),
            Ok(_) => CommandOutcome::refused(call.id, ErrorCode::INTERNAL),
            Err(error) => {
                let message = error.to_rpc_message();
                let code = ErrorCode { code: error.status().into(), message: "", temporary: error.is_temporary() };
                CommandOutcome::Reply(reply_error(call.id, code, Some(&message), error.field()))
            }
        }
    }
}
