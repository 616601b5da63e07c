//! `publish` and `broadcast`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::answers::{Answer, failed, read};
use super::channels::ChannelInput;
use super::context::ServerApi;
use super::json_data::decode_base64_json;
use crate::broker::{self, Append, AppendOutcome, Broadcast};
use crate::model::{Entry, Epoch, Retention, canonical_name};
use crate::protocol::{ErrorCode, is_portable, present, publication_members};

/// The maximal number of channels of one broadcast.
const MAX_CHANNELS: usize = 10_000;

/// A publication, and the options of its storage.
#[derive(Deserialize, JsonSchema)]
struct PublicationInput {
    /// The data: any JSON. Required unless `b64data` is given.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "serde_json::Value")]
    data: Option<Box<RawValue>>,
    /// The data as base64 of JSON, instead of `data`.
    #[serde(default)]
    b64data: String,
    /// Whether the log does not keep it.
    #[serde(default)]
    skip_history: bool,
    /// Tags that subscribers receive with it.
    #[serde(default)]
    tags: BTreeMap<String, String>,
    /// A repeat with the same key on the same channel within 5 minutes is not published again.
    #[serde(default)]
    idempotency_key: String,
    /// A publication whose version is not higher than the last one is ignored; 0: no version. Channels with a history
    /// only.
    #[serde(default)]
    version: u64,
    /// Versions of another epoch are always higher.
    #[serde(default)]
    version_epoch: String,
}

/// The channels of a broadcast.
#[derive(Deserialize, JsonSchema)]
struct BroadcastInput {
    /// The names of the channels, at most 10,000.
    channels: Vec<String>,
}

/// The response for one channel: `{"result":{…}}` or `{"error":{…}}`. Encoded without a `Value`, since a broadcast has
/// thousands.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum ChannelAnswer {
    Result(Published),
    Error { code: u32, message: &'static str },
}

/// The position of a publication; empty if the channel keeps no history.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PublishResult")]
pub(super) struct Published {
    /// The offset of the publication.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    /// The epoch of the log.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "epoch_text")]
    #[schemars(with = "Option<String>")]
    epoch: Option<Epoch>,
}

/// The input of `publish`.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes an input that is read in two parts")]
#[schemars(rename = "PublishRequest")]
pub(super) struct PublishInput {
    #[serde(flatten)]
    channel: ChannelInput,
    #[serde(flatten)]
    publication: PublicationInput,
}

/// The input of `broadcast`.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes an input that is read in two parts")]
pub(super) struct BroadcastRequest {
    #[serde(flatten)]
    channels: BroadcastInput,
    #[serde(flatten)]
    publication: PublicationInput,
}

pub(super) async fn publish(api: &ServerApi, body: &[u8]) -> Answer {
    let channel = read::<ChannelInput>(body)?.name();
    let publication = read::<PublicationInput>(body)?;
    let entry = publication.entry()?;
    let published = match publication.retention(api, &channel)? {
        None => {
            let key = publication.idempotency_key();
            let published = api.feed.base.broker.publish_on_all(&[&channel], &entry, key).await.pop();
            without_history(published.ok_or(ErrorCode::INTERNAL)?)?
        }
        Some(retention) => {
            let idempotency_key = publication.idempotency_key();
            let version = publication.version();
            let append = Append { channel: &channel, entry: &entry, retention, idempotency_key, version };
            with_history(api.feed.base.broker.append(append).await)?
        }
    };
    serde_json::to_value(published).map_err(|_| ErrorCode::INTERNAL)
}

