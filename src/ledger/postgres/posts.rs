//! Posts, and the lists of an author and of a topic.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::events::{NewEvent, with_event};
use super::pool::Parameters;
use super::{
    PostgresLedger, at, count, id_at, integer, jobs, json_at, json_text, natural_at, one, plain, readable, timeline,
    visible_posts,
};
use crate::ledger::{
    EditOutcome, Job, Lease, LedgerError, MAX_HIDDEN, PostOwner, Posts, Result, TimelinePage, VisibilityChange,
    VisiblePosts, Work,
};
use crate::model::{Event, Millis, Post, PostId, UserId, Visibility};

const CREATE: &str = with_event!(
    "outcome, job",
    "feedline_create_post($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    "outcome = 'stored'",
    "$8",
    "$11",
    "$12"
);

/// One look-up an id, each in one partition: an array in the condition would be looked up in all of them.
pub(super) const POSTS: &str = "\
    SELECT wanted.id, post.body FROM unnest($1::bigint[]) AS wanted (id)
    CROSS JOIN LATERAL (SELECT body FROM posts WHERE posts.id = wanted.id AND deleted_at IS NULL OFFSET 0) post";

/// The same, in an index that holds those alone that are not for everyone.
pub(super) const RESTRICTED: &str = "\
    SELECT wanted.id FROM unnest($1::bigint[]) AS wanted (id)
    CROSS JOIN LATERAL (
        SELECT FROM posts WHERE posts.id = wanted.id AND visibility <> '\"public\"' AND deleted_at IS NULL OFFSET 0
    ) post";

pub(super) const OWNERS: &str = "\
    SELECT wanted.id, post.author, post.visibility = '\"public\"' FROM unnest($1::bigint[]) AS wanted (id)
    CROSS JOIN LATERAL (
        SELECT author, visibility FROM posts WHERE posts.id = wanted.id AND deleted_at IS NULL OFFSET 0
    ) post";

const DELETE: &str = "SELECT job, old_topics, old_visibility FROM feedline_delete_post($1, $2, $3, $4, $5)";

const EDIT: &str = with_event!(
    "made, old_topics, old_visibility, conflict",
    "feedline_edit_post_if($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    "made IS NOT NULL AND NOT conflict",
    "$8",
    "$11",
    "$12"
);

pub(super) const BY_AUTHOR: &str = "\
    SELECT post FROM author_posts WHERE author = $1 AND post < $2 ORDER BY post DESC LIMIT $3";

pub(super) const BY_TOPIC: &str = "\
    SELECT post FROM post_topics WHERE topic = $1 AND post < $2 ORDER BY post DESC LIMIT $3";

