//! Decoding of rows. A row that cannot be decoded does not affect the others.

use rusqlite::types::{Type, ValueRef};
use rusqlite::{Row, Rows};
use serde::Serialize;

use crate::ledger::quarantine::report_unreadable;
use crate::model::{PostId, UserId};

/// No limit, as a parameter of SQLite; see [`readable_page`].
pub(super) const UNLIMITED: i64 = -1;

/// Whether an error is about the value of one column, not about the file.
pub(super) fn is_undecodable(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    matches!(error, FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..))
}

/// Decodes rows. A row that cannot be decoded is reported by its first column and omitted, so that it does not hide the
/// others.
pub(super) fn readable<T>(
    table: &'static str,
    rows: Rows<'_>,
    decode: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    readable_page(table, rows, usize::MAX, decode)
}

/// As [`readable`], for pages. Callers take a short page for the last page, so the statement has no limit and the
/// function reads rows until it has decoded `limit` of them.
pub(super) fn readable_page<T>(
    table: &'static str,
    mut rows: Rows<'_>,
    limit: usize,
    decode: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut readable = Vec::new();
    while readable.len() < limit
        && let Some(row) = rows.next()?
    {
        match decode(row) {
            Ok(decoded) => readable.push(decoded),
            Err(error) if is_undecodable(&error) => {
                let name = row.get_ref(0).map_or_else(|_| String::new(), |value| name_of(value));
                report_unreadable(table, &name, &error);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(readable)
}

/// The value of a column as text. It identifies the row in the log.
fn name_of(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).chars().take(64).collect(),
        other => format!("{:?}", other.data_type()),
    }
}

/// Reads a column that holds a user's id.
pub(super) fn user_id_at(row: &Row<'_>, column: usize) -> rusqlite::Result<UserId> {
    let text = row.get_ref(column)?.as_str()?;
    UserId::parse(text).ok_or_else(|| {
        let why = format!("{text:?} is not a user id");
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, why.into())
    })
}

/// Reads a column that holds a post's id.
pub(super) fn post_id_at(row: &Row<'_>, column: usize) -> rusqlite::Result<PostId> {
    row.get(column).map(|id: i64| PostId(u64::try_from(id).unwrap_or_default()))
}

/// Serializes a value as JSON: for bodies of posts, and to pass a list of any length to one statement.
pub(super) fn json_text<T: Serialize + ?Sized>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// Serializes ids of users, to pass a list of any length to one statement. They are in lower case, as in all columns.
pub(super) fn ids_json(ids: &[UserId]) -> rusqlite::Result<String> {
    json_text(&ids.iter().map(UserId::as_str).collect::<Vec<_>>())
}

/// As [`ids_json`], for pairs.
pub(super) fn id_pairs_json(pairs: &[(UserId, UserId)]) -> rusqlite::Result<String> {
    json_text(&pairs.iter().map(|(one, other)| [one.as_str(), other.as_str()]).collect::<Vec<_>>())
}
