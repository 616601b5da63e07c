//! Reposts and quotes.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::columns::{at, count, counts, id_at, integer, json_text, natural_at, one, user};
use super::events::{NewEvent, with_event};
use super::posts::{folded, ids, numbers};
use super::rows::readable;
use super::statements::Parameters;
use super::{PostgresLedger, jobs};
use crate::ledger::{LedgerError, ListedRepost, NamingOutcome, NewJob, NewestRepost, RepostStore, Result, job_plan};
use crate::model::{DomainEvent, Millis, Post, PostId, TraceContext, UserId, VersionedCounts, Visibility};

const CREATE: &str = with_event!(
    "outcome, job, existing",
    "feedline_create_naming_post($1, $2, $3, $4, $5, $6, $7, $8, $11, $12, $13)",
    "outcome = 'stored'",
    "$8",
    "$9",
    "$10"
);

const REPOST_BY: &str = "SELECT repost FROM reposts WHERE post = $1 AND author = $2";

pub(super) const NEWEST: &str = "\
    SELECT wanted.id, newest.repost, newest.author FROM unnest($1::bigint[]) AS wanted (id)
    CROSS JOIN LATERAL (
        SELECT repost, author FROM reposts WHERE reposts.post = wanted.id ORDER BY repost DESC LIMIT $2
    ) newest";

const SUBMIT: &str = "SELECT feedline_submit_author_job($1, $2, $3)";

pub(super) const OF_POST: &str = "\
    SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, r.repost
    FROM reposts r CROSS JOIN LATERAL (
        SELECT * FROM users WHERE users.id = r.author AND erased_at IS NULL OFFSET 0
    ) u
    WHERE r.post = $1 AND r.repost < $2 ORDER BY r.repost DESC LIMIT $3";

pub(super) const AMONG: &str = "\
    SELECT pair.place, there.repost FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS pair (post, author, place)
    CROSS JOIN LATERAL (
        SELECT repost FROM reposts WHERE reposts.post = pair.post AND reposts.author = pair.author OFFSET 0
    ) there";

pub(super) const QUOTES: &str = "\
    SELECT quote FROM quotes WHERE post = $1 AND quote < $2 AND NOT detached ORDER BY quote DESC LIMIT $3";

pub(super) const DETACHED: &str = "\
    SELECT wanted.id FROM unnest($1::bigint[]) AS wanted (id)
    CROSS JOIN LATERAL (SELECT FROM quotes WHERE quotes.quote = wanted.id AND detached OFFSET 0) there";

const QUOTED_BY: &str = "SELECT post, post_author FROM quotes WHERE quote = $1";

const DETACH: &str = "SELECT feedline_detach_quotes($1, $2, $3, $4)";

const COUNTS: &str = "\
    SELECT likes, comments, favourites, reposts, quotes, likes_version FROM post_counts WHERE post = $1";

