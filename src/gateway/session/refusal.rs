//! Refusals of commands.

use super::actions::Action;
use crate::auth::{Revoked, TokenError};
use crate::denials::{Denied, deny};
use crate::hooks::{HookDisconnect, HookError};
use crate::protocol::{Disconnect, ErrorCode, Reply, ReplyError};

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

    /// Records that a subscription is refused.
    pub(super) fn deny_subscription(&self, channel: &str) {
        match self {
            Self::Error(code) => deny(Denied::Subscription, code.message, &format_args!("{channel:?}")),
            Self::Close(_) => deny(Denied::Subscription, "invalid token", &format_args!("{channel:?}")),
        }
    }

    /// The action for the command with this id.
    pub(super) fn into_action(self, id: u32) -> Action {
        match self {
            Self::Error(code) => Action::Reply(Reply::refused(id, code)),
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
pub(crate) fn disconnect_for(revoked: Revoked) -> Disconnect {
    match revoked {
        Revoked::Token => Disconnect::INVALID_TOKEN,
        Revoked::User => Disconnect::PERMISSION_DENIED,
    }
}

/// The close code for an error reply to `connect`, for a client whose transport has no replies.
pub(crate) fn disconnect_for_error(reply: &Reply) -> Option<Disconnect> {
    let code = reply.result.as_ref().err()?.code.code;
    let is = |error: ErrorCode| error.code == code;
    Some(if is(ErrorCode::TOKEN_EXPIRED) || is(ErrorCode::EXPIRED) {
        Disconnect::EXPIRED
    } else if is(ErrorCode::TOO_MANY_REQUESTS) {
        Disconnect::TOO_MANY_REQUESTS
    } else if is(ErrorCode::PERMISSION_DENIED) {
        Disconnect::PERMISSION_DENIED
    } else {
        Disconnect::INTERNAL
    })
}

/// The reply with an error of the application.
pub(crate) fn error_reply(id: u32, error: HookError) -> Reply {
    let Some(code) = error.code() else { return Reply::refused(id, ErrorCode::INTERNAL) };
    let code = ErrorCode { code, message: "", temporary: error.temporary };
    Reply { id, result: Err(ReplyError { code, message: Some(error.message), field: None }) }
}

/// The close code of the application.
pub(crate) fn disconnect(close: HookDisconnect) -> Disconnect {
    close.close().map_or(Disconnect::FORCE_DISCONNECT, |(code, reason)| Disconnect { code, reason })
}

/// The close code for an invalid token. If a setting of the operator caused the refusal, the reason says so.
pub(super) fn invalid_token(error: TokenError) -> Disconnect {
    match error {
        TokenError::NoExpiry => Disconnect { reason: "invalid token: no exp".into(), ..Disconnect::INVALID_TOKEN },
        TokenError::Invalid(_) | TokenError::Expired => Disconnect::INVALID_TOKEN,
    }
}
