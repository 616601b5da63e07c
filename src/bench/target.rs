//! The WebSocket endpoints that are measured.

use std::net::SocketAddr;

/// A WebSocket endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct SocketTarget {
    /// The server; always a loopback address.
    pub addr: SocketAddr,
    /// The path of its WebSocket endpoint.
    pub path: &'static str,
}

impl SocketTarget {
    /// The endpoint of a Feedline server.
    pub(super) fn feedline(addr: SocketAddr) -> Self {
        Self { addr, path: "/connection/websocket" }
    }
}