/// Answers `broadcast`, as the text of the result: it may have many thousand members.
pub(super) async fn broadcast(api: &ServerApi, body: &[u8]) -> Result<String, ErrorCode> {
    let channels = read::<BroadcastInput>(body)?.channels;
    let channels: Vec<_> = channels.iter().map(|name| canonical_name(name)).collect();
    let publication = read::<PublicationInput>(body)?;
    if channels.is_empty() || channels.len() > MAX_CHANNELS {
        return Err(ErrorCode::BAD_REQUEST);
    }
    let entry = publication.entry()?;
    let mut answers: Vec<Result<Published, ErrorCode>> = Vec::with_capacity(channels.len());
    // Channels by the history that they keep: usually all of one namespace.
    let mut groups: Vec<(Option<Retention>, Vec<usize>)> = Vec::new();
    for (at, channel) in channels.iter().enumerate() {
        let retention = publication.retention(api, channel);
        // Replaced by the answer of the broker.
        answers.push(Err(retention.err().unwrap_or(ErrorCode::INTERNAL)));
        let Ok(retention) = retention else { continue };
        match groups.iter_mut().find(|(other, _)| *other == retention) {
            Some((_, group)) => group.push(at),
            None => groups.push((retention, vec![at])),
        }
    }
    for (retention, group) in groups {
        let names: Vec<&str> = group.iter().map(|at| &*channels[*at]).collect();
        let published = publication.publish_to_group(api, &entry, retention, &names).await;
        group.into_iter().zip(published).for_each(|(at, published)| answers[at] = published);
    }
    let responses: Vec<ChannelAnswer> = answers.into_iter().map(ChannelAnswer::from).collect();
    let responses = serde_json::to_string(&responses).map_err(|_| ErrorCode::INTERNAL)?;
    Ok(format!(r#"{{"responses":{responses}}}"#))
}

impl PublicationInput {
    fn entry(&self) -> Result<Entry, ErrorCode> {
        let decoded;
        let data = if self.b64data.is_empty() {
            self.data.as_ref().ok_or(ErrorCode::BAD_REQUEST)?.get()
        } else {
            decoded = decode_base64_json(&self.b64data)?;
            decoded.get()
        };
        if !is_portable(data) {
            return Err(ErrorCode::BAD_REQUEST);
        }
        Ok(Entry::Data(publication_members(data, None, Some(&self.tags))))
    }

    fn idempotency_key(&self) -> Option<&str> {
        Some(self.idempotency_key.as_str()).filter(|key| !key.is_empty())
    }

    fn version(&self) -> Option<(u64, &str)> {
        (self.version > 0).then_some((self.version, &*self.version_epoch))
    }

    /// How much of the channel's log is kept; `None` if the publication is not stored.
    fn retention(&self, api: &ServerApi, name: &str) -> Result<Option<Retention>, ErrorCode> {
        let sessions = &api.sessions;
        if name.is_empty() || name.len() > sessions.client.channel_length {
            return Err(ErrorCode::BAD_REQUEST);
        }
        let channel = sessions.channels.find(name).ok_or(ErrorCode::UNKNOWN_CHANNEL)?;
        if !channel.is_app() {
            // The feed's own channels contain only data of the ledger.
            return Err(ErrorCode::PERMISSION_DENIED);
        }
        Ok(sessions.channels.retention(&channel).filter(|_| !self.skip_history))
    }

    /// Publishes to channels that keep the same history.
    async fn publish_to_group(
        &self,
        api: &ServerApi,
        entry: &Entry,
        retention: Option<Retention>,
        channels: &[&str],
    ) -> Vec<Result<Published, ErrorCode>> {
        let Some(retention) = retention else {
            let published = api.feed.base.broker.publish_on_all(channels, entry, self.idempotency_key()).await;
            return published.into_iter().map(without_history).collect();
        };
        let idempotency_key = self.idempotency_key();
        let version = self.version();
        let broadcast = Broadcast { channels, entry, retention, idempotency_key, version };
        api.feed.base.broker.broadcast(broadcast).await.into_iter().map(with_history).collect()
    }
}

impl From<Result<Published, ErrorCode>> for ChannelAnswer {
    fn from(answer: Result<Published, ErrorCode>) -> Self {
        match answer {
            Ok(published) => Self::Result(published),
            Err(ErrorCode { code, message, .. }) => Self::Error { code, message },
        }
    }
}

fn with_history(appended: broker::Result<AppendOutcome>) -> Result<Published, ErrorCode> {
    let position = appended.map_err(|error| failed(&error.into()))?.position;
    Ok(Published { offset: Some(position.offset), epoch: Some(position.epoch) })
}

fn without_history(published: broker::Result<AppendOutcome>) -> Result<Published, ErrorCode> {
    published.map_err(|error| failed(&error.into()))?;
    Ok(Published { offset: None, epoch: None })
}

fn epoch_text<S: serde::Serializer>(epoch: &Option<Epoch>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(epoch.as_deref().unwrap_or_default())
}
