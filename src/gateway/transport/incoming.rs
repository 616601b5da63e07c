//! What a transport receives.

use crate::protocol::Command;

/// What arrived from a client. Everything shows that the client is there.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// The commands of a frame.
    Commands(Vec<Command>),
    /// A ping of the transport, which is answered already.
    Ping,
    /// A pong of the transport.
    Pong,
}
