//! The relations of pairs of a reader and an author.

use tokio_postgres::Row;

use super::columns::at;
use crate::ledger::Result;
use crate::model::{Relation, Standing, UserId};

/// Builds a statement that returns the relations of the pairs of a reader (`$1`) and an author (`$2`), in their order:
/// nine look-ups for each pair, each in one partition. `OFFSET 0` keeps them look-ups: without it the planner may read
/// a whole table once, if the table was small when the plan was made. `$columns` are further ones, out of `$joined`.
#[rustfmt::skip]
macro_rules! with_relations {
    ($columns:literal, $joined:literal) => {
        concat!(
            "SELECT EXISTS (SELECT FROM follows WHERE follower = reader AND followee = author OFFSET 0),
             EXISTS (SELECT FROM follows WHERE follower = author AND followee = reader OFFSET 0),
             EXISTS (SELECT FROM restrictions WHERE maker = author AND kind = 'hide' AND target = reader OFFSET 0),
             EXISTS (SELECT FROM restrictions WHERE maker = reader AND kind = 'mute' AND target = author OFFSET 0),
             EXISTS (SELECT FROM restrictions WHERE maker = reader AND kind = 'block' AND target = author OFFSET 0),
             EXISTS (SELECT FROM restrictions WHERE maker = author AND kind = 'block' AND target = reader OFFSET 0),
             EXISTS (SELECT FROM users WHERE id = author AND locked OFFSET 0),
             EXISTS (SELECT FROM restrictions WHERE maker = reader AND kind = 'reposts' AND target = author OFFSET 0),
             EXISTS (SELECT FROM restrictions WHERE maker = reader AND kind = 'listed' AND target = author OFFSET 0)",
            $columns, " FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS pair (reader, author, place) ",
            $joined, " ORDER BY place"
        )
    };
}
pub(super) use with_relations;

pub(super) const RELATIONS: &str = with_relations!("", "");

/// Pairs of a reader and an author as parameters of [`with_relations`].
pub(super) fn columns(pairs: &[(UserId, UserId)]) -> (Vec<&str>, Vec<&str>) {
    pairs.iter().map(|(reader, author)| (reader.as_str(), author.as_str())).unzip()
}

/// Reads the first columns of [`with_relations`].
pub(super) fn relation(row: &Row) -> Result<Relation> {
    Ok(Relation {
        follows: at(row, 0)?,
        followed: at(row, 1)?,
        hidden: at(row, 2)?,
        muted: at(row, 3)?,
        blocks: at(row, 4)?,
        blocked: at(row, 5)?,
        locked: at(row, 6)?,
        reposts_off: at(row, 7)?,
        listed: at(row, 8)?,
        standing: Standing::Active,
    })
}
