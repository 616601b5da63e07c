//! Commands of clients, and the decoder for the frames that contain them.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::object::{from_object, object, objects};

/// A command of a client.
#[derive(Debug)]
pub struct Command {
    /// The id, which the reply repeats. 0: the client expects no reply.
    pub id: u32,
    /// The request. `None`: the command is empty. An empty command with id 0 is a pong.
    pub request: Option<CommandBody>,
}

impl Command {
    /// Whether it counts as a pong: without an id, every request but `send` does.
    pub fn is_pong(&self) -> bool {
        self.id == 0 && !matches!(self.request, Some(CommandBody::Send))
    }
}

/// The request of a command. Large requests are in boxes: commands wait in the connection while another one runs.
#[derive(Debug)]
pub enum CommandBody {
    /// `connect`: authenticates the connection; must be its first command.
    Connect(Box<ConnectRequest>),
    /// `subscribe`: subscribes the connection to a channel.
    Subscribe(Box<SubscribeRequest>),
    /// `unsubscribe`: ends a subscription.
    Unsubscribe(ChannelRequest),
    /// `publish`: publishes data to a channel.
    Publish(PublishRequest),
    /// `presence`: lists the clients subscribed to a channel.
    Presence(ChannelRequest),
    /// `presence_stats`: counts the clients and users subscribed to a channel.
    PresenceStats(ChannelRequest),
    /// `history`: reads publications from the log of a channel.
    History(Box<HistoryRequest>),
    /// `ping`: the ping command of older clients. The server refuses it with error 108.
    Ping,
    /// `send`: a message without a reply. The server does not support it and closes the connection with 3508.
    Send,
    /// `rpc`: runs an operation.
    Rpc(RpcRequest),
    /// `refresh`: replaces the connect token of the connection. Contains the new token.
    Refresh(String),
    /// `sub_refresh`: replaces the token of a subscription.
    SubRefresh(Box<SubRefreshRequest>),
    /// `publish` or `rpc` with data that is not JSON, which Protobuf can carry. The server refuses it with error 107.
    InvalidData,
}

/// The parameters of `connect`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConnectRequest {
    /// The connect token, a JWT. Empty for an anonymous client.
    pub token: String,
    /// The name of the client or its SDK. The server ignores it.
    pub name: String,
    /// The version of the SDK. The server ignores it.
    pub version: String,
    /// Data for the application's backend, if it is asked.
    pub data: Option<Box<RawValue>>,
    /// Headers for the application's backend, which browsers cannot send with the handshake.
    pub headers: BTreeMap<String, String>,
    /// The last known positions in server-side subscriptions, by channel name, for recovery.
    #[serde(deserialize_with = "objects")]
    pub subs: BTreeMap<String, Recover>,
}

/// The position of a client in the log of a channel, for recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Recover {
    /// Whether the client requests the publications that it missed.
    pub recover: bool,
    /// The epoch of the log at the client's last position.
    pub epoch: String,
    /// The offset of the last publication that the client received.
    pub offset: u64,
    /// Option bits. Bit 1 (value 2): if recovery is impossible, reply with an error instead of `recovered: false`.
    pub flag: i64,
}

impl Recover {
    /// Whether the client expects error 112 instead of `recovered: false`.
    pub fn rejects_unrecovered(&self) -> bool {
        self.flag & 2 != 0
    }
}

/// The parameters of `subscribe`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SubscribeRequest {
    /// The name of the channel.
    pub channel: String,
    /// The subscription token, a JWT. Empty if the channel needs none.
    pub token: String,
    /// The last known position of the client, for recovery.
    #[serde(flatten)]
    pub recover: Recover,
    /// Data for the application's backend, if it is asked.
    pub data: Option<Box<RawValue>>,
    /// The requested delta compression of publications: `fossil`, or empty for none.
    pub delta: String,
    /// Whether the client wants a part of the publications by their tags. The server refuses it with error 107.
    #[serde(rename = "tf", deserialize_with = "is_present")]
    pub has_filter: bool,
}

