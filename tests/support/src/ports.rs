//! Ports for servers that tests start.

use std::net::TcpListener;

/// Below those that the system hands out by itself: no connection of some test takes a server's port while that is
/// being restarted.
const PORTS: std::ops::Range<u16> = 15_000..32_000;

/// A port of 127.0.0.1 that nobody has just now. Somebody may have it a moment later: try again then.
pub fn free_port() -> u16 {
    let mut tried = (0..1_000).map(|_| rand::random_range(PORTS));
    tried.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a free port")
}
