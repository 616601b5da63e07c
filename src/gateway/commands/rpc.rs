//! Executes `rpc`: operations over a connection.

use std::sync::Arc;
use std::time::Instant;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::hook_runner::HookRunner;
use super::outcome::CommandOutcome;
use super::subscriptions::credential_of;
use crate::api::operations::Operations;
use crate::api::{Executor, Request, has_input};
use crate::feed::{Caller, FeedError, Origin};
use crate::gateway::session::{RpcCall, disconnect, error_reply};
use crate::gateway::wire::message_format::MessageFormat;
use crate::hooks::{HookAnswer, json_of};
use crate::metrics::Metrics;
use crate::protocol::{ErrorCode, Reply, ReplyBody, ReplyError, is_portable, to_portable};
use crate::telemetry::{NewTrace, Tracer, Trust};

/// Runs operations for clients.
pub(crate) struct RpcRunner {
    pub(crate) operations: Arc<Operations>,
    pub(crate) executor: Arc<Executor>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tracer: Tracer,
    pub(crate) hooks: Arc<HookRunner>,
}

impl RpcRunner {
    pub(crate) async fn run(&self, call: RpcCall, format: MessageFormat) -> CommandOutcome {
        let find = |has_input| self.operations.by_rpc(&call.method, has_input);
        let Some(without_input) = find(false) else {
            return if self.hooks.has_rpc() {
                self.ask(call, format).await
            } else {
                CommandOutcome::refused(call.id, ErrorCode::NOT_AVAILABLE)
            };
        };
        let input = match call.data.as_ref().map(|data| serde_json::from_str(data.get())) {
            None | Some(Ok(Value::Null)) => Value::Object(Map::new()),
            Some(Ok(input @ Value::Object(_))) => input,
            Some(_) => return CommandOutcome::refused(call.id, ErrorCode::BAD_REQUEST),
        };
        let operation = find(input.as_object().is_some_and(has_input)).unwrap_or(without_input);
        let caller = call.user.map_or(Caller::Anonymous, Caller::User);
        let credential = credential_of(caller.reader(), call.token);
        let origin = Origin::Connection(call.address);
        let client = Some(call.client);
        let begun = Instant::now();
        let mut span = self.tracer.begin(|| NewTrace {
            name: format!("rpc {}", operation.name).into(),
            parent: None,
            trust: Trust::Client,
            begun,
        });
        span.set("rpc.method", operation.name);
        span.set("feedline.operation", operation.name);
        let request = Request { caller, credential, origin, client, key: None, input, trace: span.context() };
        let result = self.executor.run(operation, request).await;
        let outcome = result.as_ref().map_or_else(FeedError::code, |_| "ok");
        span.set("feedline.outcome", outcome);
        if result.as_ref().is_err_and(|error| error.status() >= 500) {
            span.fail(outcome);
        }
        span.end();
        self.metrics.requests.operation(operation.name, outcome, begun.elapsed());
        match result.map(|output| String::from_utf8(output.into()).map(RawValue::from_string)) {
            Ok(Ok(Ok(data))) => CommandOutcome::done(call.id, ReplyBody::Rpc { data }),
            Ok(_) => CommandOutcome::refused(call.id, ErrorCode::INTERNAL),
            Err(error) => {
                let code = ErrorCode { code: error.status().into(), message: "", temporary: error.is_temporary() };
                let message = Some(error.to_rpc_message());
                let field = error.field().map(str::to_owned);
                CommandOutcome::Reply(Reply { id: call.id, result: Err(ReplyError { code, message, field }) })
            }
        }
    }

    /// Asks the application's backend for the reply.
    async fn ask(&self, call: RpcCall, format: MessageFormat) -> CommandOutcome {
        let failed = CommandOutcome::refused(call.id, ErrorCode::INTERNAL);
        if call.data.as_ref().is_some_and(|data| !is_portable(data.get())) {
            return CommandOutcome::refused(call.id, ErrorCode::BAD_REQUEST);
        }
        match self.hooks.rpc(&call, format).await {
            Ok(HookAnswer::Result(answer)) => match json_of(answer.data, &answer.b64data) {
                Ok(None) => CommandOutcome::done(call.id, ReplyBody::Rpc { data: Box::default() }),
                // Every client must be able to decode it.
                Ok(Some(data)) => match to_portable(&data) {
                    Some(data) => CommandOutcome::done(call.id, ReplyBody::Rpc { data }),
                    None => failed,
                },
                Err(_) => failed,
            },
            Ok(HookAnswer::Error(error)) => CommandOutcome::Reply(error_reply(call.id, error)),
            Ok(HookAnswer::Disconnect(close)) => CommandOutcome::Rejected(disconnect(close)),
            Err(_) => failed,
        }
    }
}