fn is_present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Option::<serde::de::IgnoredAny>::deserialize(deserializer).map(|value| value.is_some())
}

/// The parameters of `unsubscribe`, `presence` and `presence_stats`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ChannelRequest {
    /// The name of the channel.
    pub channel: String,
}

/// The parameters of `publish`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PublishRequest {
    /// The name of the channel.
    pub channel: String,
    /// The data to publish: any JSON, including `null`. `None`: the member is missing.
    #[serde(deserialize_with = "present")]
    pub data: Option<Box<RawValue>>,
}

/// Deserializes a member that is present as `Some`, even if its value is `null`.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

/// The parameters of `history`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct HistoryRequest {
    /// The name of the channel.
    pub channel: String,
    /// The maximum number of publications. 0: only the position of the log. Negative: no limit except the server's.
    pub limit: i64,
    /// The position to start from, exclusive. `None`: the oldest publication, or with `reverse` the newest.
    #[serde(deserialize_with = "object")]
    pub since: Option<HistorySince>,
    /// Whether to return the newest publications first.
    pub reverse: bool,
}

/// A position in a log, in the form that clients send.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct HistorySince {
    /// The offset in the log.
    pub offset: u64,
    /// The epoch of the log. Empty: any.
    pub epoch: String,
}

/// The parameters of `rpc`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RpcRequest {
    /// The name of the operation.
    pub method: String,
    /// The input of the operation: a JSON object. `None`: no input.
    pub data: Option<Box<RawValue>>,
}

/// The parameters of `sub_refresh`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SubRefreshRequest {
    /// The name of the channel.
    pub channel: String,
    /// The new subscription token, a JWT.
    pub token: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenRequest {
    token: String,
}

#[derive(Deserialize)]
struct Empty {}

/// A command in its wire format. If it contains several requests, the first one in the order of these fields counts.
#[derive(Default, Deserialize)]
#[serde(default)]
struct WireCommand {
    id: u32,
    #[serde(deserialize_with = "object")]
    connect: Option<ConnectRequest>,
    #[serde(deserialize_with = "object")]
    subscribe: Option<SubscribeRequest>,
    #[serde(deserialize_with = "object")]
    unsubscribe: Option<ChannelRequest>,
    #[serde(deserialize_with = "object")]
    publish: Option<PublishRequest>,
    #[serde(deserialize_with = "object")]
    presence: Option<ChannelRequest>,
    #[serde(deserialize_with = "object")]
    presence_stats: Option<ChannelRequest>,
    #[serde(deserialize_with = "object")]
    history: Option<HistoryRequest>,
    #[serde(deserialize_with = "object")]
    ping: Option<Empty>,
    send: Option<serde::de::IgnoredAny>,
    #[serde(deserialize_with = "object")]
    rpc: Option<RpcRequest>,
    #[serde(deserialize_with = "object")]
    refresh: Option<TokenRequest>,
    #[serde(deserialize_with = "object")]
    sub_refresh: Option<SubRefreshRequest>,
}

impl From<WireCommand> for Command {
    fn from(wire: WireCommand) -> Self {
        let request = None
            .or_else(|| wire.connect.map(|request| CommandBody::Connect(Box::new(request))))
            .or_else(|| wire.subscribe.map(|request| CommandBody::Subscribe(Box::new(request))))
            .or_else(|| wire.unsubscribe.map(CommandBody::Unsubscribe))
            .or_else(|| wire.publish.map(CommandBody::Publish))
            .or_else(|| wire.presence.map(CommandBody::Presence))
            .or_else(|| wire.presence_stats.map(CommandBody::PresenceStats))
            .or_else(|| wire.history.map(|request| CommandBody::History(Box::new(request))))
            .or_else(|| wire.ping.map(|_| CommandBody::Ping))
            .or_else(|| wire.send.map(|_| CommandBody::Send))
            .or_else(|| wire.rpc.map(CommandBody::Rpc))
            .or_else(|| wire.refresh.map(|refresh| CommandBody::Refresh(refresh.token)))
            .or_else(|| wire.sub_refresh.map(|request| CommandBody::SubRefresh(Box::new(request))));
        Self { id: wire.id, request }
    }
}

