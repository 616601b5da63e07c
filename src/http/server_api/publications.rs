//! `publish` and `broadcast`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::StreamExt;
use futures::stream::iter;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::answers::{Answer, failed, read, to_body};
use super::channels::ChannelInput;
use super::context::ServerApi;
use crate::broker::Append;
use crate::model::{Entry, Position};
use crate::protocol::{ErrorCode, is_portable, present, publication_members};

/// The number of channels of one broadcast that are written concurrently.
const MAX_CONCURRENT_WRITES: usize = 16;

/// The maximal number of channels of one broadcast.
const MAX_CHANNELS: usize = 10_000;

/// A publication, and the options of its storage.
#[derive(Deserialize)]
struct PublicationInput {
    #[serde(default, deserialize_with = "present")]
    data: Option<Box<RawValue>>,
    #[serde(default)]
    b64data: String,
    #[serde(default)]
    skip_history: bool,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    #[serde(default)]
    idempotency_key: String,
    #[serde(default)]
    version: u64,
    #[serde(default)]
    version_epoch: String,
}

#[derive(Deserialize)]
struct BroadcastInput {
    channels: Vec<String>,
}

pub(super) async fn publish(api: &ServerApi, body: &[u8]) -> Answer {
    let channel = read::<ChannelInput>(body)?.channel;
    let publication = read::<PublicationInput>(body)?;
    let entry = publication.entry()?;
    publish_to(api, &channel, &publication, &entry).await
}

pub(super) async fn broadcast(api: &ServerApi, body: &[u8]) -> Answer {
    let channels = read::<BroadcastInput>(body)?.channels;
    let publication = read::<PublicationInput>(body)?;
    if channels.is_empty() || channels.len() > MAX_CHANNELS {
        return Err(ErrorCode::BAD_REQUEST);
    }
    let entry = publication.entry()?;
    let (publication, entry) = (&publication, &entry);
    let each =
        iter(channels).map(|channel| async move { to_body(publish_to(api, &channel, publication, entry).await) });
    let responses: Vec<Value> = each.buffered(MAX_CONCURRENT_WRITES).collect().await;
    Ok(json!({ "responses": responses }))
}

impl PublicationInput {
    fn entry(&self) -> Result<Entry, ErrorCode> {
        let decoded;
        let data = if self.b64data.is_empty() {
            self.data.as_ref().ok_or(ErrorCode::BAD_REQUEST)?.get()
        } else {
            let bytes = BASE64_STANDARD.decode(&self.b64data).map_err(|_| ErrorCode::BAD_REQUEST)?;
            decoded = serde_json::from_slice::<Box<RawValue>>(&bytes).map_err(|_| ErrorCode::BAD_REQUEST)?;
            decoded.get()
        };
        if !is_portable(data) {
            return Err(ErrorCode::BAD_REQUEST);
        }
        Ok(Entry::Data(publication_members(data, None, Some(&self.tags))))
    }
}

async fn publish_to(api: &ServerApi, name: &str, publication: &PublicationInput, entry: &Entry) -> Answer {
    let sessions = &api.sessions;
    if name.is_empty() || name.len() > sessions.channel_length {
        return Err(ErrorCode::BAD_REQUEST);
    }
    let channel = sessions.channels.find(name).ok_or(ErrorCode::UNKNOWN_CHANNEL)?;
    if !channel.is_app() {
        // The feed's own channels contain only data of the ledger.
        return Err(ErrorCode::PERMISSION_DENIED);
    }
    let retention = sessions.channels.retention(&channel).filter(|_| !publication.skip_history);
    let appended = match retention {
        None => api.broker.publish(name, entry).await,
        Some(retention) => {
            let idempotency_key = Some(publication.idempotency_key.as_str()).filter(|key| !key.is_empty());
            let version = (publication.version > 0).then_some((publication.version, &*publication.version_epoch));
            api.broker.append(Append { channel: name, entry, retention, idempotency_key, version }).await
        }
    };
    match appended {
        Ok(appended) if retention.is_some() => Ok(position(&appended.position)),
        Ok(_) => Ok(json!({})),
        Err(error) => Err(failed(&error.into())),
    }
}

fn position(position: &Position) -> Value {
    json!({ "offset": position.offset, "epoch": &*position.epoch })
}
