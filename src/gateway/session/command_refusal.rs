//! Refusals of commands.

use super::actions::Action;
use crate::denials::{Denied, deny};
use crate::hooks::HookError;
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

/// The reply with an error of the application.
pub(crate) fn error_reply(id: u32, error: HookError) -> Reply {
    let Some(code) = error.code() else { return Reply::refused(id, ErrorCode::INTERNAL) };
    let code = ErrorCode { code, message: "", temporary: error.temporary };
    Reply { id, result: Err(ReplyError { code, message: Some(error.message), field: None }) }
}
