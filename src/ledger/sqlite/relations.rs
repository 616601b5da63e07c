//! The relations of pairs of a reader and an author.

use rusqlite::{Connection, Row};

use super::rows::id_pairs_json;
use crate::model::{Relation, Standing, UserId};

/// Nine index look-ups for each pair.
pub(super) const RELATIONS: &str = "WITH pair AS MATERIALIZED \
        (SELECT key AS place, value ->> 0 AS reader, value ->> 1 AS author FROM json_each(?1)) \
    SELECT EXISTS (SELECT 1 FROM follows WHERE follower = reader AND followee = author), \
        EXISTS (SELECT 1 FROM follows WHERE follower = author AND followee = reader), \
        EXISTS (SELECT 1 FROM restrictions WHERE maker = author AND kind = 'hide' AND target = reader), \
        EXISTS (SELECT 1 FROM restrictions WHERE maker = reader AND kind = 'mute' AND target = author), \
        EXISTS (SELECT 1 FROM restrictions WHERE maker = reader AND kind = 'block' AND target = author), \
        EXISTS (SELECT 1 FROM restrictions WHERE maker = author AND kind = 'block' AND target = reader), \
        EXISTS (SELECT 1 FROM users INDEXED BY users_locked WHERE id = author AND locked), \
        EXISTS (SELECT 1 FROM restrictions WHERE maker = reader AND kind = 'reposts' AND target = author), \
        EXISTS (SELECT 1 FROM restrictions WHERE maker = reader AND kind = 'listed' AND target = author) \
    FROM pair ORDER BY place";

pub(super) fn read(db: &Connection, pairs: &[(UserId, UserId)]) -> rusqlite::Result<Vec<Relation>> {
    db.prepare_cached(RELATIONS)?.query_map([id_pairs_json(pairs)?], relation)?.collect()
}

fn relation(row: &Row<'_>) -> rusqlite::Result<Relation> {
    Ok(Relation {
        follows: row.get(0)?,
        followed: row.get(1)?,
        hidden: row.get(2)?,
        muted: row.get(3)?,
        blocks: row.get(4)?,
        blocked: row.get(5)?,
        locked: row.get(6)?,
        reposts_off: row.get(7)?,
        listed: row.get(8)?,
        standing: Standing::Active,
    })
}
