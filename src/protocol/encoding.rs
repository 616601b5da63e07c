//! The encodings of the protocol.

use bytes::Bytes;

use super::{EmulationRequest, MalformedFrame, Push, Reply, emulation, json, protobuf};

/// The encoding of a connection's messages. A connection has one from its handshake to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// JSON in text frames; line breaks separate messages.
    #[default]
    Json,
    /// Protobuf in binary frames; each message is preceded by its length.
    Protobuf,
}

impl Encoding {
    /// The number of encodings.
    pub const COUNT: usize = 2;

    /// Appends a reply to a frame.
    pub fn append_reply(self, frame: &mut Vec<u8>, reply: Reply) {
        match self {
            Self::Json => json::append_reply(frame, &reply),
            Self::Protobuf => protobuf::append_reply(frame, reply),
        }
    }

    /// Appends a push to a frame.
    pub fn append_push(self, frame: &mut Vec<u8>, push: &Push<'_>) {
        match self {
            Self::Json => json::append_push(frame, push),
            Self::Protobuf => protobuf::append_push(frame, push),
        }
    }

    /// Appends the result of a reply as a push, for a unidirectional client. There is no Protobuf for these.
    pub fn append_bare_reply(self, frame: &mut Vec<u8>, reply: Reply) {
        match self {
            Self::Json => json::append_bare_reply(frame, &reply),
            Self::Protobuf => protobuf::append_reply(frame, reply),
        }
    }

    /// Appends a push without a reply around it, for a unidirectional client. There is no Protobuf for these.
    pub fn append_bare_push(self, frame: &mut Vec<u8>, push: &Push<'_>) {
        match self {
            Self::Json => json::append_bare_push(frame, push),
            Self::Protobuf => protobuf::append_push(frame, push),
        }
    }

    /// Decodes the body of a request with commands of a client whose transport carries none.
    ///
    /// # Errors
    /// [`MalformedFrame`] if it is not such a body.
    pub fn decode_emulation(self, body: &Bytes) -> Result<EmulationRequest, MalformedFrame> {
        match self {
            Self::Json => emulation::decode_emulation(body),
            Self::Protobuf => protobuf::decode_emulation(body),
        }
    }

    /// The ping, as a message.
    pub fn ping(self) -> &'static [u8] {
        match self {
            Self::Json => json::PING,
            Self::Protobuf => protobuf::PING,
        }
    }

    /// The bytes between two messages of a frame.
    pub fn separator(self) -> &'static [u8] {
        match self {
            Self::Json => b"\n",
            // Each message begins with its length.
            Self::Protobuf => b"",
        }
    }
}
