//! Posts, and the lists of an author and of a topic.

use std::collections::HashSet;

use async_trait::async_trait;
use tokio_postgres::Row;

use super::columns::{at, count, id_at, integer, json_at, json_text, natural_at, one, plain};
use super::events::{NewEvent, with_event};
use super::rows::readable;
use super::statements::Parameters;
use super::timeline_reach::ReadTimeline;
use super::topic_follows::names;
use super::{PostgresLedger, jobs, timeline, visible_posts};
use crate::ledger::quarantine::unix_millis;
use crate::ledger::{
    EditOutcome, LedgerError, MAX_HIDDEN, NewJob, PostOwner, PostStore, Result, TimelineRange, VisiblePosts, fold,
    job_plan,
};
use crate::model::{DomainEvent, Millis, Post, PostId, TraceContext, UserId, Visibility};

const CREATE: &str = with_event!(
    "outcome, job",
    "feedline_create_post($1, $2, $3, $4, $5, $6, $7, $8, $11)",
    "outcome = 'stored'",
    "$8",
    "$9",
    "$10"
);

/// One look-up for each id, each in one partition. With an array in the condition, PostgreSQL would search all
/// partitions for each id.
pub(super) const POSTS: &str = "\
    SELECT wanted.id, post.body FROM unnest($1::bigint[]) AS wanted (id)
    CROSS JOIN LATERAL (SELECT body FROM posts WHERE posts.id = wanted.id AND deleted_at IS NULL OFFSET 0) post";

/// The restricted posts of the followees of `$1` from `$2` on. Most authors have none, which `audience_counts` says:
/// there are fewer followees to look up than posts in a timeline.
pub(super) const RESTRICTED_IN_TIMELINE: &str = "\
    WITH authors AS MATERIALIZED (
        SELECT followee AS author FROM follows WHERE follower = $1
            AND EXISTS (SELECT FROM audience_counts WHERE author = followee)
    )
    SELECT restricted.post FROM authors CROSS JOIN LATERAL (
        SELECT post FROM audience_posts
        WHERE audience_posts.author = authors.author AND kind IN ('followers', 'friends', 'only_to', 'not_to')
          AND viewer = '' AND post >= $2
        OFFSET 0
    ) restricted";

pub(super) const OWNERS: &str = "\
    SELECT wanted.id, post.author, post.visibility = '\"public\"' FROM unnest($1::bigint[]) AS wanted (id)
    CROSS JOIN LATERAL (
        SELECT author, visibility FROM posts WHERE posts.id = wanted.id AND deleted_at IS NULL OFFSET 0
    ) post";

/// The properties of a post that its deletion job contains, and the post.
const DELETABLE: &str = "\
    SELECT topics, visibility, body FROM posts WHERE id = $1 AND author = $2 AND deleted_at IS NULL";

/// How often a deletion reads the post again after a concurrent edit.
const MAX_DELETE_ATTEMPTS: usize = 16;

const DELETE: &str = with_event!(
    "outcome, job",
    "feedline_delete_post($1, $2, $3, $4, $5, $6)",
    "outcome = 'deleted'",
    "$6",
    "$7",
    "$8"
);

const EDIT: &str = with_event!(
    "outcome, submitted",
    "feedline_edit_post($1, $2, $3, $4, $5, $6, $7, $8, $9, $12)",
    "outcome = 'edited'",
    "$9",
    "$10",
    "$11"
);

pub(super) const BY_AUTHOR: &str = "\
    SELECT post FROM author_posts WHERE author = $1 AND post < $2 ORDER BY post DESC LIMIT $3";

/// Merges the partial indexes of the partitions, which have neither deleted nor restricted posts. `id + 0` is what the
/// index contains.
pub(super) const PUBLIC: &str = "\
    SELECT id FROM posts WHERE visibility = '\"public\"' AND deleted_at IS NULL AND id + 0 < $1
    ORDER BY id + 0 DESC LIMIT $2";

pub(super) const BY_TOPIC: &str = "\
    SELECT post FROM post_topics WHERE topic = $1 AND post < $2 ORDER BY post DESC LIMIT $3";

/// The newest public posts of some topics.
pub(super) const NEWEST_WITH_TOPICS: &str = "\
    SELECT DISTINCT newest.post FROM unnest($1::text[]) AS wanted (topic) CROSS JOIN LATERAL (
        SELECT post FROM post_topics WHERE post_topics.topic = wanted.topic AND public ORDER BY post DESC LIMIT $2
    ) newest
    ORDER BY newest.post DESC LIMIT $2";

