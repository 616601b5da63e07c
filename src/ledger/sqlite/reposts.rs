//! Reposts and quotes.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::people::user;
use super::repost_counts::count_naming;
use super::rows::{post_id_at, user_id_at};
use super::{
    SqliteLedger, UNLIMITED, count, counts, integer, jobs, json_text, natural, posts, readable, readable_page,
};
use crate::ledger::{ListedRepost, NamingOutcome, NewJob, NewestRepost, RepostStore, Result, job_plan};
use crate::model::{Millis, Post, PostId, TraceContext, UserId, VersionedCounts};

#[async_trait]
impl RepostStore for SqliteLedger {
    async fn create_naming_post(&self, post: &Post, trace: Option<TraceContext>) -> Result<NamingOutcome> {
        let post = post.clone();
        let outlet = self.outlet;
        self.write(move |db| create(db, &post, trace, outlet)).await
    }

    async fn repost_by(&self, user: &UserId, post: PostId) -> Result<Option<PostId>> {
        let user = user.clone();
        self.read(move |db| repost_by(db, &user, post)).await
    }

    async fn newest_reposts(&self, posts: &[PostId], each: usize) -> Result<Vec<NewestRepost>> {
        let posts = posts.to_vec();
        self.read(move |db| {
            let mut newest = Vec::new();
            for post in posts {
                let mut statement = db.prepare_cached(NEWEST)?;
                let repost =
                    |row: &Row<'_>| Ok(NewestRepost { post, repost: post_id_at(row, 0)?, author: user_id_at(row, 1)? });
                let reposts = statement.query(params![integer(post.0), count(each)])?;
                newest.extend(readable("reposts", reposts, repost)?);
            }
            Ok(newest)
        })
        .await
    }

    async fn reposts_of(&self, post: PostId, before: PostId, limit: usize) -> Result<Vec<ListedRepost>> {
        self.read(move |db| {
            let wanted = params![integer(post.0), integer(before.0), UNLIMITED];
            let repost = |row: &Row<'_>| Ok(ListedRepost { user: user(row)?, repost: post_id_at(row, 4)? });
            readable_page("reposts", db.prepare_cached(OF_POST)?.query(wanted)?, limit, repost)
        })
        .await
    }

    async fn reposted_among(&self, pairs: &[(PostId, UserId)]) -> Result<Vec<((PostId, UserId), PostId)>> {
        let pairs = pairs.to_vec();
        self.read(move |db| {
            let mut found = Vec::new();
            for (post, user) in pairs {
                if let Some(repost) = repost_by(db, &user, post)? {
                    found.push(((post, user), repost));
                }
            }
            Ok(found)
        })
        .await
    }

    async fn quotes_of(&self, post: PostId, before: PostId, limit: usize) -> Result<Vec<PostId>> {
        self.read(move |db| {
            let wanted = params![integer(post.0), integer(before.0), count(limit)];
            db.prepare_cached(QUOTES)?.query_map(wanted, |row| post_id_at(row, 0))?.collect()
        })
        .await
    }

    async fn detached_among(&self, quotes: &[PostId]) -> Result<Vec<PostId>> {
        let quotes = quotes.to_vec();
        self.read(move |db| {
            let sql = "SELECT quote FROM quotes WHERE detached AND quote IN (SELECT value FROM json_each(?1))";
            db.prepare_cached(sql)?.query_map([json_text(&quotes)?], |row| post_id_at(row, 0))?.collect()
        })
        .await
    }

    async fn quoted_by(&self, quote: PostId) -> Result<Option<(PostId, UserId)>> {
        self.read(move |db| {
            let sql = "SELECT post, post_author FROM quotes WHERE quote = ?1";
            let quoted = |row: &Row<'_>| Ok((post_id_at(row, 0)?, user_id_at(row, 1)?));
            Ok(readable("quotes", db.prepare_cached(sql)?.query([integer(quote.0)])?, quoted)?.pop())
        })
        .await
    }

    async fn detach_quote(&self, author: &UserId, quote: PostId) -> Result<bool> {
        let author = author.clone();
        self.write(move |db| detach(db, &author, quote)).await
    }

    async fn detach_quotes_by(&self, author: &UserId, by: &UserId, limit: usize) -> Result<Vec<PostId>> {
        let author = author.clone();
        let by = by.clone();
        self.write(move |db| {
            let wanted = params![author.as_str(), by.as_str(), count(limit)];
            let mut statement = db.prepare_cached(BETWEEN)?;
            let quotes = statement.query_map(wanted, |row| post_id_at(row, 0))?;
            let quotes = quotes.collect::<rusqlite::Result<Vec<_>>>()?;
            for quote in &quotes {
                detach(db, &author, *quote)?;
            }
            Ok(quotes)
        })
        .await
    }

