//! Messages in the format of a connection.

use super::framed::{FrameKind, Framed};
use super::message_format::{Framing, MessageFormat};
use crate::gateway::session::PingKind;
use crate::protocol::{
    Command, Disconnect, Encoding, Push, PushEvent, Reply, decode_binary_frame, decode_connect, decode_frame,
};

/// The room for a reply that is shorter than most.
const REPLY_SIZE: usize = 128;

/// The room for what surrounds a message in a stream.
const STREAM_FRAMING: usize = 8;

fn kind_of(encoding: Encoding) -> FrameKind {
    match encoding {
        Encoding::Json => FrameKind::Text,
        Encoding::Protobuf => FrameKind::Binary,
    }
}

/// Commands as they arrive from a client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FrameData<'a> {
    Text(&'a str),
    Binary(&'a [u8]),
}

/// Decodes a data frame of a client, or what it sent beside its stream.
///
/// # Errors
/// The close code: 3501 if it is malformed, 3506 if frames of this kind do not belong to the encoding.
pub(crate) fn decode(format: MessageFormat, frame: FrameData<'_>) -> Result<Vec<Command>, Disconnect> {
    let commands = match (format.encoding(), frame) {
        (Encoding::Json, FrameData::Text(text)) if format.is_unidirectional() => {
            decode_connect(text).map(|connect| vec![connect])
        }
        (Encoding::Json, FrameData::Text(text)) => decode_frame(text),
        (Encoding::Protobuf, FrameData::Binary(bytes)) => decode_binary_frame(bytes),
        _ => return Err(Disconnect::INAPPROPRIATE_PROTOCOL),
    };
    commands.map_err(|_| Disconnect::BAD_REQUEST)
}

/// Encodes a reply. A unidirectional client receives its result alone.
pub(crate) fn frame_reply(format: MessageFormat, reply: Reply) -> Framed {
    frame_message(format, REPLY_SIZE, |frame| {
        if format.is_unidirectional() {
            format.encoding().append_bare_reply(frame, reply);
        } else {
            format.encoding().append_reply(frame, reply);
        }
    })
}

/// Encodes a push.
pub(crate) fn frame_push(format: MessageFormat, push: &Push<'_>) -> Framed {
    frame_message(format, push.size(), |frame| append_push(format, frame, push))
}

/// Encodes publications without a log as one frame: the members of each.
pub(crate) fn frame_publications(format: MessageFormat, channel: &str, publications: &[impl AsRef<[u8]>]) -> Framed {
    let push = |members| Push { channel, event: PushEvent::Publication { members, position: None } };
    let pushes = publications.iter().map(|members| push(members.as_ref()));
    let size = pushes.clone().map(|push| push.size() + STREAM_FRAMING).sum();
    if format.framing() != Framing::WebSocket {
        return Framed::bare(size, |stream| {
            pushes.for_each(|push| append_framed(format, stream, |stream| append_push(format, stream, &push)));
        });
    }
    Framed::written(kind_of(format.encoding()), size, |frame| {
        for (index, push) in pushes.enumerate() {
            if index > 0 {
                frame.extend_from_slice(format.encoding().separator());
            }
            append_push(format, frame, &push);
        }
    })
}

/// Encodes a ping.
pub(crate) fn frame_ping(format: MessageFormat, kind: PingKind) -> Framed {
    match kind {
        PingKind::Message | PingKind::OneWay => {
            let ping = format.encoding().ping();
            frame_message(format, ping.len(), |frame| frame.extend_from_slice(ping))
        }
        PingKind::Frame => Framed::new(FrameKind::Ping, b""),
    }
}

/// Encodes the end of the connection, if its transport announces it by a push.
pub(crate) fn frame_end(format: MessageFormat, why: &Disconnect) -> Option<Framed> {
    let push = Push { channel: "", event: PushEvent::Disconnect(why) };
    format.announces_end().then(|| frame_push(format, &push))
}

fn append_push(format: MessageFormat, frame: &mut Vec<u8>, push: &Push<'_>) {
    if format.is_unidirectional() {
        format.encoding().append_bare_push(frame, push);
    } else {
        format.encoding().append_push(frame, push);
    }
}

/// Frames the message that `write` appends to a buffer with room for `capacity` bytes.
fn frame_message(format: MessageFormat, capacity: usize, write: impl FnOnce(&mut Vec<u8>)) -> Framed {
    match format.framing() {
        Framing::WebSocket => Framed::written(kind_of(format.encoding()), capacity, write),
        Framing::Stream | Framing::Events => {
            Framed::bare(capacity + STREAM_FRAMING, |stream| append_framed(format, stream, write))
        }
    }
}

/// Appends a message to a stream. JSON has no line breaks, so it is one line of an event.
fn append_framed(format: MessageFormat, stream: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    if format.framing() == Framing::Events {
        stream.extend_from_slice(b"data: ");
    }
    write(stream);
    stream.extend_from_slice(match (format.framing(), format.encoding()) {
        (Framing::Events, _) => b"\n\n",
        (_, Encoding::Json) => b"\n",
        (_, Encoding::Protobuf) => b"",
    });
}

/// The frames of a push to many clients. It is encoded once for each format, when the first client that uses the format
/// is found; all send queues share the frame.
pub(crate) struct PushFrames<'a> {
    push: Push<'a>,
    /// By format.
    frames: [Option<Framed>; MessageFormat::COUNT],
}

