//! Encodes replies and pushes.

use bytes::Bytes;
use prost::Message as _;
use serde_json::value::RawValue;

use super::embedded;
use super::generated::{self as wire, Reply as Wire};
use crate::protocol::{
    ConnectResult, HistoryResult, PresenceResult, Publication, Push, PushEvent, PushPosition, RefreshResult, Reply,
    ReplyBody, ReplyError, SubscribePush, SubscribeResult, Unsubscribe,
};

/// Appends a reply.
pub(in crate::protocol) fn append_reply(message: &mut Vec<u8>, reply: Reply) {
    let encoded = match reply.result {
        Ok(body) => with_body(body),
        Err(ReplyError { code, message, .. }) => {
            let text = message.unwrap_or_else(|| code.message.to_owned());
            let error = wire::Error { code: code.code, message: text, temporary: code.temporary };
            Wire { error: Some(error), ..Wire::default() }
        }
    };
    append(message, &Wire { id: reply.id, ..encoded });
}

/// Appends a push.
pub(in crate::protocol) fn append_push(message: &mut Vec<u8>, push: &Push<'_>) {
    let mut encoded = wire::Push { channel: push.channel.to_owned(), ..Default::default() };
    match push.event {
        PushEvent::Publication { members, position } => encoded.r#pub = Some(publication(members, position)),
        PushEvent::Join(info) => encoded.join = Some(wire::Join { info: client_info(info) }),
        PushEvent::Leave(info) => encoded.leave = Some(wire::Leave { info: client_info(info) }),
        PushEvent::Text { text, is_patch, rest, position } => {
            encoded.r#pub = Some(text_publication(text, is_patch, rest, position));
        }
        PushEvent::Missed(missed) => encoded.r#pub = publications(std::slice::from_ref(missed), false).pop(),
        PushEvent::Subscribe(subscribe) => encoded.subscribe = Some(subscribe.into()),
        PushEvent::Refresh { expires, ttl } => encoded.refresh = Some(wire::Refresh { expires, ttl: seconds(ttl) }),
        PushEvent::Disconnect(why) => {
            let code = why.code.into();
            let reason = why.reason.to_string();
            encoded.disconnect = Some(wire::Disconnect { code, reason, reconnect: false });
        }
        PushEvent::Unsubscribe(Unsubscribe { code, reason }) => {
            encoded.unsubscribe = Some(wire::Unsubscribe { code, reason: reason.to_owned() });
        }
    }
    append(message, &Wire { push: Some(encoded), ..Wire::default() });
}

fn append(message: &mut Vec<u8>, reply: &Wire) {
    if let Err(error) = reply.encode_length_delimited(message) {
        // A vector always has room.
        tracing::error!(%error, "a message could not be encoded");
    }
}

fn with_body(body: ReplyBody) -> Wire {
    let mut reply = Wire::default();
    match body {
        ReplyBody::Connect(result) => reply.connect = Some(result.into()),
        ReplyBody::Subscribe(result) => reply.subscribe = Some(result.into()),
        ReplyBody::Unsubscribe {} => reply.unsubscribe = Some(wire::UnsubscribeResult {}),
        ReplyBody::Publish {} => reply.publish = Some(wire::PublishResult {}),
        ReplyBody::Presence(result) => reply.presence = Some(result.into()),
        ReplyBody::PresenceStats(result) => {
            let num_clients = result.num_clients;
            let num_users = result.num_users;
            reply.presence_stats = Some(wire::PresenceStatsResult { num_clients, num_users });
        }
        ReplyBody::History(result) => reply.history = Some(result.into()),
        ReplyBody::Rpc { data } => reply.rpc = Some(wire::RpcResult { data: json(data) }),
        ReplyBody::Refresh(RefreshResult { client, version, expires, ttl }) => {
            reply.refresh = Some(wire::RefreshResult { client, version, expires, ttl: seconds(ttl) });
        }
        ReplyBody::SubRefresh(RefreshResult { expires, ttl, .. }) => {
            reply.sub_refresh = Some(wire::SubRefreshResult { expires, ttl: seconds(ttl) });
        }
    }
    reply
}

