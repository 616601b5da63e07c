//! Topics, ordered by their latest activity.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, integer, natural_at, plain};
use crate::ledger::{MAX_MOVED_TOPICS, Result, Topic, TopicCursor, TopicStore, past};
use crate::model::PostId;

/// The index has the time of `last` in larger units: its order comes first, and is that of `last`.
pub(super) const RECENT: &str = "\
    SELECT name, posts, last FROM topics WHERE period <= $1::bigint >> 24 AND (last, name) < ($1, $2)
    ORDER BY period DESC, last DESC, name DESC LIMIT $3";

/// A scan of the folded names in order.
pub(super) const SEARCH: &str = "\
    SELECT name, posts, last, folded FROM topics WHERE (folded, name) > ($1, $2) AND folded < $3
    ORDER BY folded, name LIMIT $4";

/// Topics below a cursor, in one snapshot: topics without activity since the list was begun (`$1`), and topics with
/// activity since then, at their earlier positions.
pub(super) const GO_ON: &str = "\
    WITH resting AS (
        SELECT name, posts, last FROM topics WHERE period <= $2::bigint >> 24 AND (last, name) < ($2, $3)
        ORDER BY period DESC, last DESC, name DESC LIMIT $4
    ), stirred AS (
        SELECT topics.name, topics.posts, stood.post AS last FROM topics CROSS JOIN LATERAL (
            SELECT post FROM post_topics WHERE topic = topics.name AND public AND post <= $1 ORDER BY post DESC LIMIT 1
        ) stood
        WHERE topics.period >= $1::bigint >> 24 AND topics.last > $1 AND (stood.post, topics.name) < ($2, $3)
        ORDER BY topics.period DESC, topics.last DESC LIMIT $5
    )
    SELECT name, posts, last FROM (SELECT * FROM resting UNION ALL SELECT * FROM stirred) t
    ORDER BY last DESC, name DESC LIMIT $4";

#[async_trait]
impl TopicStore for PostgresLedger {
    async fn topics(&self, cursor: Option<TopicCursor>, limit: usize) -> Result<Vec<Topic>> {
        let rows = match cursor {
            None => self.pool.read(RECENT, &[&integer(PostId::MAX.0), &"", &count(limit)]).await?,
            Some(TopicCursor { begun, last, name }) => {
                let begun = integer(begun.0);
                let last = integer(last.0);
                let name = plain(&name);
                self.pool.read(GO_ON, &[&begun, &last, &name, &count(limit), &count(MAX_MOVED_TOPICS)]).await?
            }
        };
        rows.iter().map(topic).collect()
    }

    async fn search_topics(
        &self,
        prefix: &str,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Result<Vec<(String, Topic)>> {
        let Some(end) = past(prefix) else { return Ok(Vec::new()) };
        let (folded, name) = after.unwrap_or((prefix, ""));
        let rows = self.pool.read(SEARCH, &[&plain(folded), &plain(name), &plain(&end), &count(limit)]).await?;
        rows.iter().map(|row| Ok((at(row, 3)?, topic(row)?))).collect()
    }
}

fn topic(row: &Row) -> Result<Topic> {
    Ok(Topic { name: at(row, 0)?, posts: natural_at(row, 1)?, last: PostId(natural_at(row, 2)?) })
}
