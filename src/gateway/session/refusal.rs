//! Refusals of commands.

use super::actions::Action;
use crate::auth::{Revoked, TokenError};
use crate::protocol::{Disconnect, ErrorCode, reply_error};

/// The reason why a command is refused.
#[derive(Debug)]
pub(super) enum CommandRefusal {
    /// Reply with this error.
    Error(ErrorCode),
    /// Close the connection.
    Close(Disconnect),
}

impl CommandRefusal {
    pub(super) const BAD_REQUEST: Self = Self::Close(Disconnect::BAD_REQUEST);

    /// The action for the command with this id.
    pub(super) fn into_action(self, id: u32) -> Action {
        match self {
            Self::Error(code) => Action::Reply(reply_error(id, code, None, None)),
            Self::Close(reason) => Action::Close(reason),
        }
    }
}

impl From<ErrorCode> for CommandRefusal {
    fn from(code: ErrorCode) -> Self {
        Self::Error(code)
    }
}

impl From<Disconnect> for CommandRefusal {
    fn from(reason: Disconnect) -> Self {
        Self::Close(reason)
    }
}

/// The close code for a revoked token or a blocked user.
pub(in crate::gateway) fn disconnect_for(revoked: Revoked) -> Disconnect {
    match revoked {
        Revoked::Token => Disconnect::INVALID_TOKEN,
        Revoked::User => Disconnect::BLOCKED,
    }
}

/// The close code for an invalid token. If a setting of the operator caused the refusal, the reason says so.
pub(super) fn invalid_token(error: TokenError) -> Disconnect {
    match error {
        TokenError::NoExpiry => Disconnect { reason: "invalid token: no exp".into(), ..Disconnect::INVALID_TOKEN },
        TokenError::Invalid(_) | TokenError::Expired => Disconnect::INVALID_TOKEN,
    }
}
