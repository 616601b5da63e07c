//! Who is at the other end: client addresses behind proxies, browser origins, and deadlines on transfers.
//!
//! | file | what is in it |
//! |---|---|
//! | [`origin`] | which browser origins may connect |
//! | `trusted` | the networks of trusted proxies; which addresses limits by address exempt |
//! | `forwarded` | `X-Forwarded-For` and `Forwarded` |
//! | [`proxy_protocol`] | the PROXY protocol, versions 1 and 2 |
//! | [`progress`] | deadlines on bodies and responses that make no progress |

use std::net::IpAddr;

mod forwarded;
pub mod origin;
pub mod progress;
pub mod proxy_protocol;
mod trusted;

pub use forwarded::client_address;
pub use origin::AllowedOrigins;
pub use trusted::{TrustedProxies, subscriber_network};

/// The address of the client that sent a request, as far as trusted proxies tell: the listener notes it in each
/// request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);