    async fn hide_reposts(&self, reposts: &[NewestRepost], now: Millis) -> Result<Vec<NewJob>> {
        let reposts = reposts.to_vec();
        self.write(move |db| {
            reposts.iter().map(|repost| jobs::create(db, job_plan::repost_hidden(repost), now)).collect()
        })
        .await
    }

    async fn versioned_counts(&self, post: PostId) -> Result<VersionedCounts> {
        self.read(move |db| {
            let version = "SELECT likes_version FROM post_counts WHERE post = ?1";
            let version: Option<i64> =
                db.prepare_cached(version)?.query_row([integer(post.0)], |row| row.get(0)).optional()?;
            let counts = counts::counts(db, &[post])?.pop().map(|(_, counts)| counts).unwrap_or_default();
            Ok(VersionedCounts { counts, version: version.map(natural).unwrap_or_default() })
        })
        .await
    }
}

pub(super) const NEWEST: &str =
    "SELECT repost, author FROM reposts INDEXED BY reposts_newest WHERE post = ?1 ORDER BY repost DESC LIMIT ?2";

pub(super) const OF_POST: &str = "SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, r.repost \
    FROM reposts r INDEXED BY reposts_newest CROSS JOIN users u ON u.id = r.author \
    WHERE r.post = ?1 AND r.repost < ?2 AND u.erased_at IS NULL ORDER BY r.repost DESC LIMIT ?3";

pub(super) const QUOTES: &str = "SELECT quote FROM quotes INDEXED BY quotes_newest \
    WHERE post = ?1 AND quote < ?2 AND NOT detached ORDER BY quote DESC LIMIT ?3";

pub(super) const BETWEEN: &str = "SELECT quote FROM quotes INDEXED BY quotes_between \
    WHERE post_author = ?1 AND author = ?2 AND NOT detached LIMIT ?3";

fn repost_by(db: &Connection, user: &UserId, post: PostId) -> rusqlite::Result<Option<PostId>> {
    let sql = "SELECT repost FROM reposts WHERE post = ?1 AND author = ?2";
    let wanted = params![integer(post.0), user.as_str()];
    db.prepare_cached(sql)?.query_row(wanted, |row| post_id_at(row, 0)).optional()
}

fn create(db: &Connection, post: &Post, trace: Option<TraceContext>, outlet: bool) -> rusqlite::Result<NamingOutcome> {
    let Some(named) = post.named() else { return Ok(NamingOutcome::NoPost) };
    let before = "SELECT 1 FROM posts WHERE id = ?1 AND author = ?2";
    if db.prepare_cached(before)?.exists(params![integer(post.id.0), post.author.as_str()])? {
        return Ok(NamingOutcome::Before);
    }
    let sql = "SELECT author FROM posts WHERE id = ?1 AND deleted_at IS NULL";
    let named_author = db.prepare_cached(sql)?.query_row([integer(named.0)], |row| user_id_at(row, 0)).optional()?;
    let Some(named_author) = named_author else { return Ok(NamingOutcome::NoPost) };
    if post.repost.is_some()
        && let Some(existing) = repost_by(db, &post.author, named)?.filter(|existing| *existing != post.id)
    {
        return Ok(NamingOutcome::Reposted(existing));
    }
    let Some(job) = posts::create(db, post, trace, outlet)? else { return Ok(NamingOutcome::Before) };
    let [id, of] = [post.id, named].map(|id| integer(id.0));
    if post.repost.is_some() {
        let sql = "INSERT INTO reposts (post, author, repost) VALUES (?1, ?2, ?3)";
        db.prepare_cached(sql)?.execute(params![of, post.author.as_str(), id])?;
        count_naming(db, of, 1, 0)?;
    } else {
        let sql = "INSERT INTO quotes (quote, author, post, post_author) VALUES (?1, ?2, ?3, ?4)";
        db.prepare_cached(sql)?.execute(params![id, post.author.as_str(), of, named_author.as_str()])?;
        count_naming(db, of, 0, 1)?;
    }
    Ok(NamingOutcome::Stored(job))
}

/// Returns whether the quote was not detached before.
fn detach(db: &Connection, author: &UserId, quote: PostId) -> rusqlite::Result<bool> {
    let sql = "UPDATE quotes SET detached = 1 WHERE quote = ?1 AND post_author = ?2 AND NOT detached RETURNING post";
    let wanted = params![integer(quote.0), author.as_str()];
    let post: Option<i64> = db.prepare_cached(sql)?.query_row(wanted, |row| row.get(0)).optional()?;
    match post {
        Some(post) => count_naming(db, post, 0, -1).map(|()| true),
        None => Ok(false),
    }
}
