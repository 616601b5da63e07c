//! Classifies the errors of PostgreSQL.

use std::error::Error as _;

use tokio_postgres::Error;

use crate::ledger::LedgerError;
use crate::store_refusal::Refusal;

/// What to do about prepared statements that are lost.
const POOLED: &str = "a pooler in transaction mode needs ledger.prepared_statements = false";

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
    /// Return the error to the caller. Replace the connection unless it is new: another one may lead to another server.
    Replace,
}

/// Classifies an error.
pub(super) fn classify(error: &Error) -> ClassifiedError {
    let text = text(error);
    if let Some(code) = error.code() {
        return classify_code(code.code(), text);
    }
    // The client asks each server whether it takes writes, and refuses those that do not.
    if text.contains("does not allow writes") {
        return ClassifiedError {
            error: LedgerError::Refused(Refusal::ReadOnly, text),
            recovery: RetryDecision::GiveUp,
        };
    }
    // Not from the server: the connection is lost, or the reply violates the protocol.
    let of_the_line = error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>());
    let (error, recovery) = if of_the_line {
        (LedgerError::Unreachable(text), RetryDecision::Reconnect)
    } else {
        (LedgerError::Failed(text), RetryDecision::GiveUp)
    };
    ClassifiedError { error, recovery }
}

/// Classifies an error of the server by its SQLSTATE.
fn classify_code(code: &str, text: String) -> ClassifiedError {
    let (error, recovery) = match code {
        // Conflicts with other transactions: serialization failures, deadlocks.
        "40001" | "40P01" => (LedgerError::Busy, RetryDecision::Retry),
        "55P03" => (LedgerError::Busy, RetryDecision::GiveUp),
        // The server's `statement_timeout` ended the statement, before the caller's time limit.
        "57014" => (LedgerError::Unreachable(text), RetryDecision::GiveUp),
        // A standby has replaced the server, or the database became read only for new connections.
        "25006" => (LedgerError::Refused(Refusal::ReadOnly, text), RetryDecision::Replace),
        // Prepared statements are missing or somebody else's.
        "26000" | "42P05" => (LedgerError::Unreachable(format!("{text}; {POOLED}")), RetryDecision::Reconnect),
        // The server ended an idle transaction.
        "25P02" | "25P03" | "25P04" => (LedgerError::Unreachable(text), RetryDecision::Reconnect),
        _ => match (refusal(code), code.get(..2)) {
            (Some(refusal), _) => (LedgerError::Refused(refusal, text), RetryDecision::GiveUp),
            // The connection failed, or the operator or the server ended it, or the server starts.
            (None, Some("08" | "57")) => (LedgerError::Unreachable(text), RetryDecision::Reconnect),
            (None, _) => (LedgerError::Failed(text), RetryDecision::GiveUp),
        },
    };
    ClassifiedError { error, recovery }
}

/// The refusal that an SQLSTATE means. Those that are not listed concern the call.
fn refusal(code: &str) -> Option<Refusal> {
    Some(match code {
        "42501" => Refusal::NoPermission,
        "53100" => Refusal::Disk,
        "53200" => Refusal::OutOfMemory,
        "53300" => Refusal::TooManyConnections,
        // A database, schema, table, column, function or object is missing, or was replaced by another one.
        "3D000" | "3F000" | "42P01" | "42703" | "42883" | "42704" | "42809" => Refusal::SchemaDamaged,
        _ => match code.get(..2)? {
            // The login was refused.
            "28" => Refusal::NoPermission,
            // A limit of the server's configuration.
            "53" => Refusal::NotReady,
            // The server cannot read or write its files.
            "58" => Refusal::Disk,
            _ => return None,
        },
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn classified(code: &str) -> (LedgerError, RetryDecision) {
        let ClassifiedError { error, recovery } = classify_code(code, "text".to_owned());
        (error, recovery)
    }

    #[test]
    fn refusals_are_recognised_with_their_reason() {
        for (code, refusal) in [
            ("42501", Refusal::NoPermission),
            ("28000", Refusal::NoPermission),
            ("28P01", Refusal::NoPermission),
            ("25006", Refusal::ReadOnly),
            ("53100", Refusal::Disk),
            ("58030", Refusal::Disk),
            ("53200", Refusal::OutOfMemory),
            ("53300", Refusal::TooManyConnections),
            ("53400", Refusal::NotReady),
            ("42P01", Refusal::SchemaDamaged),
            ("42883", Refusal::SchemaDamaged),
            ("42703", Refusal::SchemaDamaged),
            ("42704", Refusal::SchemaDamaged),
            ("3D000", Refusal::SchemaDamaged),
            ("3F000", Refusal::SchemaDamaged),
        ] {
            let (error, _) = classified(code);
            assert!(matches!(&error, LedgerError::Refused(found, _) if *found == refusal), "{code}: {error:?}");
        }
        assert_eq!(classified("25006").1, RetryDecision::Replace, "another connection may lead to another server");
        assert_eq!(classified("42501").1, RetryDecision::GiveUp, "a right is not got by another connection");
    }

    #[test]
    fn lost_connections_conflicts_and_failures_are_told_apart() {
        for code in ["57P01", "57P02", "57P03", "57P05", "08006", "08P01", "26000", "42P05", "25P03"] {
            let (error, recovery) = classified(code);
            assert!(matches!(error, LedgerError::Unreachable(_)) && recovery == RetryDecision::Reconnect, "{code}");
        }
        assert!(matches!(classified("57014"), (LedgerError::Unreachable(_), RetryDecision::GiveUp)));
        for code in ["40001", "40P01"] {
            assert!(matches!(classified(code), (LedgerError::Busy, RetryDecision::Retry)), "{code}");
        }
        assert!(matches!(classified("55P03"), (LedgerError::Busy, RetryDecision::GiveUp)));
        for code in ["P0001", "23505", "22P02", "XX000", "42601", "0A000"] {
            assert!(matches!(classified(code), (LedgerError::Failed(_), RetryDecision::GiveUp)), "{code}");
        }
    }
}
