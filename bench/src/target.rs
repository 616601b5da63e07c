//! The endpoints that are measured.

use std::net::SocketAddr;

use clap::ValueEnum;

/// The transport of the clients that receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LoadTransport {
    /// WebSockets.
    #[default]
    Websocket,
    /// HTTP streams with JSON.
    HttpStream,
    /// Server-sent events.
    Sse,
}

impl LoadTransport {
    /// For the names of figures.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Websocket => "",
            Self::HttpStream => ", HTTP streams",
            Self::Sse => ", server-sent events",
        }
    }
}

/// The encoding of the clients that receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LoadEncoding {
    /// JSON.
    #[default]
    Json,
    /// Protobuf.
    Protobuf,
}

impl LoadEncoding {
    /// For the names of figures.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Json => "",
            Self::Protobuf => ", Protobuf",
        }
    }
}

/// An endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct SocketTarget {
    /// The server; always a loopback address.
    pub addr: SocketAddr,
    /// The path of its endpoint.
    pub path: &'static str,
    /// Whether it is a WebSocket.
    pub is_websocket: bool,
    /// The encoding of its clients.
    pub encoding: LoadEncoding,
}

impl SocketTarget {
    /// The endpoint of a Feedline server.
    pub(super) fn feedline(addr: SocketAddr) -> Self {
        Self { addr, path: "/connection/websocket", is_websocket: true, encoding: LoadEncoding::Json }
    }

    /// The endpoint of this transport on the same server.
    pub(super) fn over(self, transport: LoadTransport) -> Self {
        match transport {
            LoadTransport::Websocket => self,
            LoadTransport::HttpStream => Self { path: "/connection/http_stream", is_websocket: false, ..self },
            LoadTransport::Sse => Self { path: "/connection/sse", is_websocket: false, ..self },
        }
    }

    /// The same endpoint for clients with this encoding.
    pub(super) fn encoded(self, encoding: LoadEncoding) -> Self {
        Self { encoding, ..self }
    }
}
