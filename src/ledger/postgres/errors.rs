//! What PostgreSQL's errors mean to a caller.

use std::error::Error as _;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::ledger::LedgerError;

/// What to make of an error.
pub(super) struct Trouble {
    /// What the caller is told.
    pub(super) error: LedgerError,
    pub(super) mends: Mends,
}

/// What may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mends {
    /// Nothing that the pool could do.
    Nothing,
    /// Asking again: the server undid everything, because another transaction was in the way.
    AskingAgain,
    /// Another connection; this one is of no more use. Whether a write happened is not known.
    Reconnecting,
}

/// Sorts an error.
pub(super) fn sort(error: &Error) -> Trouble {
    let text = text(error);
    let Some(code) = error.code() else {
        // Not from the server: the connection is gone, or what came over it is not what was expected.
        let of_the_line = error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>());
        let (error, mends) = match of_the_line {
            true => (LedgerError::Unreachable(text), Mends::Reconnecting),
            false => (LedgerError::Failed(text), Mends::Nothing),
        };
        return Trouble { error, mends };
    };
    let (error, mends) = match *code {
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => {
            (LedgerError::Busy, Mends::AskingAgain)
        }
        SqlState::LOCK_NOT_AVAILABLE => (LedgerError::Busy, Mends::Nothing),
        // The server's own clock ran out before ours.
        SqlState::QUERY_CANCELED => (LedgerError::Unreachable(text), Mends::Nothing),
        // A standby took the place of the server; or somebody between us forgot what was prepared.
        SqlState::READ_ONLY_SQL_TRANSACTION | SqlState::INVALID_SQL_STATEMENT_NAME => {
            (LedgerError::Unreachable(text), Mends::Reconnecting)
        }
        ref code => match code.code().get(..2) {
            // The connection; the operator, or the server itself, ends it.
            Some("08" | "57") => (LedgerError::Unreachable(text), Mends::Reconnecting),
            // Out of disk, memory or connections.
            Some("53" | "58") => (LedgerError::Unreachable(text), Mends::Nothing),
            _ => (LedgerError::Failed(text), Mends::Nothing),
        },
    };
    Trouble { error, mends }
}

/// An error with its causes. The client never puts parameters into one, nor a password.
pub(super) fn text(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}
