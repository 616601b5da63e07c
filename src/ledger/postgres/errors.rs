//! Classifies the errors of PostgreSQL.

use std::error::Error as _;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::ledger::LedgerError;

/// An error, and how to recover from it.
pub(super) struct ClassifiedError {
    /// The error that the caller gets.
    pub(super) error: LedgerError,
    pub(super) recovery: RetryDecision,
}

/// How to recover from an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryDecision {
    /// Return the error to the caller.
    GiveUp,
    /// Repeat the call: the server rolled it back because of a conflict with another transaction.
    Retry,
    /// Use another connection: this one is lost or unusable. The outcome of a write is unknown.
    Reconnect,
}

/// Classifies an error.
pub(super) fn classify(error: &Error) -> ClassifiedError {
    let text = text(error);
    let Some(code) = error.code() else {
        // Not from the server: the connection is lost, or the reply violates the protocol.
        let of_the_line = error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>());
        let (error, recovery) = match of_the_line {
            true => (LedgerError::Unreachable(text), RetryDecision::Reconnect),
            false => (LedgerError::Failed(text), RetryDecision::GiveUp),
        };
        return ClassifiedError { error, recovery };
    };
    let (error, recovery) = match *code {
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => {
            (LedgerError::Busy, RetryDecision::Retry)
        }
        SqlState::LOCK_NOT_AVAILABLE => (LedgerError::Busy, RetryDecision::GiveUp),
        // The server's `statement_timeout` ended the statement, before the caller's time limit.
        SqlState::QUERY_CANCELED => (LedgerError::Unreachable(text), RetryDecision::GiveUp),
        // A standby has replaced the server, or a proxy in between has lost the prepared statements.
        SqlState::READ_ONLY_SQL_TRANSACTION | SqlState::INVALID_SQL_STATEMENT_NAME => {
            (LedgerError::Unreachable(text), RetryDecision::Reconnect)
        }
        ref code => match code.code().get(..2) {
            // The connection failed, or the operator or the server ended it.
            Some("08" | "57") => (LedgerError::Unreachable(text), RetryDecision::Reconnect),
            // The server has no disk space, memory or connections left.
            Some("53" | "58") => (LedgerError::Unreachable(text), RetryDecision::GiveUp),
            _ => (LedgerError::Failed(text), RetryDecision::GiveUp),
        },
    };
    ClassifiedError { error, recovery }
}

/// An error with its causes. The client never includes parameters or the password.
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
