//! Converts between the types of PostgreSQL and the types of this crate, in rows and parameters.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::errors;
use crate::ledger::{LedgerError, Result};
use crate::model::{PostCounts, User, UserId};

/// Reads a column.
pub(super) fn at<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T> {
    row.try_get(column).map_err(|error| LedgerError::Failed(errors::text(&error)))
}

/// Reads a column with a user's id.
pub(super) fn id_at(row: &Row, column: usize) -> Result<UserId> {
    let text: &str = at(row, column)?;
    UserId::parse(text).ok_or_else(|| LedgerError::Failed(format!("{text:?} is not a user id")))
}

/// Reads a column with a number that Feedline stored. These numbers are never negative.
pub(super) fn natural_at(row: &Row, column: usize) -> Result<u64> {
    at(row, column).map(natural)
}

/// Reads a column with JSON.
pub(super) fn json_at<T: DeserializeOwned>(row: &Row, column: usize) -> Result<T> {
    serde_json::from_str(at(row, column)?).map_err(|error| LedgerError::Failed(format!("what is kept: {error}")))
}

/// The row of a statement that always returns one.
pub(super) fn one(rows: &[Row]) -> Result<&Row> {
    rows.first().ok_or_else(|| LedgerError::Failed("an answer without a row".to_owned()))
}

/// Parses a list of user ids.
pub(super) fn user_ids(texts: Vec<&str>) -> Result<Vec<UserId>> {
    let id = |text: &str| UserId::parse(text).ok_or_else(|| LedgerError::Failed(format!("{text:?} is not a user id")));
    texts.into_iter().map(id).collect()
}

/// Converts a number to the `bigint` of PostgreSQL. Times and ids stay far below its maximum.
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a number that Feedline stored. These numbers are never negative.
pub(super) fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// Converts a limit to the `bigint` of PostgreSQL.
pub(super) fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Serializes a value as JSON.
pub(super) fn json_text<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| LedgerError::Failed(error.to_string()))
}

/// Prepares text written by users for PostgreSQL, which does not accept NUL: each NUL becomes U+FFFD.
pub(super) fn plain(text: &str) -> String {
    text.replace('\0', "\u{FFFD}")
}

/// The ids as an array of text.
pub(super) fn texts(ids: &[UserId]) -> Vec<&str> {
    ids.iter().map(UserId::as_str).collect()
}

/// The ids as an array of text, as they were written.
pub(super) fn shown(ids: &[UserId]) -> Vec<&str> {
    ids.iter().map(UserId::shown).collect()
}

/// Reads `id, name, avatar, created_at` from the first four columns.
pub(super) fn user(row: &Row) -> Result<User> {
    Ok(User { id: id_at(row, 0)?, name: at(row, 1)?, avatar: at(row, 2)?, created_at: natural_at(row, 3)? })
}

/// Reads likes, comments, favourites, reposts and quotes, starting at a column.
pub(super) fn counts(row: &Row, first: usize) -> Result<PostCounts> {
    let number = |column| natural_at(row, first + column);
    Ok(PostCounts {
        likes: number(0)?,
        comments: number(1)?,
        favourites: number(2)?,
        reposts: number(3)?,
        quotes: number(4)?,
    })
}