#[async_trait]
impl Posts for PostgresLedger {
    async fn create_post(&self, post: &Post, lease: &Lease) -> Result<Option<Job>> {
        let work = Work::Post { post: post.id, author: post.author.clone() };
        let (id, author, body, json) = (integer(post.id.0), post.author.as_str(), json_text(post)?, json_text(&work)?);
        let (visibility, public) = (json_text(&post.visibility)?, post.visibility == Visibility::Public);
        let (made, until, holder) = (integer(post.created_at), integer(lease.millis()), &*lease.holder);
        let event = NewEvent::new(Event::post_created(post).as_ref())?;
        let parameters: Parameters<'_> = &[
            &id,
            &author,
            &post.topics,
            &visibility,
            &public,
            &body,
            &json,
            &made,
            &holder,
            &until,
            &event.text,
            &event.pending,
        ];
        let rows = self.pool.write(CREATE, parameters).await?;
        let row = one(&rows)?;
        match at(row, 0)? {
            "stored" => Ok(Some(jobs::made(at(row, 1)?, work, post.created_at))),
            "before" => Ok(None),
            _ => Err(LedgerError::Failed(format!("{:?} does not exist", post.author))),
        }
    }

    async fn posts(&self, ids: &[PostId]) -> Result<Vec<Post>> {
        Ok(readable("posts", &self.pool.read(POSTS, &[&numbers(ids)]).await?, |row| json_at(row, 1)))
    }

    async fn restricted_among(&self, these: &[PostId]) -> Result<Vec<PostId>> {
        ids(&self.pool.read(RESTRICTED, &[&numbers(these)]).await?)
    }

    async fn post_owners(&self, ids: &[PostId]) -> Result<Vec<PostOwner>> {
        let rows = self.pool.read(OWNERS, &[&numbers(ids)]).await?;
        let owner = |row: &Row| {
            Ok(PostOwner { post: PostId(natural_at(row, 0)?), author: id_at(row, 1)?, public: at(row, 2)? })
        };
        Ok(readable("posts", &rows, owner))
    }

    async fn delete_post(&self, id: PostId, author: &UserId, now: Millis, lease: &Lease) -> Result<Option<Job>> {
        let (number, at_time, until) = (integer(id.0), integer(now), integer(lease.millis()));
        let parameters: Parameters<'_> = &[&number, &author.as_str(), &at_time, &&*lease.holder, &until];
        let rows = self.pool.write(DELETE, parameters).await?;
        let row = one(&rows)?;
        let Some(job) = at::<Option<i64>>(row, 0)? else { return Ok(None) };
        // If it cannot be decoded the removal goes to everybody who may have the post.
        let visibility = json_at(row, 2).unwrap_or(Visibility::Public);
        let (author, topics) = (author.clone(), at(row, 1)?);
        let work = Work::Delete { post: id, author, topics, visibility };
        Ok(Some(jobs::made(job, work, now)))
    }

    async fn edit_post(
        &self,
        post: &Post,
        base: Option<Millis>,
        event: Option<&Event>,
        lease: &Lease,
    ) -> Result<EditOutcome> {
        let (id, author, now) = (post.id, post.author.clone(), post.edited_at.unwrap_or(post.created_at));
        let (number, at_time, until) = (integer(id.0), integer(now), integer(lease.millis()));
        let (visibility, body) = (json_text(&post.visibility)?, json_text(post)?);
        let public = post.visibility == Visibility::Public;
        let (base, holder, event) = (base.map(integer), &*lease.holder, NewEvent::new(event)?);
        let parameters: Parameters<'_> = &[
            &number,
            &author.as_str(),
            &base,
            &post.topics,
            &visibility,
            &public,
            &body,
            &at_time,
            &holder,
            &until,
            &event.text,
            &event.pending,
        ];
        let rows = self.pool.write(EDIT, parameters).await?;
        let row = one(&rows)?;
        if at(row, 3)? {
            return Ok(EditOutcome::Conflict);
        }
        let Some(ids) = at::<Option<Vec<i64>>>(row, 0)? else { return Ok(EditOutcome::Missing) };
        let (topics, visibility) = (at(row, 1)?, json_at::<Visibility>(row, 2)?);
        let change = Some(VisibilityChange { before: visibility.clone(), after: post.visibility.clone() });
        // As many of them as were made.
        let work = [
            Work::Edit { post: id, author: author.clone(), topics, visibility },
            Work::Narrow { post: id, author: author.clone(), change: change.clone() },
            Work::Widen { post: id, author, change },
        ];
        let job = |(id, work)| jobs::made(id, work, now);
        Ok(EditOutcome::Edited(ids.into_iter().zip(work).map(job).collect()))
    }

    async fn author_posts(&self, author: &UserId, before: PostId, limit: usize) -> Result<Vec<PostId>> {
        let rows = self.pool.read(BY_AUTHOR, &[&author.as_str(), &integer(before.0), &count(limit)]).await?;
        ids(&rows)
    }

    async fn visible_posts(
        &self,
        author: &UserId,
        viewer: Option<&UserId>,
        before: PostId,
        limit: usize,
    ) -> Result<VisiblePosts> {
        if viewer == Some(author) {
            let posts = self.author_posts(author, before, limit).await?;
            return Ok(VisiblePosts { posts, stopped_at: None });
        }
        let (viewer, before) = (viewer.map(UserId::as_str), integer(before.0));
        let parameters: Parameters<'_> = &[&author.as_str(), &viewer, &before, &count(limit), &count(MAX_HIDDEN)];
        let rows = self.pool.read(visible_posts::VISIBLE, parameters).await?;
        rows.iter().map(|row| Ok((natural_at(row, 0).map(PostId)?, at(row, 1)?))).collect()
    }

    async fn topic_posts(&self, topic: &str, before: PostId, limit: usize) -> Result<Vec<PostId>> {
        ids(&self.pool.read(BY_TOPIC, &[&plain(topic), &integer(before.0), &count(limit)]).await?)
    }

    async fn timeline_posts(&self, reader: &UserId, page: TimelinePage) -> Result<Vec<PostId>> {
        let (before, likely) = (integer(page.before.0), integer(page.likely.0));
        let parameters: Parameters<'_> = &[&reader.as_str(), &before, &count(page.limit), &likely];
        ids(&self.pool.read(timeline::TIMELINE, parameters).await?)
    }
}

/// Each once.
pub(super) fn numbers(ids: &[PostId]) -> Vec<i64> {
    let mut numbers: Vec<i64> = ids.iter().map(|id| integer(id.0)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn ids(rows: &[Row]) -> Result<Vec<PostId>> {
    rows.iter().map(|row| natural_at(row, 0).map(PostId)).collect()
}