const GREATEST_ID: &str = "\
    SELECT greatest((SELECT max(id) FROM posts), (SELECT max(comment) FROM comment_posts), 0)";

/// The topics of a post as they are searched.
pub(super) fn folded(post: &Post) -> Vec<String> {
    post.topics.iter().map(|topic| fold(topic)).collect()
}

#[async_trait]
impl PostStore for PostgresLedger {
    async fn create_post(&self, post: &Post, trace: Option<TraceContext>) -> Result<Option<NewJob>> {
        let work = job_plan::post_created(post, trace);
        let (id, author, body, job) =
            (integer(post.id.0), post.author.as_str(), json_text(post)?, jobs::new_job(&work)?);
        let visibility = json_text(&post.visibility)?;
        let public = post.visibility == Visibility::Public;
        let made = integer(post.created_at);
        let event = NewEvent::new(DomainEvent::post_created(post, self.outlet).as_ref(), self.outlet)?;
        let folded = folded(post);
        let event_text = &event.text;
        let parameters: Parameters<'_> = &[
            &id,
            &author,
            &post.topics,
            &visibility,
            &public,
            &body,
            &job,
            &made,
            event_text,
            &event.pending,
            &folded,
        ];
        let rows = self.pool.write(CREATE, parameters).await?;
        let row = one(&rows)?;
        match at(row, 0)? {
            "stored" => jobs::submitted(&at::<Vec<i64>>(row, 1)?, work, post.created_at).map(Some),
            "before" => Ok(None),
            _ => Err(LedgerError::Failed(format!("{:?} does not exist", post.author))),
        }
    }

    async fn greatest_id(&self) -> Result<PostId> {
        Ok(PostId(natural_at(one(&self.pool.read(GREATEST_ID, &[]).await?)?, 0)?))
    }

    async fn posts(&self, ids: &[PostId]) -> Result<Vec<Post>> {
        Ok(readable("posts", &self.pool.read(POSTS, &[&numbers(ids)]).await?, |row| json_at(row, 1)))
    }

    async fn restricted_in_timeline(&self, reader: &UserId, these: &[PostId]) -> Result<Vec<PostId>> {
        let Some(oldest) = these.iter().min() else { return Ok(Vec::new()) };
        let parameters: Parameters<'_> = &[&reader.as_str(), &integer(oldest.0)];
        let mut restricted = ids(&self.pool.read(RESTRICTED_IN_TIMELINE, parameters).await?)?;
        if !restricted.is_empty() {
            // Posts of followees that the reader mutes, or that hide from the reader, are not in the timeline.
            let these: HashSet<PostId> = these.iter().copied().collect();
            restricted.retain(|id| these.contains(id));
        }
        Ok(restricted)
    }

    async fn post_owners(&self, ids: &[PostId]) -> Result<Vec<PostOwner>> {
        let rows = self.pool.read(OWNERS, &[&numbers(ids)]).await?;
        let owner = |row: &Row| {
            Ok(PostOwner { post: PostId(natural_at(row, 0)?), author: id_at(row, 1)?, public: at(row, 2)? })
        };
        Ok(readable("posts", &rows, owner))
    }

    /// The job contains the topics and the visibility. The call reads them first, and again after a concurrent edit.
    async fn delete_post(&self, id: PostId, author: &UserId, now: Millis) -> Result<Option<NewJob>> {
        let number = integer(id.0);
        let whose = author.as_str();
        for _ in 0..MAX_DELETE_ATTEMPTS {
            let rows = self.pool.read(DELETABLE, &[&number, &whose]).await?;
            let Some(row) = rows.first() else { return Ok(None) };
            let topics: Vec<String> = at(row, 0)?;
            let visibility: &str = at(row, 1)?;
            let content = serde_json::from_str(visibility).ok().map(|visibility| (topics.clone(), visibility));
            let work = job_plan::post_deleted(id, author, content);
            let job = jobs::new_job(&work)?;
            let at_time = integer(now);
            let post = json_at::<Post>(row, 2).ok();
            let event = DomainEvent::post_deleted(id, author, post.as_ref());
            let event = NewEvent::new(Some(&event), self.outlet)?;
            let parameters: Parameters<'_> =
                &[&number, &whose, &topics, &visibility, &job, &at_time, &event.text, &event.pending];
            let rows = self.pool.write(DELETE, parameters).await?;
            let row = one(&rows)?;
            match at(row, 0)? {
                "deleted" => return jobs::submitted(&at::<Vec<i64>>(row, 1)?, work, now).map(Some),
                "conflict" => {}
                _ => return Ok(None),
            }
        }
        Err(LedgerError::Busy)
    }

    async fn edit_post(
        &self,
        before: &Post,
        after: &Post,
        event: Option<&DomainEvent>,
        now: Millis,
    ) -> Result<EditOutcome> {
        let work = job_plan::post_edited(before, after);
        let jobs = work.iter().map(jobs::new_job).collect::<Result<Vec<_>>>()?;
        let event = DomainEvent::edit_for(event, before, after, self.outlet);
        let event = NewEvent::new(event.as_ref(), self.outlet)?;
        let parameters: Parameters<'_> = &[
            &integer(after.id.0),
            &after.author.as_str(),
            &before.edited_at.map(integer),
            &after.topics,
            &json_text(&after.visibility)?,
            &(after.visibility == Visibility::Public),
            &json_text(after)?,
            &jobs,
            &integer(now),
            &event.text,
            &event.pending,
            &folded(after),
        ];
        let rows = self.pool.write(EDIT, parameters).await?;
        let row = one(&rows)?;
        match at(row, 0)? {
            "edited" => {
                let numbers: Vec<i64> = at(row, 1)?;
                let jobs = numbers.chunks(2).zip(work).map(|(numbers, work)| jobs::submitted(numbers, work, now));
                jobs.collect::<Result<_>>().map(EditOutcome::Edited)
            }
            "conflict" => Ok(EditOutcome::Conflict),
            _ => Ok(EditOutcome::Missing),
        }
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
        let viewer = viewer.map(UserId::as_str);
        let before = integer(before.0);
        let parameters: Parameters<'_> = &[&author.as_str(), &viewer, &before, &count(limit), &count(MAX_HIDDEN)];
        let rows = self.pool.read(visible_posts::VISIBLE, parameters).await?;
        rows.iter().map(|row| Ok((natural_at(row, 0).map(PostId)?, at(row, 1)?))).collect()
    }

    async fn public_posts(&self, before: PostId, limit: usize) -> Result<Vec<PostId>> {
        ids(&self.pool.read(PUBLIC, &[&integer(before.0), &count(limit)]).await?)
    }

    async fn topic_posts(&self, topic: &str, before: PostId, limit: usize) -> Result<Vec<PostId>> {
        ids(&self.pool.read(BY_TOPIC, &[&plain(topic), &integer(before.0), &count(limit)]).await?)
    }

    async fn timeline_posts(&self, reader: &UserId, page: TimelineRange) -> Result<Vec<PostId>> {
        let before = integer(page.before.0);
        let limit = count(page.limit);
        let likely = integer(page.likely.0);
        if page.before != PostId::MAX || page.likely != PostId::ZERO {
            let parameters: Parameters<'_> = &[&reader.as_str(), &before, &limit, &likely, &0_i64];
            return ids(&self.pool.read(timeline::TIMELINE, parameters).await?);
        }
        let now = PostId::from_parts(unix_millis(), 0, 0);
        let reach = self.reach.estimate(page.limit);
        let from = if reach > 0 { integer(now.0) } else { 0 };
        let rows = self.pool.read(timeline::TIMELINE, &[&reader.as_str(), &before, &limit, &from, &reach]).await?;
        let posts = ids(&rows)?;
        if let Some(last) = rows.last() {
            let was_right = (reach > 0).then_some(at(last, 2)?);
            let oldest = posts.last().copied().filter(|_| posts.len() >= page.limit);
            self.reach.note(ReadTimeline { limit: page.limit, now, oldest, authors: at(last, 1)?, was_right });
        }
        Ok(posts)
    }

    async fn timeline_posts_with_topics(&self, reader: &UserId, before: PostId, limit: usize) -> Result<Vec<PostId>> {
        let wanted: Parameters<'_> = &[&reader.as_str(), &integer(before.0), &count(limit)];
        ids(&self.pool.read(timeline::WITH_TOPICS, wanted).await?)
    }

    async fn newest_with_topics(&self, topics: &[String], limit: usize) -> Result<Vec<PostId>> {
        ids(&self.pool.read(NEWEST_WITH_TOPICS, &[&names(topics), &count(limit)]).await?)
    }
}

/// The ids without duplicates.
pub(super) fn numbers(ids: &[PostId]) -> Vec<i64> {
    let mut numbers: Vec<i64> = ids.iter().map(|id| integer(id.0)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The ids in the first column.
pub(super) fn ids(rows: &[Row]) -> Result<Vec<PostId>> {
    rows.iter().map(|row| natural_at(row, 0).map(PostId)).collect()
}
