//! What clients say: frames of commands.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// One thing a client asks for.
#[derive(Debug)]
pub struct Command {
    /// Comes back with the reply. 0 where no reply is wanted.
    pub id: u32,
    /// What is asked. `None` of an empty command: a pong, when its id is 0.
    pub request: Option<CommandBody>,
}

/// What can be asked.
#[derive(Debug)]
pub enum CommandBody {
    /// Who I am: the first command of a connection.
    Connect(ConnectRequest),
    /// Put me into a channel.
    Subscribe(SubscribeRequest),
    /// Take me out of it.
    Unsubscribe(ChannelRequest),
    /// Say this in a channel.
    Publish(PublishRequest),
    /// Who is in a channel?
    Presence(ChannelRequest),
    /// How many are in a channel?
    PresenceStats(ChannelRequest),
    /// What was said in a channel?
    History(HistoryRequest),
    /// The old form of ping, which servers refuse.
    Ping,
    /// A message without an answer.
    Send,
    /// Do this.
    Rpc(RpcRequest),
    /// Here is a new token.
    Refresh(String),
    /// Here is a new token for a subscription.
    SubRefresh(SubRefreshRequest),
}

/// `connect`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConnectRequest {
    /// Who it is, signed.
    pub token: String,
    /// What the client calls itself: its SDK.
    pub name: String,
    /// The SDK's version.
    pub version: String,
    /// Positions of server-side subscriptions that the client remembers.
    pub subs: BTreeMap<String, Recover>,
}

/// Where a client left a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Recover {
    /// Whether it wants what it missed.
    pub recover: bool,
    /// The life of the log that it knew.
    pub epoch: String,
    /// The last offset that it saw.
    pub offset: u64,
    /// Bit 1 (value 2): answer with an error where recovery is impossible.
    pub flag: i64,
}

impl Recover {
    /// The client would rather have error 112 than `recovered: false`.
    pub fn rejects_unrecovered(&self) -> bool {
        self.flag & 2 != 0
    }
}

/// `subscribe`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SubscribeRequest {
    /// Which channel.
    pub channel: String,
    /// The right to be in it, signed.
    pub token: String,
    /// Where the client left it.
    #[serde(flatten)]
    pub recover: Recover,
    /// A compression of publications; `fossil` is known to the protocol, and not offered here.
    pub delta: String,
}

/// `unsubscribe`, `presence` and `presence_stats`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ChannelRequest {
    /// Which channel.
    pub channel: String,
}

/// `publish`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PublishRequest {
    /// Which channel.
    pub channel: String,
    /// What to say: any JSON, `null` too.
    #[serde(deserialize_with = "present")]
    pub data: Option<Box<RawValue>>,
}

/// Reads a value that is there, even if it is `null`.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

/// `history`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct HistoryRequest {
    /// Which channel.
    pub channel: String,
    /// How many publications at most; 0: only the position; negative: all there are.
    pub limit: i64,
    /// From where on; without it from the end that `reverse` names.
    pub since: Option<HistorySince>,
    /// Newest first.
    pub reverse: bool,
}

/// A stream position as clients write it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct HistorySince {
    /// The offset.
    pub offset: u64,
    /// The life of the log; may be empty.
    pub epoch: String,
}

/// `rpc`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RpcRequest {
    /// Which operation.
    pub method: String,
    /// Its input: a JSON object, or nothing.
    pub data: Option<Box<RawValue>>,
}

/// `sub_refresh`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SubRefreshRequest {
    /// Which channel.
    pub channel: String,
    /// The right to go on being in it, signed.
    pub token: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenRequest {
    token: String,
}

#[derive(Deserialize)]
struct Empty {}

/// A command as it is written: the first request that is there counts.
#[derive(Deserialize)]
struct WireCommand {
    #[serde(default)]
    id: u32,
    connect: Option<ConnectRequest>,
    subscribe: Option<SubscribeRequest>,
    unsubscribe: Option<ChannelRequest>,
    publish: Option<PublishRequest>,
    presence: Option<ChannelRequest>,
    presence_stats: Option<ChannelRequest>,
    history: Option<HistoryRequest>,
    ping: Option<Empty>,
    send: Option<serde::de::IgnoredAny>,
    rpc: Option<RpcRequest>,
    refresh: Option<TokenRequest>,
    sub_refresh: Option<SubRefreshRequest>,
}

impl From<WireCommand> for Command {
    fn from(wire: WireCommand) -> Self {
        let request = None
            .or_else(|| wire.connect.map(CommandBody::Connect))
            .or_else(|| wire.subscribe.map(CommandBody::Subscribe))
            .or_else(|| wire.unsubscribe.map(CommandBody::Unsubscribe))
            .or_else(|| wire.publish.map(CommandBody::Publish))
            .or_else(|| wire.presence.map(CommandBody::Presence))
            .or_else(|| wire.presence_stats.map(CommandBody::PresenceStats))
            .or_else(|| wire.history.map(CommandBody::History))
            .or_else(|| wire.ping.map(|_| CommandBody::Ping))
            .or_else(|| wire.send.map(|_| CommandBody::Send))
            .or_else(|| wire.rpc.map(CommandBody::Rpc))
            .or_else(|| wire.refresh.map(|refresh| CommandBody::Refresh(refresh.token)))
            .or_else(|| wire.sub_refresh.map(CommandBody::SubRefresh));
        Self { id: wire.id, request }
    }
}

/// A frame, or a command in it, is not the protocol: the connection ends with 3501.
#[derive(Debug, PartialEq, Eq)]
pub struct MalformedFrame;

/// Reads a frame: one or more JSON objects separated by single line breaks, one more allowed at the end.
///
/// # Errors
/// [`MalformedFrame`] if the frame is empty or any line of it is not a command. Commands before the bad line are
/// dropped with it: the connection ends either way.
pub fn decode_frame(frame: &str) -> Result<Vec<Command>, MalformedFrame> {
    let frame = frame.strip_suffix('\n').unwrap_or(frame);
    frame
        .split('\n')
        .map(|line| serde_json::from_str::<WireCommand>(line).map(Command::from).map_err(|_| MalformedFrame))
        .collect()
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