/// A frame or a command in it violates the protocol. The connection is closed with 3501.
#[derive(Debug, PartialEq, Eq)]
pub struct MalformedFrame;

/// The maximum number of commands in a frame. Without it, the smallest commands would need many times the size of their
/// frame in memory while the first one runs.
const MAX_COMMANDS: usize = 4_096;

/// Collects the commands of a frame, in either encoding.
#[derive(Debug, Default)]
pub(super) struct FrameCommands {
    commands: Vec<Command>,
    has_pong: bool,
}

impl FrameCommands {
    /// Adds a command.
    ///
    /// # Errors
    /// [`MalformedFrame`] if the command has an id and no request, if it is the second pong, or if there are too many.
    pub(super) fn add(&mut self, command: Command) -> Result<(), MalformedFrame> {
        if command.id != 0 && command.request.is_none() {
            return Err(MalformedFrame);
        }
        // A ping has one pong, so the second is never accepted.
        let is_second_pong = command.is_pong() && std::mem::replace(&mut self.has_pong, true);
        if is_second_pong || self.commands.len() >= MAX_COMMANDS {
            return Err(MalformedFrame);
        }
        self.commands.push(command);
        Ok(())
    }

    /// The commands, in their order.
    pub(super) fn into_vec(self) -> Vec<Command> {
        self.commands
    }
}

/// Decodes a frame: one or more JSON objects separated by single line breaks. One trailing line break is allowed.
///
/// # Errors
/// [`MalformedFrame`] if the frame is empty, one of its lines is not a command, or it has more than one pong or more
/// than 4,096 commands. Commands before the malformed line are discarded too, because the connection is closed in any
/// case.
pub fn decode_frame(frame: &str) -> Result<Vec<Command>, MalformedFrame> {
    let frame = frame.strip_suffix('\n').unwrap_or(frame);
    let mut commands = FrameCommands::default();
    for line in frame.split('\n') {
        commands.add(from_object::<WireCommand>(line).map_err(|_| MalformedFrame)?.into())?;
    }
    Ok(commands.into_vec())
}

