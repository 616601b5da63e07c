//! The rows of locked accounts and of open requests, which follows, restrictions and topics read and change.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{events, integer, natural};
use crate::ledger::edges::Edge;
use crate::ledger::{FollowOutcome, MAX_REQUESTS_BY, MAX_REQUESTS_TO, REQUEST_QUIET};
use crate::model::{Millis, UserId};

/// Whether the account of a user is locked.
pub(super) fn is_locked(db: &Connection, user: &UserId) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM users INDEXED BY users_locked WHERE id = ?1 AND locked")?.exists([user.as_str()])
}

/// Adds a request to follow a locked account, unless there is one.
pub(super) fn add(db: &Connection, edge: &Edge, now: Millis, outlet: bool) -> rusqlite::Result<FollowOutcome> {
    let pair = [edge.author.as_str(), edge.reader.as_str()];
    let sql = "SELECT 1 FROM follow_requests WHERE followee = ?1 AND follower = ?2";
    if db.prepare_cached(sql)?.exists(pair)? {
        return Ok(FollowOutcome::Requested);
    }
    let sql = "SELECT 1 FROM follow_requests INDEXED BY follow_requests_by WHERE follower = ?1 LIMIT 1 OFFSET ?2";
    if db.prepare_cached(sql)?.exists(params![edge.reader.as_str(), integer(MAX_REQUESTS_BY - 1)])? {
        return Ok(FollowOutcome::TooManyRequests);
    }
    let sql = "SELECT 1 FROM follow_requests INDEXED BY follow_requests_to WHERE followee = ?1 LIMIT 1 OFFSET ?2";
    if db.prepare_cached(sql)?.exists(params![edge.author.as_str(), integer(MAX_REQUESTS_TO - 1)])? {
        return Ok(FollowOutcome::AskedTooOften);
    }
    let sql = "SELECT at FROM follow_rejections WHERE followee = ?1 AND follower = ?2";
    let rejected: Option<i64> = db.prepare_cached(sql)?.query_row(pair, |row| row.get(0)).optional()?;
    let shown_at = rejected.map_or(now, |at| now.max(natural(at) + REQUEST_QUIET));
    let sql = "INSERT INTO follow_requests (follower, followee, at, shown_at) VALUES (?2, ?1, ?3, ?4)";
    db.prepare_cached(sql)?.execute(params![pair[0], pair[1], integer(now), integer(shown_at)])?;
    if shown_at == now {
        events::append(db, Some(&edge.requested()), now, outlet)?;
    }
    Ok(FollowOutcome::Requested)
}

/// The number of open requests of the reader to other users.
pub(super) fn others_by(db: &Connection, edge: &Edge) -> rusqlite::Result<u64> {
    let sql =
        "SELECT count(*) FROM follow_requests INDEXED BY follow_requests_by WHERE follower = ?1 AND followee <> ?2";
    let pair = [edge.reader.as_str(), edge.author.as_str()];
    db.prepare_cached(sql)?.query_row(pair, |row| row.get(0)).map(natural)
}

/// Removes a request, and writes its event if there was one. Returns whether there was one.
pub(super) fn end(db: &Connection, edge: &Edge, now: Millis, outlet: bool) -> rusqlite::Result<bool> {
    let ended = remove(db, edge, None)?;
    if ended {
        events::append(db, Some(&edge.request_ended()), now, outlet)?;
    }
    Ok(ended)
}

/// Removes a request, if it is shown at this time (`None`: shown or not). Returns whether there was one.
pub(super) fn remove(db: &Connection, edge: &Edge, shown_at: Option<Millis>) -> rusqlite::Result<bool> {
    let sql = "DELETE FROM follow_requests WHERE followee = ?1 AND follower = ?2 AND shown_at <= ?3";
    let row = params![edge.author.as_str(), edge.reader.as_str(), shown_at.map_or(i64::MAX, integer)];
    Ok(db.prepare_cached(sql)?.execute(row)? == 1)
}
