//! Network peers: client addresses behind proxies, browser origins, and deadlines on transfers.
//!
//! | file | contents |
//! |---|---|
//! | `base_path` | the path below which clients reach this server |
//! | `client_stream` | the stream of a connection: TCP, a socket of this machine, or TLS |
//! | `listen_address` | where the server listens |
//! | [`origin`] | which browser origins may connect |
//! | [`head_timer`] | the time that heads of requests may take |
//! | `own_hosts` | the hosts of this server, and URLs of its own API |
//! | [`own_paths`] | the paths of this server |
//! | `trusted` | the networks of trusted proxies; the addresses that limits by address exempt |
//! | `public` | which addresses belong to the public internet |
//! | `forwarded` | `X-Forwarded-For` and `Forwarded` |
//! | [`proxy_protocol`] | the PROXY protocol, versions 1 and 2 |
//! | [`progress`] | deadlines on bodies and responses that make no progress |
//! | [`takeover`] | takes the stream of a connection away from the HTTP server |

use std::net::IpAddr;

mod base_path;
mod client_stream;
mod forwarded;
pub mod head_timer;
mod listen_address;
pub mod origin;
mod own_hosts;
pub mod own_paths;
pub mod progress;
pub mod proxy_protocol;
mod public;
pub mod takeover;
mod trusted;

pub use base_path::BasePath;
pub use client_stream::ClientStream;
pub use forwarded::client_address;
pub use listen_address::ListenAddress;
pub use origin::AllowedOrigins;
pub use own_hosts::OwnHosts;
pub use public::is_public;
pub use trusted::{TrustedProxies, parse_network, subscriber_network};

/// The address of the client that sent a request, determined with the headers of trusted proxies. The listener adds it
/// to each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);