#[async_trait]
impl RepostStore for PostgresLedger {
    async fn create_naming_post(&self, post: &Post, trace: Option<TraceContext>) -> Result<NamingOutcome> {
        let Some(named) = post.named() else { return Ok(NamingOutcome::NoPost) };
        let work = job_plan::post_created(post, trace);
        let event = NewEvent::new(DomainEvent::post_created(post, self.outlet).as_ref(), self.outlet)?;
        let parameters: Parameters<'_> = &[
            &integer(post.id.0),
            &post.author.as_str(),
            &post.topics,
            &json_text(&post.visibility)?,
            &(post.visibility == Visibility::Public),
            &json_text(post)?,
            &jobs::new_job(&work)?,
            &integer(post.created_at),
            &event.text,
            &event.pending,
            &folded(post),
            &integer(named.0),
            &post.repost.is_some(),
        ];
        let rows = self.pool.write(CREATE, parameters).await?;
        let row = one(&rows)?;
        match at(row, 0)? {
            "stored" => jobs::submitted(&at::<Vec<i64>>(row, 1)?, work, post.created_at).map(NamingOutcome::Stored),
            "before" => Ok(NamingOutcome::Before),
            "reposted" => Ok(NamingOutcome::Reposted(PostId(natural_at(row, 2)?))),
            "no post" => Ok(NamingOutcome::NoPost),
            _ => Err(LedgerError::Failed(format!("{:?} does not exist", post.author))),
        }
    }

    async fn repost_by(&self, user: &UserId, post: PostId) -> Result<Option<PostId>> {
        Ok(ids(&self.pool.read(REPOST_BY, &[&integer(post.0), &user.as_str()]).await?)?.pop())
    }

    async fn newest_reposts(&self, posts: &[PostId], each: usize) -> Result<Vec<NewestRepost>> {
        let rows = self.pool.read(NEWEST, &[&numbers(posts), &count(each)]).await?;
        let repost = |row: &Row| {
            let [post, repost] = [natural_at(row, 0)?, natural_at(row, 1)?].map(PostId);
            Ok(NewestRepost { post, repost, author: id_at(row, 2)? })
        };
        Ok(readable("reposts", &rows, repost))
    }

    async fn reposts_of(&self, post: PostId, before: PostId, limit: usize) -> Result<Vec<ListedRepost>> {
        let repost = |row: &Row| Ok(ListedRepost { user: user(row)?, repost: PostId(natural_at(row, 4)?) });
        self.readable_page("reposts", OF_POST, &[&integer(post.0), &integer(before.0)], limit, repost).await
    }

    async fn reposted_among(&self, pairs: &[(PostId, UserId)]) -> Result<Vec<((PostId, UserId), PostId)>> {
        let (posts, users): (Vec<i64>, Vec<&str>) =
            pairs.iter().map(|(post, user)| (integer(post.0), user.as_str())).unzip();
        let rows = self.pool.read(AMONG, &[&posts, &users]).await?;
        let found = |row: &Row| {
            let place = usize::try_from(at::<i64>(row, 0)? - 1).unwrap_or(usize::MAX);
            Ok(pairs.get(place).cloned().zip(Some(PostId(natural_at(row, 1)?))))
        };
        rows.iter().filter_map(|row| found(row).transpose()).collect()
    }

    async fn quotes_of(&self, post: PostId, before: PostId, limit: usize) -> Result<Vec<PostId>> {
        ids(&self.pool.read(QUOTES, &[&integer(post.0), &integer(before.0), &count(limit)]).await?)
    }

    async fn detached_among(&self, quotes: &[PostId]) -> Result<Vec<PostId>> {
        ids(&self.pool.read(DETACHED, &[&numbers(quotes)]).await?)
    }

    async fn quoted_by(&self, quote: PostId) -> Result<Option<(PostId, UserId)>> {
        let rows = self.pool.read(QUOTED_BY, &[&integer(quote.0)]).await?;
        let quoted = |row: &Row| Ok((PostId(natural_at(row, 0)?), id_at(row, 1)?));
        Ok(readable("quotes", &rows, quoted).pop())
    }

    async fn detach_quote(&self, author: &UserId, quote: PostId) -> Result<bool> {
        let quote = Some(integer(quote.0));
        let none: Option<&str> = None;
        let rows = self.pool.write(DETACH, &[&author.as_str(), &quote, &none, &1_i64]).await?;
        Ok(!at::<Vec<i64>>(one(&rows)?, 0)?.is_empty())
    }

    async fn detach_quotes_by(&self, author: &UserId, by: &UserId, limit: usize) -> Result<Vec<PostId>> {
        let none: Option<i64> = None;
        let rows = self.pool.write(DETACH, &[&author.as_str(), &none, &Some(by.as_str()), &count(limit)]).await?;
        let quotes: Vec<i64> = at(one(&rows)?, 0)?;
        Ok(quotes.into_iter().map(|quote| PostId(super::columns::natural(quote))).collect())
    }

    async fn hide_reposts(&self, reposts: &[NewestRepost], now: Millis) -> Result<Vec<NewJob>> {
        let mut made = Vec::new();
        for repost in reposts {
            // A call for each: the row of its author is locked, and several authors in one transaction could deadlock.
            let work = job_plan::repost_hidden(repost);
            let parameters: Parameters<'_> = &[&work.author().as_str(), &jobs::new_job(&work)?, &integer(now)];
            let rows = self.pool.write(SUBMIT, parameters).await?;
            made.push(jobs::submitted(&at::<Vec<i64>>(one(&rows)?, 0)?, work, now)?);
        }
        Ok(made)
    }

    async fn versioned_counts(&self, post: PostId) -> Result<VersionedCounts> {
        let rows = self.pool.read(COUNTS, &[&integer(post.0)]).await?;
        let Some(row) = rows.first() else { return Ok(VersionedCounts::default()) };
        Ok(VersionedCounts { counts: counts(row, 0)?, version: natural_at(row, 5)? })
    }
}
