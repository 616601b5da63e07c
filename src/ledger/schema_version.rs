//! Databases with a schema older than 0001_initial.sql.

/// The reason for refusing a database of a development version before the first release: its migrations had other
/// numbers.
pub(super) fn old_numbering(version: i64) -> String {
    format!(
        "its schema is version {version} of a development version of Feedline, which this program cannot use; \
         nothing was changed: start with an empty database, or export the data with the program that made it and \
         create it again through the API"
    )
}
