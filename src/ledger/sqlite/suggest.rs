//! The followees of a user's followees.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use super::rows::user_id_at;
use super::{count, readable};
use crate::ledger::SuggestionLimits;
use crate::model::UserId;

/// The followees of a user, latest follow first.
pub(super) const FOLLOWEES: &str =
    "SELECT followee FROM follows INDEXED BY follows_out WHERE follower = ?1 ORDER BY seq DESC LIMIT ?2";

/// Finds a row if the reader follows the user.
const FOLLOWS: &str = "SELECT 1 FROM follows INDEXED BY follows_edge WHERE follower = ?1 AND followee = ?2";

/// Reads at most `reach.followees` × `reach.each` index entries and as many look-ups, regardless of the number of
/// followees of `reader`.
pub(super) fn read(db: &Connection, reader: &UserId, reach: SuggestionLimits) -> rusqlite::Result<Vec<(UserId, u64)>> {
    // One snapshot: otherwise a user that is followed concurrently might be suggested.
    let snapshot = db.unchecked_transaction()?;
    let followed = followees(&snapshot, reader, reach.followees)?;
    let mut mutual: HashMap<UserId, u64> = HashMap::new();
    for followee in &followed {
        for second in followees(&snapshot, followee, reach.each)? {
            *mutual.entry(second).or_default() += 1;
        }
    }
    let mut ranked: Vec<_> = mutual.into_iter().filter(|(user, _)| user != reader).collect();
    ranked.sort_unstable_by(|(a, many), (b, more)| more.cmp(many).then_with(|| a.cmp(b)));
    let mut follows = snapshot.prepare_cached(FOLLOWS)?;
    let mut people = Vec::new();
    for (user, mutual) in ranked {
        if people.len() == reach.people {
            break;
        }
        if !follows.exists([reader.as_str(), user.as_str()])? {
            people.push((user, mutual));
        }
    }
    Ok(people)
}

fn followees(db: &Connection, follower: &UserId, limit: usize) -> rusqlite::Result<Vec<UserId>> {
    let mut statement = db.prepare_cached(FOLLOWEES)?;
    readable("follows", statement.query(params![follower.as_str(), count(limit)])?, |row| user_id_at(row, 0))
}
