//! Filters.

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::devices::json_at;
use super::rows::ids_json;
use super::{SqliteLedger, count, integer, json_text, natural, readable};
use crate::ledger::filters::distinct;
use crate::ledger::{FilterChange, FilterStore, Result};
use crate::model::{Filter, FilterAction, FilterId, PostId, UserId};

#[async_trait]
impl FilterStore for SqliteLedger {
    async fn create_filter(
        &self,
        owner: &UserId,
        filter: &Filter,
        most: usize,
        reserved: Option<PostId>,
    ) -> Result<Option<Filter>> {
        let owner = owner.clone();
        let filter = filter.clone();
        self.write(move |db| create(db, &owner, &filter, most, reserved)).await
    }

    async fn update_filter(&self, owner: &UserId, id: FilterId, change: &FilterChange) -> Result<Option<Filter>> {
        let owner = owner.clone();
        let change = change.clone();
        self.write(move |db| update(db, &owner, id, &change)).await
    }

    async fn delete_filter(&self, owner: &UserId, id: FilterId) -> Result<bool> {
        let owner = owner.clone();
        self.write(move |db| {
            let sql = "DELETE FROM filters WHERE owner = ?1 AND id = ?2";
            Ok(db.prepare_cached(sql)?.execute(params![owner.as_str(), integer(id.0)])? == 1)
        })
        .await
    }

    async fn filters_of(&self, owners: &[UserId]) -> Result<Vec<(UserId, Filter)>> {
        let owners = distinct(owners);
        self.read(move |db| {
            let owner = |row: &Row<'_>| {
                let place = row.get(7)?;
                let owner = usize::try_from(place).ok().and_then(|place| owners.get(place));
                owner.cloned().ok_or(rusqlite::Error::IntegralValueOutOfRange(7, place))
            };
            let found = |row: &Row<'_>| Ok((owner(row)?, filter(row)?));
            readable("filters", db.prepare_cached(OF)?.query([ids_json(&owners)?])?, found)
        })
        .await
    }

    async fn has_filters(&self) -> Result<bool> {
        self.read(|db| db.prepare_cached("SELECT EXISTS (SELECT 1 FROM filters)")?.query_row([], |row| row.get(0)))
            .await
    }
}

/// Each filter with the place of its owner in the list: one look-up for each owner.
const OF: &str = "SELECT f.id, f.words, f.action, f.contexts, f.whole_word, f.until, f.created_at, wanted.key \
    FROM json_each(?1) wanted CROSS JOIN filters f INDEXED BY filters_owner ON f.owner = wanted.value \
    ORDER BY wanted.key, f.id";

fn create(
    db: &Connection,
    owner: &UserId,
    new: &Filter,
    most: usize,
    reserved: Option<PostId>,
) -> rusqlite::Result<Option<Filter>> {
    let reserved = reserved.map(|id| integer(id.0));
    let known = "SELECT id, words, action, contexts, whole_word, until, created_at FROM filters WHERE reserved = ?1";
    if let Some(known) = db.prepare_cached(known)?.query_row([reserved], filter).optional()? {
        return Ok(Some(known));
    }
    let sql = "INSERT INTO filters (owner, words, action, contexts, whole_word, until, created_at, reserved) \
               SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?9 WHERE (SELECT count(*) FROM filters WHERE owner = ?1) < ?8 \
               RETURNING id, words, action, contexts, whole_word, until, created_at";
    let row = params![
        owner.as_str(),
        json_text(&new.words)?,
        new.action.as_str(),
        json_text(&new.contexts)?,
        new.whole_word,
        new.until.map(integer),
        integer(new.created_at),
        count(most),
        reserved
    ];
    db.prepare_cached(sql)?.query_row(row, filter).optional()
}

fn update(db: &Connection, owner: &UserId, id: FilterId, change: &FilterChange) -> rusqlite::Result<Option<Filter>> {
    let sql = "UPDATE filters SET words = coalesce(?3, words), action = coalesce(?4, action), \
                   contexts = coalesce(?5, contexts), whole_word = coalesce(?6, whole_word), \
                   until = CASE WHEN ?7 THEN ?8 ELSE until END \
               WHERE owner = ?1 AND id = ?2 \
               RETURNING id, words, action, contexts, whole_word, until, created_at";
    let row = params![
        owner.as_str(),
        integer(id.0),
        change.words.as_ref().map(json_text).transpose()?,
        change.action.map(FilterAction::as_str),
        change.contexts.as_ref().map(json_text).transpose()?,
        change.whole_word,
        change.until.is_some(),
        change.until.flatten().map(integer)
    ];
    db.prepare_cached(sql)?.query_row(row, filter).optional()
}

/// Reads `id, words, action, contexts, whole_word, until, created_at`.
fn filter(row: &Row<'_>) -> rusqlite::Result<Filter> {
    let unknown = || rusqlite::Error::FromSqlConversionFailure(2, Type::Text, "an unknown action".into());
    Ok(Filter {
        id: FilterId(natural(row.get(0)?)),
        words: json_at(row, 1)?,
        action: FilterAction::parse(row.get_ref(2)?.as_str()?).ok_or_else(unknown)?,
        contexts: json_at(row, 3)?,
        whole_word: row.get(4)?,
        until: row.get::<_, Option<i64>>(5)?.map(natural),
        created_at: natural(row.get(6)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Ledger as _, SqliteOptions};

    #[tokio::test]
    async fn the_filters_of_users_are_look_ups_in_an_index() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = SqliteLedger::open(SqliteOptions::new(folder.path().join("l.db"))).await.expect("it opens");
        let plan = ledger.read(|db| -> rusqlite::Result<Vec<String>> {
            db.prepare(&format!("EXPLAIN QUERY PLAN {OF}"))?.query_map(["[]"], |row| row.get(3))?.collect()
        });
        let steps = plan.await.expect("a plan");
        assert!(steps.iter().any(|step| step.starts_with("SEARCH f") && step.contains("filters_owner (owner=?)")));
        ledger.close().await;
    }
}