impl From<ConnectResult> for wire::ConnectResult {
    fn from(result: ConnectResult) -> Self {
        Self {
            client: result.client,
            version: result.version,
            expires: result.expires,
            ttl: seconds(result.ttl),
            data: result.data.map(json).unwrap_or_default(),
            subs: result.subs.into_iter().map(|(channel, sub)| (channel, sub.into())).collect(),
            ping: seconds(result.ping),
            pong: result.pong,
            session: result.session,
            node: result.node,
            ..Self::default()
        }
    }
}

impl From<SubscribeResult> for wire::SubscribeResult {
    fn from(result: SubscribeResult) -> Self {
        Self {
            expires: result.expires,
            ttl: seconds(result.ttl),
            recoverable: result.recoverable,
            epoch: result.epoch.into_owned(),
            publications: publications(&result.publications, result.delta),
            recovered: result.recovered,
            offset: result.offset,
            positioned: result.positioned,
            was_recovering: result.was_recovering,
            data: result.data.map(json).unwrap_or_default(),
            delta: result.delta,
            ..Self::default()
        }
    }
}

impl From<&SubscribePush> for wire::Subscribe {
    fn from(push: &SubscribePush) -> Self {
        Self {
            recoverable: push.recoverable,
            epoch: push.epoch.clone(),
            offset: push.offset,
            positioned: push.positioned,
            data: push.data.as_ref().map(|data| Bytes::copy_from_slice(data.get().as_bytes())).unwrap_or_default(),
        }
    }
}

impl From<PresenceResult> for wire::PresenceResult {
    fn from(result: PresenceResult) -> Self {
        let clients = result.presence.into_iter();
        let presence = clients.filter_map(|(client, info)| Some((client, client_info(info.get().as_bytes())?)));
        Self { presence: presence.collect() }
    }
}

impl From<HistoryResult> for wire::HistoryResult {
    fn from(result: HistoryResult) -> Self {
        let HistoryResult { publications: listed, epoch, offset } = result;
        Self { publications: publications(&listed, false), epoch, offset }
    }
}

/// The messages of publications in a reply. `as_text`: their data is text, see [`chain`](crate::protocol::chain).
fn publications(publications: &[Publication], as_text: bool) -> Vec<wire::Publication> {
    let decode = if as_text { embedded::text_publication } else { embedded::publication };
    publications.iter().map(|publication| checked(decode(publication.get().as_bytes()))).collect()
}

/// The message of a publication for a client that asked for deltas.
fn text_publication(text: &str, is_patch: bool, rest: &str, position: PushPosition<'_>) -> wire::Publication {
    let mut message = publication(format!("\"data\":null{rest}").as_bytes(), position);
    (message.data, message.delta) = (Bytes::copy_from_slice(text.as_bytes()), is_patch);
    message
}

/// The message of a publication with these members.
fn publication(members: &[u8], position: PushPosition<'_>) -> wire::Publication {
    let mut publication = checked(embedded::publication_of(members));
    if let Some((offset, epoch)) = position {
        publication.offset = offset;
        if offset == 1 {
            publication.epoch = epoch.to_string();
        }
    }
    publication
}

fn client_info(info: &[u8]) -> Option<wire::ClientInfo> {
    Some(checked(embedded::client_info(info)))
}

/// Logs contain only what this server has encoded. If one was damaged, the client receives an empty message instead,
/// and its offsets stay contiguous.
fn checked<T: Default>(parsed: Result<T, serde_json::Error>) -> T {
    parsed.unwrap_or_else(|error| {
        tracing::error!(%error, "stored JSON could not be encoded as Protobuf");
        T::default()
    })
}

fn json(json: Box<RawValue>) -> Bytes {
    String::from(Box::<str>::from(json)).into()
}

/// The protocol has 32 bits for durations.
fn seconds(seconds: u64) -> u32 {
    seconds.try_into().unwrap_or(u32::MAX)
}
