//! Ports for servers that tests start.

use std::net::TcpListener;

/// Below the ephemeral range, so that no outgoing connection takes a server's port while the server restarts.
const PORTS: std::ops::Range<u16> = 15_000..32_000;

/// Returns a free port of 127.0.0.1. Another process may take it before the caller binds it; callers then retry.
pub fn free_port() -> u16 {
    let mut tried = (0..1_000).map(|_| rand::random_range(PORTS));
    tried.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a free port")
}