/// Decodes the first message of a unidirectional client: the parameters of `connect`, without a command around them.
///
/// # Errors
/// [`MalformedFrame`] if they are not a JSON object.
pub fn decode_connect(message: &str) -> Result<Command, MalformedFrame> {
    let request = Box::new(from_object(message).map_err(|_| MalformedFrame)?);
    // Any id will do: the reply becomes a push.
    Ok(Command { id: 1, request: Some(CommandBody::Connect(request)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_holds_commands_in_order() {
        let frame = "{\"connect\":{\"token\":\"t\",\"name\":\"js\"},\"id\":1}\n\
                     {\"subscribe\":{\"channel\":\"news:a\"},\"id\":2}\n";
        let commands = decode_frame(frame).unwrap();
        assert!(matches!(&commands[0], Command { id: 1, request: Some(CommandBody::Connect(c)) } if c.token == "t"));
        assert!(
            matches!(&commands[1], Command { id: 2, request: Some(CommandBody::Subscribe(s)) } if s.channel == "news:a")
        );
    }

    #[test]
    fn the_first_non_null_request_wins() {
        let command = decode_frame(r#"{"id":3,"subscribe":null,"rpc":{"method":"m","data":{"a":[1]}}}"#).unwrap();
        let Some(CommandBody::Rpc(rpc)) = &command[0].request else { panic!("{command:?}") };
        assert_eq!(rpc.data.as_ref().unwrap().get(), r#"{"a":[1]}"#);
    }

    #[test]
    fn null_is_valid_data() {
        let commands = decode_frame("{\"id\":1,\"publish\":{\"data\":null}}\n{\"id\":2,\"publish\":{}}").unwrap();
        let data = |command: &Command| match &command.request {
            Some(CommandBody::Publish(publish)) => publish.data.as_ref().map(|data| data.get().to_owned()),
            _ => panic!("not a publish"),
        };
        assert_eq!((data(&commands[0]).as_deref(), data(&commands[1])), (Some("null"), None));
    }

    #[test]
    fn a_subscription_may_carry_a_position() {
        let commands =
            decode_frame(r#"{"id":3,"subscribe":{"channel":"c:1","recover":true,"epoch":"x","offset":9,"flag":2}}"#)
                .unwrap();
        let Some(CommandBody::Subscribe(subscribe)) = &commands[0].request else { panic!("not a subscribe") };
        assert_eq!(subscribe.recover, Recover { recover: true, epoch: "x".into(), offset: 9, flag: 2 });
        assert!(subscribe.recover.rejects_unrecovered());
    }

    #[test]
    fn a_unidirectional_client_sends_parameters_only() {
        let command = decode_connect(r#" {"token":"t","subs":{"c:1":{"recover":true}}}"#).unwrap();
        assert!(matches!(&command, Command { id: 1, request: Some(CommandBody::Connect(c)) } if c.subs["c:1"].recover));
        for message in ["", "[]", "null", "{", "{}\n{}", "{\"token\":1}"] {
            assert!(decode_connect(message).is_err(), "{message}");
        }
    }

    #[test]
    fn arrays_are_not_commands() {
        for frame in [
            r#"[1,{"token":"t"}]"#,
            r#"{"id":1,"connect":["t"]}"#,
            r#"{"id":1,"subscribe":["c:1"]}"#,
            r#"{"id":1,"ping":[]}"#,
            r#"{"id":1,"refresh":["t"]}"#,
            r#"{"id":1,"history":{"channel":"c:1","since":[1,"x"]}}"#,
            r#"{"id":1,"connect":{"subs":{"c:1":[true]}}}"#,
        ] {
            assert!(decode_frame(frame).is_err(), "{frame}");
        }
        let connect = decode_frame(r#" {"connect":null,"id":1,"subscribe":{"data":[1],"channel":"c:1"}} "#).unwrap();
        assert!(matches!(&connect[0].request, Some(CommandBody::Subscribe(it)) if it.data.is_some()));
    }

    #[test]
    fn a_frame_cannot_multiply_in_memory() {
        let line = r#"{"id":1,"ping":{}}"#;
        assert_eq!(decode_frame(&vec![line; 4_096].join("\n")).unwrap().len(), 4_096);
        for frame in [
            vec![line; 4_097].join("\n"),
            "{}\n{}".to_owned(),
            format!("{{}}\n{line}\n{{\"id\":0,\"ping\":{{}}}}"),
            r#"{"id":1}"#.to_owned(),
            r#"{"id":1,"other":{}}"#.to_owned(),
            r#"{"id":1,"connect":null}"#.to_owned(),
        ] {
            assert!(decode_frame(&frame).is_err(), "{}", &frame[..frame.len().min(60)]);
        }
        assert_eq!(decode_frame("{}\n{\"send\":1}\n{\"send\":2}").unwrap().len(), 3);
        assert!(size_of::<Command>() <= 64, "{} bytes", size_of::<Command>());
    }

    #[test]
    fn random_input_is_malformed_and_never_panics() {
        let deep = "[".repeat(100_000);
        let deep_data = format!(r#"{{"id":1,"rpc":{{"method":"m","data":{deep}}}}}"#);
        for frame in
            ["", "\n", "{}\n\n{}", "null", "[]", "{", "{\"id\":-1}", "{\"id\":\"1\"}", "{}x", &deep, &deep_data]
        {
            assert!(decode_frame(frame).is_err(), "{} passed", &frame[..frame.len().min(40)]);
        }
    }
}
