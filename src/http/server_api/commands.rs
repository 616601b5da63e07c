//! Many commands in one request: `/api/batch`, and `/api`, whose body is a sequence of commands.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::answers::{ApiError, read, to_body};
use super::context::{BackendCaller, ServerApi};
use super::dispatch;
use crate::protocol::ErrorCode;

/// The maximal number of commands of one request.
pub(in crate::http) const MAX_COMMANDS: usize = 10_000;

/// Commands of a parallel batch that run at once.
const MAX_CONCURRENT: usize = 16;

/// The input of a method that has none.
const NO_PARAMS: &str = "{}";

/// The body of `batch`.
#[derive(Deserialize)]
struct BatchInput {
    /// Each command is an object whose only member is the input of the method that it is named after.
    commands: Vec<BTreeMap<String, Box<RawValue>>>,
    /// Whether commands run in any order.
    #[serde(default)]
    parallel: bool,
}

/// A command of the body of `/api`.
#[derive(Deserialize)]
struct ServerCommand {
    /// Repeated in the reply.
    #[serde(default)]
    id: u32,
    /// The method.
    #[serde(default)]
    method: String,
    /// Its input.
    params: Option<Box<RawValue>>,
}

/// Runs the commands of `batch`. Returns the body of the response: the replies are in the order of the commands, each
/// with the result under the method's name, or the error.
pub(super) async fn batch(api: &ServerApi, caller: &BackendCaller, body: &[u8]) -> Result<String, ApiError> {
    let BatchInput { commands, parallel } = read(body)?;
    if commands.len() > MAX_COMMANDS {
        return Err(ErrorCode::BAD_REQUEST.into());
    }
    let concurrent = if parallel { MAX_CONCURRENT } else { 1 };
    let running: Vec<_> = commands.iter().map(|command| batch_reply(api, caller, command)).collect();
    let replies: Vec<String> = stream::iter(running).buffered(concurrent).collect().await;
    Ok(format!(r#"{{"replies":[{}]}}"#, replies.join(",")))
}

async fn batch_reply(api: &ServerApi, caller: &BackendCaller, command: &BTreeMap<String, Box<RawValue>>) -> String {
    let mut members = command.iter();
    let (Some((method, params)), None) = (members.next(), members.next()) else {
        return to_body(&Err(ErrorCode::BAD_REQUEST.into()));
    };
    match dispatch::call(api, caller, method, params.get().as_bytes()).await {
        Ok(result) => format!(r#"{{{}:{result}}}"#, Value::from(method.as_str())),
        Err(error) => to_body(&Err(error)),
    }
}

/// Runs the commands of `/api`, one after another. Returns the body of the response: a line for each reply. `None` if
/// the body is not a sequence of commands.
pub(super) async fn sequence(api: &ServerApi, caller: &BackendCaller, body: &[u8]) -> Option<String> {
    let values = serde_json::Deserializer::from_slice(body).into_iter::<Box<RawValue>>();
    let commands: Option<Vec<ServerCommand>> =
        values.take(MAX_COMMANDS + 1).map(|value| read(value.ok()?.get().as_bytes()).ok()).collect();
    let commands = commands.filter(|commands| !commands.is_empty() && commands.len() <= MAX_COMMANDS)?;
    let mut replies = Vec::with_capacity(commands.len());
    for ServerCommand { id, method, params } in &commands {
        let params = params.as_ref().map_or(NO_PARAMS, |params| params.get());
        let answer = dispatch::call(api, caller, method, params.as_bytes()).await;
        let reply = to_body(&answer);
        replies.push(if *id == 0 { reply } else { format!(r#"{{"id":{id},{}"#, &reply[1..]) });
    }
    Some(replies.join("\n"))
}
