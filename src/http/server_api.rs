//! Channels for backends: `POST /api/<method>` with `X-API-Key`, as Centrifugo's server API has it, so that a backend
//! written for that works here. Answers are `{"result":{…}}` or `{"error":{"code":n,"message":"…"}}`, with status 200 either way.

mod access;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::{Response, StatusCode};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::StreamExt;
use futures::stream::iter;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{BODY, Site, json_answer, problem};
use crate::broker::{Append, Span};
use crate::feed::{FeedError, Viewer};
use crate::gateway::{Log, clients, presence_counts};
use crate::model::{Entry, Position, UserId};
use crate::protocol::{ErrorCode, is_portable, present, publication_members};

type Answer = Result<Value, ErrorCode>;

/// How many channels of one broadcast are written at once.
const AT_ONCE: usize = 16;

/// How many channels one broadcast may name.
const CHANNELS: usize = 10_000;

/// A body of a broadcast to many channels is larger than other bodies.
const BROADCAST_BODY: usize = 16 * BODY;

/// What is published, and how.
#[derive(Deserialize)]
struct Publication {
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
struct Broadcast {
    channels: Vec<String>,
}

#[derive(Deserialize)]
struct OneChannel {
    channel: String,
}

#[derive(Deserialize)]
struct History {
    channel: String,
    #[serde(default)]
    limit: i64,
    since: Option<Since>,
    #[serde(default)]
    reverse: bool,
}

#[derive(Deserialize)]
struct Since {
    offset: u64,
    #[serde(default)]
    epoch: String,
}

#[derive(Deserialize)]
struct OneUser {
    user: UserId,
    /// Of an export: where the page before said to go on.
    cursor: Option<String>,
}

/// Answers `POST /api/<method>`.
pub(super) async fn serve(
    State(site): State<Arc<Site>>,
    Path(method): Path<String>,
    request: Request,
) -> Response<Body> {
    let key = request.headers().get("x-api-key").and_then(|key| key.to_str().ok()).unwrap_or_default();
    if !site.api_keys.accept(key) {
        return problem(StatusCode::UNAUTHORIZED, "unauthorized", "send an API key as X-API-Key");
    }
    let most = if method == "broadcast" { BROADCAST_BODY } else { BODY };
    let Ok(body) = to_bytes(request.into_body(), most).await else {
        return problem(StatusCode::PAYLOAD_TOO_LARGE, "invalid", "the body could not be read, or is too large");
    };
    let answer = match method.as_str() {
        "publish" => publish(&site, &body).await,
        "broadcast" => broadcast(&site, &body).await,
        "presence" => presence(&site, &body).await,
        "presence_stats" => presence_stats(&site, &body).await,
        "history" => history(&site, &body).await,
        "delete_user" => delete_user(&site, &body).await,
        "export_user" => export_user(&site, &body).await,
        method => match access::serve(&site, method, &body).await {
            Some(answer) => answer,
            None => return problem(StatusCode::NOT_FOUND, "not_found", "there is no such method"),
        },
    };
    json_answer(StatusCode::OK, outcome(answer).to_string())
}

fn outcome(answer: Answer) -> Value {
    match answer {
        Ok(result) => json!({ "result": result }),
        Err(error) => json!({ "error": { "code": error.code, "message": error.message } }),
    }
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ErrorCode> {
    serde_json::from_slice(body).map_err(|_| ErrorCode::BAD_REQUEST)
}

async fn publish(site: &Site, body: &[u8]) -> Answer {
    let channel = read::<OneChannel>(body)?.channel;
    let publication = read::<Publication>(body)?;
    let entry = publication.entry()?;
    publish_to(site, &channel, &publication, &entry).await
}

async fn broadcast(site: &Site, body: &[u8]) -> Answer {
    let channels = read::<Broadcast>(body)?.channels;
    let publication = read::<Publication>(body)?;
    if channels.is_empty() || channels.len() > CHANNELS {
        return Err(ErrorCode::BAD_REQUEST);
    }
    let entry = publication.entry()?;
    let (publication, entry) = (&publication, &entry);
    let each =
        iter(channels).map(|channel| async move { outcome(publish_to(site, &channel, publication, entry).await) });
    let responses: Vec<Value> = each.buffered(AT_ONCE).collect().await;
    Ok(json!({ "responses": responses }))
}

impl Publication {
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

async fn publish_to(site: &Site, name: &str, publication: &Publication, entry: &Entry) -> Answer {
    let sessions = site.gateway.sessions();
    if name.is_empty() || name.len() > sessions.channel_length {
        return Err(ErrorCode::BAD_REQUEST);
    }
    let channel = sessions.channels.find(name).ok_or(ErrorCode::UNKNOWN_CHANNEL)?;
    if !channel.is_app() {
        // The feed's own channels say what the ledger holds, and nothing else.
        return Err(ErrorCode::PERMISSION_DENIED);
    }
    let retention = sessions.channels.retention(&channel).filter(|_| !publication.skip_history);
    let broker = site.gateway.broker();
    let appended = match retention {
        None => broker.publish(name, entry).await,
        Some(retention) => {
            let idempotency_key = Some(publication.idempotency_key.as_str()).filter(|key| !key.is_empty());
            let version = (publication.version > 0).then_some((publication.version, &*publication.version_epoch));
            broker.append(Append { channel: name, entry, retention, idempotency_key, version }).await
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

fn failed(error: &FeedError) -> ErrorCode {
    tracing::warn!(%error, "a backend's request failed");
    ErrorCode::INTERNAL
}

/// A channel whose presence is known.
fn with_presence(site: &Site, body: &[u8]) -> Result<String, ErrorCode> {
    let name = read::<OneChannel>(body)?.channel;
    let channel = site.gateway.sessions().channels.find(&name).ok_or(ErrorCode::UNKNOWN_CHANNEL)?;
    if channel.has_presence() { Ok(name) } else { Err(ErrorCode::NOT_AVAILABLE) }
}

async fn presence(site: &Site, body: &[u8]) -> Answer {
    let name = with_presence(site, body)?;
    let limit = site.gateway.sessions().presence_limit;
    let present = site.gateway.broker().presence(&name, limit).await.map_err(|error| failed(&error.into()))?;
    Ok(json!({ "presence": clients(present) }))
}

async fn presence_stats(site: &Site, body: &[u8]) -> Answer {
    let name = with_presence(site, body)?;
    let stats = site.gateway.broker().presence_stats(&name).await.map_err(|error| failed(&error.into()))?;
    serde_json::to_value(presence_counts(stats)).map_err(|_| ErrorCode::INTERNAL)
}

async fn export_user(site: &Site, body: &[u8]) -> Answer {
    let OneUser { user, cursor } = read(body)?;
    let export = site.gateway.feed().exports.page(&user, cursor.as_deref()).await.map_err(|error| refused(&error))?;
    serde_json::to_value(export).map_err(|_| ErrorCode::INTERNAL)
}

async fn delete_user(site: &Site, body: &[u8]) -> Answer {
    let OneUser { user, .. } = read(body)?;
    site.gateway.feed().erasures.erase(&user).await.map_err(|error| refused(&error))?;
    Ok(json!({}))
}

/// What an operation of the feed was refused with, as a backend reads it.
fn refused(error: &FeedError) -> ErrorCode {
    match error {
        FeedError::Invalid { .. } => ErrorCode::BAD_REQUEST,
        FeedError::NotFound(message) => ErrorCode { code: 104, message, temporary: false },
        FeedError::TooMany(message) => ErrorCode { code: 111, message, temporary: true },
        error => failed(error),
    }
}

async fn history(site: &Site, body: &[u8]) -> Answer {
    let History { channel: name, limit, since, reverse } = read(body)?;
    let sessions = site.gateway.sessions();
    let channel = sessions.channels.find(&name).ok_or(ErrorCode::UNKNOWN_CHANNEL)?;
    if !channel.has_log() {
        return Err(ErrorCode::NOT_AVAILABLE);
    }
    let limit = usize::try_from(limit).map_or(sessions.history_limit, |limit| limit.min(sessions.history_limit));
    let offset = since.as_ref().map(|since| since.offset);
    let span =
        if reverse { Span::Before(offset.unwrap_or(u64::MAX), limit) } else { Span::After(offset.unwrap_or(0), limit) };
    let epoch = since.map(|since| since.epoch).filter(|epoch| !epoch.is_empty());
    let log = Log { name: &name, audience: channel.audience(), viewer: Viewer::Backend };
    match site.gateway.read_history(&log, span, epoch.as_deref()).await {
        Ok(Some(result)) => serde_json::to_value(result).map_err(|_| ErrorCode::INTERNAL),
        Ok(None) => Err(ErrorCode::UNRECOVERABLE_POSITION),
        Err(error) => Err(failed(&error)),
    }
}
