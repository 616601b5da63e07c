//! The end of a connection.

use tokio_tungstenite::tungstenite::error::{CapacityError, Error as WsError, ProtocolError};

use crate::protocol::Disconnect;

/// Why a connection ends.
#[derive(Debug)]
pub(crate) enum ConnectionEnd {
    /// The client disconnected, or the transport failed.
    Gone,
    /// The client began the close handshake of WebSocket.
    ClosedByClient,
    /// The server closes it.
    Close(Disconnect),
    /// The client sent something that is not a valid WebSocket message: a close code of the WebSocket protocol.
    Unreadable(u16, &'static str),
}

impl From<&WsError> for ConnectionEnd {
    /// The end after a failed read: of the transport, or of a client that violates the WebSocket protocol.
    fn from(error: &WsError) -> Self {
        match error {
            WsError::Capacity(CapacityError::MessageTooLong { .. }) => Self::Unreadable(1009, "message too large"),
            WsError::Utf8(_) => Self::Unreadable(1007, "not UTF-8"),
            WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => Self::Gone,
            WsError::Protocol(_) => Self::Unreadable(1002, "protocol error"),
            _ => Self::Gone,
        }
    }
}
