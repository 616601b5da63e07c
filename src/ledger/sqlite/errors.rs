//! Classifies the errors of SQLite.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::ledger::LedgerError;

/// Maps an error to a [`LedgerError`].
pub(super) fn failure(error: &rusqlite::Error) -> LedgerError {
    use ErrorCode::{
        CannotOpen, DatabaseBusy, DatabaseLocked, DiskFull, FileLockingProtocolFailed, OutOfMemory, SystemIoFailure,
    };
    match error.sqlite_error_code() {
        Some(DatabaseBusy | DatabaseLocked) => LedgerError::Busy,
        Some(CannotOpen | DiskFull | FileLockingProtocolFailed | OutOfMemory | SystemIoFailure) => {
            LedgerError::Unreachable(error.to_string())
        }
        _ => LedgerError::Failed(error.to_string()),
    }
}

/// Adds the name of the file to an error.
pub(super) fn explain(path: &Path, error: &rusqlite::Error) -> LedgerError {
    match failure(error) {
        LedgerError::Unreachable(why) => LedgerError::Unreachable(format!("{}: {why}", path.display())),
        LedgerError::Busy => LedgerError::Unreachable(format!("{}: another process holds its lock", path.display())),
        LedgerError::Failed(why) => LedgerError::Failed(format!("{}: {why}", path.display())),
    }
}
