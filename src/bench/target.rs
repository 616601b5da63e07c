//! The WebSocket endpoints that are measured.

use std::net::SocketAddr;

/// Where to connect to.
#[derive(Clone, Copy, Debug)]
pub(super) struct SocketTarget {
    /// The server; always a loopback address.
    pub addr: SocketAddr,
    /// The path of its WebSocket endpoint.
    pub path: &'static str,
}

impl SocketTarget {
    /// A Feedline.
    pub(super) fn feedline(addr: SocketAddr) -> Self {
        Self { addr, path: "/connection/websocket" }
    }
}
