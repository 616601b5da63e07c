//! The close codes of connections, chosen by cause. `protocol/codes.rs` has all of them.

use crate::auth::{Revoked, TokenError};
use crate::hooks::HookDisconnect;
use crate::protocol::{Disconnect, ErrorCode, Reply};

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
