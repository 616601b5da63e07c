//! The form in which a client receives messages: the encoding, and what its transport needs around each message.

use crate::protocol::Encoding;

/// The form of a connection's messages, from its start to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MessageFormat {
    /// JSON in text frames of a WebSocket; line breaks separate the messages of a frame.
    #[default]
    WebSocketJson,
    /// Protobuf in binary frames of a WebSocket; each message is preceded by its length.
    WebSocketProtobuf,
    /// JSON in the body of an HTTP response, each message in a line.
    StreamJson,
    /// Protobuf in the body of an HTTP response, each message preceded by its length.
    StreamProtobuf,
    /// JSON in server-sent events, each message in an event.
    Events,
    /// Pushes alone, as JSON in text frames of a WebSocket.
    UniWebSocket,
    /// Pushes alone, as JSON in the body of an HTTP response, each in a line.
    UniStream,
    /// Pushes alone, as JSON in server-sent events.
    UniEvents,
}

/// What a transport needs around each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Frames of a WebSocket.
    WebSocket,
    /// Nothing, because each message has its length; or a line break.
    Stream,
    /// `data: ` and an empty line.
    Events,
}

impl MessageFormat {
    /// The number of formats.
    pub const COUNT: usize = 8;

    /// The encoding.
    pub fn encoding(self) -> Encoding {
        match self {
            Self::WebSocketProtobuf | Self::StreamProtobuf => Encoding::Protobuf,
            _ => Encoding::Json,
        }
    }

    /// Whether the client sends no commands. It receives pushes without a reply around them.
    pub fn is_unidirectional(self) -> bool {
        matches!(self, Self::UniWebSocket | Self::UniStream | Self::UniEvents)
    }

    /// Whether the end of the connection is announced by a push: only a bidirectional WebSocket has close frames that
    /// every client understands.
    pub(crate) fn announces_end(self) -> bool {
        !matches!(self, Self::WebSocketJson | Self::WebSocketProtobuf)
    }

    /// The name of the transport, in metrics and for the application's backend.
    pub fn transport(self) -> &'static str {
        match self {
            Self::WebSocketJson | Self::WebSocketProtobuf => "websocket",
            Self::StreamJson | Self::StreamProtobuf => "http_stream",
            Self::Events => "sse",
            Self::UniWebSocket => "uni_websocket",
            Self::UniStream => "uni_http_stream",
            Self::UniEvents => "uni_sse",
        }
    }

    pub(crate) fn framing(self) -> Framing {
        match self {
            Self::WebSocketJson | Self::WebSocketProtobuf | Self::UniWebSocket => Framing::WebSocket,
            Self::StreamJson | Self::StreamProtobuf | Self::UniStream => Framing::Stream,
            Self::Events | Self::UniEvents => Framing::Events,
        }
    }
}
