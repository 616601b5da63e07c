//! The first commands of a client that receives, in both encodings, and the replies that it waits for.

use anyhow::{Result, ensure};
use prost::Message;

use super::seed;
use super::target::LoadEncoding;

/// The id of the command that subscribes.
const SUBSCRIBE_ID: u32 = 2;

/// What a client waits for after its first message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer<'a> {
    /// This text, in JSON.
    Text(&'a str),
    /// The reply to the command with this id, in Protobuf.
    Reply(u32),
}

impl<'a> From<&'a str> for Answer<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Answer<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl Answer<'_> {
    /// Whether it is part of what a client has received, which ends with a whole message. An error reply is an error
    /// here.
    pub(super) fn is_in(self, received: &[u8]) -> Result<bool> {
        match self {
            Self::Text(needle) => {
                let text = String::from_utf8_lossy(received);
                ensure!(!text.contains("\"error\":"), "the server refused: {text}");
                Ok(text.contains(needle))
            }
            Self::Reply(id) => has_reply(id, received),
        }
    }
}

/// Whether Protobuf messages contain the reply to a command.
fn has_reply(id: u32, received: &[u8]) -> Result<bool> {
    // The head of a stream's response precedes its messages.
    let head = received.starts_with(b"HTTP/").then(|| received.windows(4).position(|end| end == b"\r\n\r\n")).flatten();
    let mut messages = &received[head.map_or(0, |end| end + 4)..];
    while !messages.is_empty() {
        let reply = ReplyHead::decode_length_delimited(&mut messages)?;
        if let Some(ReplyError { code, message }) = reply.error {
            anyhow::bail!("the server refused: {message} ({code})");
        }
        if reply.id == id {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The commands that sign a user in and subscribe to a channel, as one message.
pub(super) fn subscribe(encoding: LoadEncoding, secret: &str, user: &str, channel: &str) -> Result<Vec<u8>> {
    if encoding == LoadEncoding::Json {
        let connect = seed::connect(secret, user)?;
        let subscribe = format!("{{\"id\":{SUBSCRIBE_ID},\"subscribe\":{{\"channel\":\"{channel}\"}}}}");
        return Ok(format!("{connect}\n{subscribe}").into_bytes());
    }
    let connect = Connect { token: seed::token(secret, user)? };
    let subscribe = Subscribe { channel: channel.to_owned() };
    let commands = [
        CommandHead { id: 1, connect: Some(connect), subscribe: None },
        CommandHead { id: SUBSCRIBE_ID, connect: None, subscribe: Some(subscribe) },
    ];
    Ok(commands.iter().flat_map(CommandHead::encode_length_delimited_to_vec).collect())
}

/// What a client waits for after [`subscribe`].
pub(super) fn subscribed(encoding: LoadEncoding) -> Answer<'static> {
    match encoding {
        LoadEncoding::Json => Answer::Text("\"id\":2"),
        LoadEncoding::Protobuf => Answer::Reply(SUBSCRIBE_ID),
    }
}

/// The fields of `Command` that the bench needs.
#[derive(Clone, PartialEq, Message)]
struct CommandHead {
    #[prost(uint32, tag = "1")]
    id: u32,
    #[prost(message, optional, tag = "4")]
    connect: Option<Connect>,
    #[prost(message, optional, tag = "5")]
    subscribe: Option<Subscribe>,
}

/// The fields of `ConnectRequest` that the bench needs.
#[derive(Clone, PartialEq, Message)]
struct Connect {
    #[prost(string, tag = "1")]
    token: String,
}

/// The fields of `SubscribeRequest` that the bench needs.
#[derive(Clone, PartialEq, Message)]
struct Subscribe {
    #[prost(string, tag = "1")]
    channel: String,
}

/// The fields of `Reply` that the bench needs.
#[derive(Clone, PartialEq, Message)]
struct ReplyHead {
    #[prost(uint32, tag = "1")]
    id: u32,
    #[prost(message, optional, tag = "2")]
    error: Option<ReplyError>,
}

/// The fields of `Error` that the bench needs.
#[derive(Clone, PartialEq, Message)]
struct ReplyError {
    #[prost(uint32, tag = "1")]
    code: u32,
    #[prost(string, tag = "2")]
    message: String,
}
