//! Classifies the errors of SQLite.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::ledger::LedgerError;
use crate::store_refusal::Refusal;

/// Maps an error to a [`LedgerError`].
pub(super) fn failure(error: &rusqlite::Error) -> LedgerError {
    use ErrorCode::{DatabaseBusy, DatabaseLocked, FileLockingProtocolFailed, SystemIoFailure};
    let code = match error {
        rusqlite::Error::SqlInputError { error, .. } => Some(error.code),
        error => error.sqlite_error_code(),
    };
    match code {
        Some(DatabaseBusy | DatabaseLocked) => LedgerError::Busy,
        // A commit whose write failed may be in the file.
        Some(SystemIoFailure | FileLockingProtocolFailed) => LedgerError::Unreachable(error.to_string()),
        code => match code.and_then(|code| refusal(code, &error.to_string())) {
            Some(refusal) => LedgerError::Refused(refusal, error.to_string()),
            None => LedgerError::Failed(error.to_string()),
        },
    }
}

/// The texts of errors without a code of their own: something was removed by hand.
const MISSING: [&str; 4] = ["no such table", "no such column", "no such function", "no such index"];

/// The refusal that an error code means. Codes that are not listed concern the call.
fn refusal(code: ErrorCode, text: &str) -> Option<Refusal> {
    use ErrorCode::{
        AuthorizationForStatementDenied, CannotOpen, DiskFull, NotADatabase, OutOfMemory, PermissionDenied, ReadOnly,
        SchemaChanged, Unknown,
    };
    Some(match code {
        PermissionDenied | AuthorizationForStatementDenied => Refusal::NoPermission,
        ReadOnly => Refusal::ReadOnly,
        DiskFull | CannotOpen => Refusal::Disk,
        OutOfMemory => Refusal::OutOfMemory,
        NotADatabase | SchemaChanged => Refusal::SchemaDamaged,
        Unknown if MISSING.iter().any(|missing| text.contains(missing)) => Refusal::SchemaDamaged,
        _ => return None,
    })
}

/// Adds the name of the file to an error.
pub(super) fn explain(path: &Path, error: &rusqlite::Error) -> LedgerError {
    let path = path.display();
    match failure(error) {
        LedgerError::Unreachable(why) => LedgerError::Unreachable(format!("{path}: {why}")),
        LedgerError::Busy => LedgerError::Unreachable(format!("{path}: another process holds its lock")),
        LedgerError::Refused(refusal, why) => LedgerError::Refused(refusal, format!("{path}: {why}")),
        LedgerError::Failed(why) => LedgerError::Failed(format!("{path}: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::{Connection, OpenFlags, ffi};

    use super::*;

    /// An error with a primary or extended code of SQLite.
    fn failed(code: std::ffi::c_int) -> LedgerError {
        failure(&rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
    }

    #[test]
    fn refusals_are_recognised_with_their_reason() {
        for (code, refusal) in [
            (ffi::SQLITE_PERM, Refusal::NoPermission),
            (ffi::SQLITE_AUTH, Refusal::NoPermission),
            (ffi::SQLITE_READONLY, Refusal::ReadOnly),
            (ffi::SQLITE_READONLY_DBMOVED, Refusal::ReadOnly),
            (ffi::SQLITE_FULL, Refusal::Disk),
            (ffi::SQLITE_CANTOPEN, Refusal::Disk),
            (ffi::SQLITE_NOMEM, Refusal::OutOfMemory),
            (ffi::SQLITE_NOTADB, Refusal::SchemaDamaged),
        ] {
            let error = failed(code);
            assert!(matches!(&error, LedgerError::Refused(found, _) if *found == refusal), "{code}: {error:?}");
        }
        for code in [ffi::SQLITE_IOERR, ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_PROTOCOL] {
            assert!(matches!(failed(code), LedgerError::Unreachable(_)), "{code}");
        }
        for code in [ffi::SQLITE_BUSY, ffi::SQLITE_LOCKED] {
            assert!(matches!(failed(code), LedgerError::Busy), "{code}");
        }
        for code in [ffi::SQLITE_CONSTRAINT, ffi::SQLITE_CORRUPT, ffi::SQLITE_TOOBIG] {
            assert!(matches!(failed(code), LedgerError::Failed(_)), "{code}");
        }
    }

    #[test]
    fn errors_of_real_databases_are_recognised() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("l.db");
        let db = Connection::open(&path).expect("a database");
        db.execute_batch("CREATE TABLE t (a TEXT CHECK (a <> 'poison'))").expect("a table");
        let of = |db: &Connection, sql: &str| failure(&db.execute_batch(sql).expect_err(sql));
        for sql in ["INSERT INTO gone VALUES (1)", "UPDATE t SET gone = 1", "SELECT gone(a) FROM t"] {
            let error = of(&db, sql);
            assert!(matches!(error, LedgerError::Refused(Refusal::SchemaDamaged, _)), "{sql}: {error:?}");
        }
        for sql in ["INSERT INTO t VALUES ('poison')", "SELEKT"] {
            assert!(matches!(of(&db, sql), LedgerError::Failed(_)), "{sql}");
        }
        db.pragma_update(None, "max_page_count", 2).expect("a limit");
        let full = of(&db, "INSERT INTO t VALUES (hex(zeroblob(99999)))");
        assert!(matches!(full, LedgerError::Refused(Refusal::Disk, _)), "{full:?}");
        let reader = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("a reader");
        let refused = of(&reader, "INSERT INTO t VALUES ('a')");
        assert!(matches!(refused, LedgerError::Refused(Refusal::ReadOnly, _)), "{refused:?}");
    }
}
