//! `presence`, `presence_stats`, `history` and `history_remove`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::answers::{Answer, failed, read};
use super::context::ServerApi;
use crate::feed::Viewer;
use crate::gateway::session::history_span;
use crate::gateway::{ChannelLog, presence_counts, present_clients};
use crate::model::{canonical_name, into_canonical_name};
use crate::protocol::ErrorCode;

/// Entries that a log may have beyond its size: those of a size that was configured before, until the next append.
const SLACK: usize = 1_000;

/// The channel to read. Publications are read by other types, too.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ChannelRequest")]
pub(super) struct ChannelInput {
    /// The name of the channel.
    pub(super) channel: String,
}

impl ChannelInput {
    /// The name under which the channel is stored and found.
    pub(super) fn name(&self) -> String {
        canonical_name(&self.channel).into_owned()
    }
}

/// The part of a log to read.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "HistoryRequest")]
pub(super) struct HistoryInput {
    /// The name of the channel.
    channel: String,
    /// The maximal number of publications; 0 reads only the position of the log, -1 all.
    #[serde(default)]
    limit: i64,
    /// The position to start from, exclusive.
    since: Option<SinceInput>,
    /// Whether the newest publications come first.
    #[serde(default)]
    reverse: bool,
}

/// A position in a log.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "HistoryPosition")]
struct SinceInput {
    /// The offset.
    #[serde(default)]
    offset: u64,
    /// The epoch of the log; empty: any.
    #[serde(default)]
    epoch: String,
}

/// Reads the name of a channel. Fails unless the channel tracks presence.
fn with_presence(api: &ServerApi, body: &[u8]) -> Result<String, ErrorCode> {
    let name = read::<ChannelInput>(body)?.name();
    let channel = api.sessions.channels.find(&name).ok_or(ErrorCode::UNKNOWN_CHANNEL)?;
    if channel.has_presence() { Ok(name) } else { Err(ErrorCode::NOT_AVAILABLE) }
}

pub(super) async fn presence(api: &ServerApi, body: &[u8]) -> Answer {
    let name = with_presence(api, body)?;
    let limit = api.sessions.client.presence_limit;
    let present = api.feed.base.broker.presence(&name, limit).await.map_err(|error| failed(&error.into()))?;
    Ok(json!({ "presence": present_clients(present) }))
}

pub(super) async fn presence_stats(api: &ServerApi, body: &[u8]) -> Answer {
    let name = with_presence(api, body)?;
    let stats = api.feed.base.broker.presence_stats(&name).await.map_err(|error| failed(&error.into()))?;
    serde_json::to_value(presence_counts(stats)).map_err(|_| ErrorCode::INTERNAL)
}

pub(super) async fn history(api: &ServerApi, body: &[u8]) -> Answer {
    let HistoryInput { channel, limit, since, reverse } = read(body)?;
    let name = into_canonical_name(channel);
    let sessions = &api.sessions;
    let channel = sessions.channels.find(&name).ok_or(ErrorCode::UNKNOWN_CHANNEL)?;
    if !channel.has_log() {
        return Err(ErrorCode::NOT_AVAILABLE);
    }
    let retention = sessions.channels.retention(&channel);
    let all = retention.map_or(sessions.client.history_limit, |kept| usize::try_from(kept.size).unwrap_or(usize::MAX));
    let all = all.saturating_add(SLACK);
    let limit = usize::try_from(limit).map_or(all, |limit| limit.min(all));
    let offset = since.as_ref().map(|since| since.offset);
    let span = history_span(offset, limit, reverse);
    let epoch = since.map(|since| since.epoch).filter(|epoch| !epoch.is_empty());
    // A list is for its owner alone.
    let audience = channel.audience(None).ok_or(ErrorCode::NOT_AVAILABLE)?;
    let log = ChannelLog { name: &name, audience, viewer: Viewer::Backend };
    match api.logs.read_history(&log, span, epoch.as_deref()).await {
        Ok(Some(result)) => serde_json::to_value(result).map_err(|_| ErrorCode::INTERNAL),
        Ok(None) => Err(ErrorCode::UNRECOVERABLE_POSITION),
        Err(error) => Err(failed(&error)),
    }
}

pub(super) async fn history_remove(api: &ServerApi, body: &[u8]) -> Answer {
    let name = read::<ChannelInput>(body)?.name();
    let channel = api.sessions.channels.find(&name).ok_or(ErrorCode::UNKNOWN_CHANNEL)?;
    if !channel.is_app() {
        // The feed's own channels contain only data of the ledger.
        return Err(ErrorCode::PERMISSION_DENIED);
    }
    if !channel.has_log() {
        return Err(ErrorCode::NOT_AVAILABLE);
    }
    api.feed.base.broker.clear_log(&name).await.map_err(|error| failed(&error.into()))?;
    Ok(json!({}))
}