impl<'a> PushFrames<'a> {
    pub(crate) fn new(push: Push<'a>) -> Self {
        Self { push, frames: [const { None }; MessageFormat::COUNT] }
    }

    /// The frame for clients of this format.
    pub(crate) fn get(&mut self, format: MessageFormat) -> &Framed {
        self.frames[format as usize].get_or_insert_with(|| frame_push(format, &self.push))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_are_encoded_only_if_needed() {
        let event = PushEvent::Publication { members: b"\"data\":1", position: None };
        let mut frames = PushFrames::new(Push { channel: "n:a", event });
        let first = frames.get(MessageFormat::WebSocketProtobuf).clone();
        assert!(frames.frames[MessageFormat::WebSocketJson as usize].is_none());
        assert!(first.is_shared_with(frames.get(MessageFormat::WebSocketProtobuf)), "encoded once");
        assert_ne!(frames.get(MessageFormat::WebSocketJson), &first);
    }

    #[test]
    fn publications_of_one_frame_are_separate_messages() {
        let publications = [b"\"data\":1", b"\"data\":2"];
        let json = r#"{"push":{"channel":"n","pub":{"data":1}}}"#;
        let expected = format!("{json}\n{}", json.replace('1', "2"));
        let later = json.replace('1', "2");
        let framed = |format| frame_publications(format, "n", &publications);
        assert_eq!(framed(MessageFormat::WebSocketJson), Framed::new(FrameKind::Text, expected.as_bytes()));
        let one = |data| [10, 0x22, 8, 0x12, 1, b'n', 0x22, 3, 0x22, 1, data];
        let both = [one(b'1'), one(b'2')].concat();
        assert_eq!(framed(MessageFormat::WebSocketProtobuf), Framed::new(FrameKind::Binary, &both));
        assert_eq!(framed(MessageFormat::StreamProtobuf).bytes(), &both);
        assert_eq!(framed(MessageFormat::StreamJson).bytes(), &format!("{expected}\n"));
        assert_eq!(framed(MessageFormat::Events).bytes(), &format!("data: {json}\n\ndata: {later}\n\n"));
        let [bare, bare_later] = [json, &later].map(|it| it[8..it.len() - 1].to_owned());
        assert_eq!(framed(MessageFormat::UniEvents).bytes(), &format!("data: {bare}\n\ndata: {bare_later}\n\n"));
        assert_eq!(framed(MessageFormat::UniStream).bytes(), &format!("{bare}\n{bare_later}\n"));
    }

    #[test]
    fn the_end_is_announced_where_close_frames_are_not() {
        let end = |format| frame_end(format, &Disconnect::SHUTDOWN);
        assert_eq!((end(MessageFormat::WebSocketJson), end(MessageFormat::WebSocketProtobuf)), (None, None));
        let json = r#"{"disconnect":{"code":3001,"reason":"shutdown"}}"#;
        let expected = format!("data: {{\"push\":{json}}}\n\n");
        assert_eq!(end(MessageFormat::Events).as_ref().map(Framed::bytes), Some(&expected.into()));
        assert_eq!(end(MessageFormat::UniStream).as_ref().map(Framed::bytes), Some(&format!("{json}\n").into()));
        assert_eq!(end(MessageFormat::UniWebSocket), Some(Framed::new(FrameKind::Text, json.as_bytes())));
    }

    #[test]
    fn pings_are_messages_or_frames() {
        let ping = |format, kind| frame_ping(format, kind).bytes().clone();
        assert_eq!(ping(MessageFormat::Events, PingKind::Message), "data: {}\n\n");
        assert_eq!(ping(MessageFormat::UniStream, PingKind::OneWay), "{}\n");
        assert_eq!(ping(MessageFormat::StreamProtobuf, PingKind::Message), &[0][..]);
        assert_eq!(ping(MessageFormat::UniWebSocket, PingKind::Frame), &[0x89, 0][..]);
    }

    #[test]
    fn frames_of_the_other_kind_are_refused() {
        let text = FrameData::Text("{}");
        let binary = FrameData::Binary(&[0]);
        let json = MessageFormat::WebSocketJson;
        let protobuf = MessageFormat::StreamProtobuf;
        assert_eq!(decode(json, text).map(|commands| commands.len()), Ok(1));
        assert_eq!(decode(protobuf, binary).map(|commands| commands.len()), Ok(1));
        for (format, frame) in [(json, binary), (protobuf, text)] {
            let refused = decode(format, frame).map(|commands| commands.len());
            assert_eq!(refused, Err(Disconnect::INAPPROPRIATE_PROTOCOL));
        }
    }
}
