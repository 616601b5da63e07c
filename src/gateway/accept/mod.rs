//! Accepts connections: from the accepted TCP connection to the connection of a client.
//!
//! | file | what is in it |
//! |---|---|
//! | `bound_listener` | open ports and sockets |
//! | `tls` | the certificate, and TLS handshakes |
//! | `listener` | the accept loop: HTTP and upgrades on one port, timeouts |
//! | `listener_routes` | the routes of a listener, before and after the start |
//! | `connection_counts` | connections of the process and of an address, and their caps |
//! | `admission` | which requests may become connections: origins, limits |
//! | `upgrade` | the WebSocket handshake: encodings |
//! | `stream_opener` | the beginning of HTTP streams and server-sent events |

pub(crate) mod admission;
pub mod bound_listener;
pub mod connection_counts;
pub mod listener;
pub mod listener_routes;
pub mod stream_opener;
pub mod tls;
pub mod upgrade;
