//! Filters.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, integer, natural, natural_at, one, plain, texts};
use super::rows::readable;
use super::statements::Parameters;
use crate::ledger::filters::distinct;
use crate::ledger::{FilterChange, FilterStore, LedgerError, Result};
use crate::model::{Filter, FilterAction, FilterContext, FilterId, PostId, UserId};

const CREATE: &str = "SELECT feedline_create_filter($1, $2, $3, $4, $5, $6, $7, $8, $9)";

const UPDATE: &str = "\
    UPDATE filters SET words = coalesce($3, words), action = coalesce($4, action), contexts = coalesce($5, contexts),
        whole_word = coalesce($6, whole_word), until = CASE WHEN $7 THEN $8 ELSE until END
    WHERE owner = $1 AND id = $2
    RETURNING id, words, action, contexts, whole_word, until, created_at";

const DELETE: &str = "DELETE FROM filters WHERE owner = $1 AND id = $2 RETURNING 1";

/// Each filter with the place of its owner in the list, from 1: one look-up for each owner.
pub(super) const OF: &str = "\
    SELECT f.id, f.words, f.action, f.contexts, f.whole_word, f.until, f.created_at, wanted.place
    FROM unnest($1::text[]) WITH ORDINALITY AS wanted (owner, place)
    CROSS JOIN LATERAL (SELECT * FROM filters WHERE filters.owner = wanted.owner OFFSET 0) f
    ORDER BY wanted.place, f.id";

/// Whether there are any.
pub(super) const ANY: &str = "SELECT EXISTS (SELECT FROM filters)";

#[async_trait]
impl FilterStore for PostgresLedger {
    async fn create_filter(
        &self,
        owner: &UserId,
        filter: &Filter,
        most: usize,
        reserved: Option<PostId>,
    ) -> Result<Option<Filter>> {
        let reserved = reserved.map(|id| integer(id.0));
        let words = plain_words(&filter.words);
        let parameters: Parameters<'_> = &[
            &owner.as_str(),
            &words,
            &filter.action.as_str(),
            &context_names(&filter.contexts),
            &filter.whole_word,
            &filter.until.map(integer),
            &integer(filter.created_at),
            &count(most),
            &reserved,
        ];
        let id: Option<i64> = at(one(&self.pool.write(CREATE, parameters).await?)?, 0)?;
        if let (Some(id), Some(_)) = (id, reserved) {
            // It may be that of an earlier attempt, and have changed since.
            let id = FilterId(natural(id));
            let theirs = self.filters_of(std::slice::from_ref(owner)).await?;
            return Ok(theirs.into_iter().map(|(_, filter)| filter).find(|filter| filter.id == id));
        }
        Ok(id.map(|id| Filter { id: FilterId(natural(id)), words, ..filter.clone() }))
    }

    async fn update_filter(&self, owner: &UserId, id: FilterId, change: &FilterChange) -> Result<Option<Filter>> {
        let parameters: Parameters<'_> = &[
            &owner.as_str(),
            &integer(id.0),
            &change.words.as_deref().map(plain_words),
            &change.action.map(FilterAction::as_str),
            &change.contexts.as_deref().map(context_names),
            &change.whole_word,
            &change.until.is_some(),
            &change.until.flatten().map(integer),
        ];
        self.pool.write(UPDATE, parameters).await?.first().map(filter).transpose()
    }

    async fn delete_filter(&self, owner: &UserId, id: FilterId) -> Result<bool> {
        Ok(!self.pool.write(DELETE, &[&owner.as_str(), &integer(id.0)]).await?.is_empty())
    }

    async fn filters_of(&self, owners: &[UserId]) -> Result<Vec<(UserId, Filter)>> {
        let owners = distinct(owners);
        let rows = self.pool.read(OF, &[&texts(&owners)]).await?;
        let owner = |row: &Row| -> Result<UserId> {
            let place = usize::try_from(natural_at(row, 7)?).unwrap_or_default();
            let owner = place.checked_sub(1).and_then(|place| owners.get(place));
            owner.cloned().ok_or_else(|| LedgerError::Failed("a filter of another user".to_owned()))
        };
        Ok(readable("filters", &rows, |row| Ok((owner(row)?, filter(row)?))))
    }

    async fn has_filters(&self) -> Result<bool> {
        at(one(&self.pool.read(ANY, &[]).await?)?, 0)
    }
}

fn plain_words(words: &[String]) -> Vec<String> {
    words.iter().map(|word| plain(word)).collect()
}

fn context_names(contexts: &[FilterContext]) -> Vec<&'static str> {
    contexts.iter().map(|context| context.as_str()).collect()
}

/// Reads `id, words, action, contexts, whole_word, until, created_at`.
fn filter(row: &Row) -> Result<Filter> {
    let unknown = || LedgerError::Failed("a filter with an unknown name".to_owned());
    let contexts: Vec<&str> = at(row, 3)?;
    let contexts = contexts.into_iter().map(|name| FilterContext::parse(name).ok_or_else(unknown));
    Ok(Filter {
        id: FilterId(natural_at(row, 0)?),
        words: at(row, 1)?,
        action: FilterAction::parse(at(row, 2)?).ok_or_else(unknown)?,
        contexts: contexts.collect::<Result<_>>()?,
        whole_word: at(row, 4)?,
        until: at::<Option<i64>>(row, 5)?.map(natural),
        created_at: natural_at(row, 6)?,
    })
}
