//! Decodes the frames of clients into the same commands as JSON.

use bytes::Bytes;
use prost::Message as _;
use serde_json::value::RawValue;

use super::generated as wire;
use crate::protocol::command::FrameCommands;
use crate::protocol::{
    ChannelRequest, Command, CommandBody, ConnectRequest, EmulatedData, EmulationRequest, HistoryRequest, HistorySince,
    MalformedFrame, PublishRequest, Recover, RpcRequest, SubRefreshRequest, SubscribeRequest,
};

/// Decodes a binary frame: one or more commands, each preceded by its length as a varint.
///
/// # Errors
/// [`MalformedFrame`] if the frame is empty, one of its messages is not a command, or it has more than one pong or more
/// than 4,096 commands. Commands before the malformed one are not returned.
pub fn decode_binary_frame(mut frame: &[u8]) -> Result<Vec<Command>, MalformedFrame> {
    if frame.is_empty() {
        return Err(MalformedFrame);
    }
    let mut commands = FrameCommands::default();
    while !frame.is_empty() {
        let command = wire::Command::decode_length_delimited(&mut frame).map_err(|_| MalformedFrame)?;
        commands.add(command.into())?;
    }
    Ok(commands.into_vec())
}

/// Decodes the request of a client that sends commands beside its stream.
///
/// # Errors
/// [`MalformedFrame`] if it is not such a request.
pub(in crate::protocol) fn decode_emulation(body: &Bytes) -> Result<EmulationRequest, MalformedFrame> {
    let wire::EmulationRequest { node, session, data } =
        wire::EmulationRequest::decode(body.clone()).map_err(|_| MalformedFrame)?;
    Ok(EmulationRequest { node, session, data: EmulatedData::Binary(data) })
}

impl From<wire::Command> for Command {
    fn from(wire: wire::Command) -> Self {
        let request = None
            .or_else(|| wire.connect.map(connect))
            .or_else(|| wire.subscribe.map(subscribe))
            .or_else(|| wire.unsubscribe.map(|request| CommandBody::Unsubscribe(channel(request.channel))))
            .or_else(|| wire.publish.map(publish))
            .or_else(|| wire.presence.map(|request| CommandBody::Presence(channel(request.channel))))
            .or_else(|| wire.presence_stats.map(|request| CommandBody::PresenceStats(channel(request.channel))))
            .or_else(|| wire.history.map(|request| CommandBody::History(Box::new(request.into()))))
            .or_else(|| wire.ping.map(|_| CommandBody::Ping))
            .or_else(|| wire.send.map(|_| CommandBody::Send))
            .or_else(|| wire.rpc.map(rpc))
            .or_else(|| wire.refresh.map(|request| CommandBody::Refresh(request.token)))
            .or_else(|| wire.sub_refresh.map(|request| CommandBody::SubRefresh(Box::new(request.into()))));
        Self { id: wire.id, request }
    }
}

fn channel(channel: String) -> ChannelRequest {
    ChannelRequest { channel }
}

fn publish(request: wire::PublishRequest) -> CommandBody {
    match json(&request.data) {
        Ok(data) => CommandBody::Publish(PublishRequest { channel: request.channel, data }),
        Err(NotJson) => CommandBody::InvalidData,
    }
}

fn rpc(request: wire::RpcRequest) -> CommandBody {
    match json(&request.data) {
        // As in JSON, `null` is no input.
        Ok(data) => CommandBody::Rpc(RpcRequest { method: request.method, data: data.filter(|it| it.get() != "null") }),
        Err(NotJson) => CommandBody::InvalidData,
    }
}

/// A `bytes` field does not contain JSON.
struct NotJson;

/// The JSON of a `bytes` field; `None` if the field is missing, which is the same as empty.
fn json(bytes: &Bytes) -> Result<Option<Box<RawValue>>, NotJson> {
    if bytes.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(bytes).map(Some).map_err(|_| NotJson)
}

fn connect(request: wire::ConnectRequest) -> CommandBody {
    // Data that is not JSON is for nobody.
    let data = json(&request.data).unwrap_or_default();
    let wire::ConnectRequest { token, name, version, headers, subs, .. } = request;
    let subs = subs.into_iter().map(|(channel, request)| (channel, recover(&request))).collect();
    CommandBody::Connect(Box::new(ConnectRequest { token, name, version, data, headers, subs }))
}

fn subscribe(request: wire::SubscribeRequest) -> CommandBody {
    let data = json(&request.data).unwrap_or_default();
    let recover = recover(&request);
    let has_filter = !request.tf.is_empty();
    let wire::SubscribeRequest { channel, token, delta, .. } = request;
    CommandBody::Subscribe(Box::new(SubscribeRequest { channel, token, recover, data, delta, has_filter }))
}

fn recover(wire: &wire::SubscribeRequest) -> Recover {
    Recover { recover: wire.recover, epoch: wire.epoch.clone(), offset: wire.offset, flag: wire.flag }
}

impl From<wire::HistoryRequest> for HistoryRequest {
    fn from(wire: wire::HistoryRequest) -> Self {
        let since = wire.since.map(|since| HistorySince { offset: since.offset, epoch: since.epoch });
        Self { channel: wire.channel, limit: wire.limit.into(), since, reverse: wire.reverse }
    }
}

impl From<wire::SubRefreshRequest> for SubRefreshRequest {
    fn from(wire: wire::SubRefreshRequest) -> Self {
        Self { channel: wire.channel, token: wire.token }
    }
}
