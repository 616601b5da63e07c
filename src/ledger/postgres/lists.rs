//! Lists.

use std::collections::HashSet;

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, integer, natural, natural_at, one, plain, user};
use super::posts::{ids, numbers};
use super::restrictions::InboxJobs;
use super::rows::readable;
use super::statements::Parameters;
use super::timeline::gathered_posts;
use super::topic_follows::names;
use crate::ledger::{
    EdgeWork, LedgerError, ListChange, ListOutcome, ListStore, NewJob, Result, SourcesInUse, job_plan,
};
use crate::model::{List, ListId, ListMember, Millis, PostId, Restriction, User, UserId};

const CREATE: &str = "SELECT feedline_create_list($1, $2, $3, $4, $5, $6)";

const UPDATE: &str = "\
    SELECT id, name, exclusive, created_at, users, topics FROM feedline_update_list($1, $2, $3, $4)";

const DELETE: &str = "SELECT feedline_delete_list($1, $2)";

const ADD_USER: &str = "SELECT feedline_add_user_to_list($1, $2, $3, $4, $5)";

const ADD_TOPIC: &str = "SELECT feedline_add_topic_to_list($1, $2, $3, $4, $5)";

const REMOVE_USER: &str = "SELECT feedline_remove_user_from_list($1, $2, $3)";

const REMOVE_TOPIC: &str = "SELECT feedline_remove_topic_from_list($1, $2, $3)";

const SYNC: &str = "SELECT jobs, is_listed FROM feedline_sync_exclusion($1, $2, $3, $4, $5, $6, $7)";

/// Builds a statement that returns lists of `$1`, in the columns that [`list`] reads. `$rest` are further conditions.
#[rustfmt::skip]
macro_rules! select_lists {
    ($rest:literal) => {
        concat!(
            "SELECT id, name, exclusive, created_at, (SELECT count(*) FROM list_users WHERE list = lists.id),
                 (SELECT count(*) FROM list_topics WHERE list = lists.id)
             FROM lists WHERE owner = $1 ",
            $rest
        )
    };
}

pub(super) const LISTS: &str = select_lists!("ORDER BY id");

pub(super) const LIST: &str = select_lists!("AND id = $2");

/// One look-up for each list of the owner: others may have the user in many lists.
pub(super) const LISTS_WITH: &str =
    select_lists!("AND EXISTS (SELECT FROM list_users WHERE list = lists.id AND member = $2 OFFSET 0) ORDER BY id");

pub(super) const USERS: &str = "\
    SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, m.at
    FROM (
        SELECT member, at FROM list_users WHERE list = $1 AND (at, member) < ($2, $3)
        ORDER BY at DESC, member DESC LIMIT $4
    ) m
    JOIN users u ON u.id = m.member ORDER BY m.at DESC, m.member DESC";

pub(super) const TOPICS: &str = "SELECT topic FROM list_topics WHERE list = $1 ORDER BY topic";

/// The posts of the users and topics of a list.
pub(super) const POSTS: &str = gathered_posts!(
    "SELECT member AS author FROM list_users WHERE list = $1",
    "SELECT topic FROM list_topics WHERE list = $1",
);

/// A look-up for each post, and for each of the few topics of the list.
pub(super) const LISTED_AMONG: &str = "\
    SELECT p.id FROM unnest($2::bigint[]) AS wanted (id) CROSS JOIN LATERAL (
        SELECT id, author FROM posts WHERE posts.id = wanted.id AND body IS NOT NULL OFFSET 0
    ) p
    WHERE EXISTS (SELECT FROM list_users m WHERE m.list = $1 AND m.member = p.author OFFSET 0)
        OR EXISTS (
            SELECT FROM list_topics l CROSS JOIN LATERAL (
                SELECT FROM post_topics t WHERE t.topic = l.topic AND t.post = p.id AND t.public OFFSET 0
            ) t
            WHERE l.list = $1
        )";

pub(super) const LISTS_AMONG: &str = "\
    SELECT wanted.list FROM unnest($1::bigint[]) AS wanted (list)
    WHERE EXISTS (SELECT FROM list_users m WHERE m.list = wanted.list AND m.member = $2 OFFSET 0)
        OR EXISTS (
            SELECT FROM unnest($3::text[]) AS named (topic) CROSS JOIN LATERAL (
                SELECT FROM list_topics m WHERE m.list = wanted.list AND m.topic = named.topic OFFSET 0
            ) m
        )";

const ANY: &str = "SELECT EXISTS (SELECT FROM lists)";

/// The first list of the author, and a look-up or two for each topic.
pub(super) const SOURCES_IN_USE: &str = "\
    SELECT EXISTS (SELECT FROM list_users WHERE member = $1), ARRAY(
        SELECT DISTINCT wanted.topic FROM unnest($2::text[]) AS wanted (topic)
        WHERE EXISTS (SELECT FROM topic_follows f WHERE f.topic = wanted.topic OFFSET 0)
            OR EXISTS (SELECT FROM list_topics l WHERE l.topic = wanted.topic OFFSET 0)
    )";

#[async_trait]
impl ListStore for PostgresLedger {
    async fn create_list(
        &self,
        owner: &UserId,
        name: &str,
        exclusive: bool,
        now: Millis,
        most: usize,
        reserved: Option<PostId>,
    ) -> Result<Option<List>> {
        let name = plain(name);
        let reserved = reserved.map(|id| integer(id.0));
        let parameters: Parameters<'_> = &[&owner.as_str(), &name, &exclusive, &integer(now), &count(most), &reserved];
        let id: Option<i64> = at(one(&self.pool.write(CREATE, parameters).await?)?, 0)?;
        let id = id.map(|id| ListId(natural(id)));
        if let (Some(id), Some(_)) = (id, reserved) {
            // It may be that of an earlier attempt, and have changed since.
            return self.list(owner, id).await;
        }
        Ok(id.map(|id| List { id, name, exclusive, users: 0, topics: 0, created_at: now }))
    }

    async fn lists(&self, owner: &UserId) -> Result<Vec<List>> {
        Ok(readable("lists", &self.pool.read(LISTS, &[&owner.as_str()]).await?, list))
    }

    async fn list(&self, owner: &UserId, id: ListId) -> Result<Option<List>> {
        self.pool.read(LIST, &[&owner.as_str(), &integer(id.0)]).await?.first().map(list).transpose()
    }

    async fn update_list(&self, owner: &UserId, id: ListId, change: &ListChange) -> Result<Option<List>> {
        let name = change.name.as_deref().map(plain);
        let parameters: Parameters<'_> = &[&owner.as_str(), &integer(id.0), &name, &change.exclusive];
        self.pool.write(UPDATE, parameters).await?.first().map(list).transpose()
    }

    async fn delete_list(&self, owner: &UserId, id: ListId) -> Result<bool> {
        at(one(&self.pool.write(DELETE, &[&owner.as_str(), &integer(id.0)]).await?)?, 0)
    }

    async fn add_to_list(
        &self,
        owner: &UserId,
        id: ListId,
        member: &ListMember,
        now: Millis,
        most: usize,
    ) -> Result<ListOutcome> {
        let sql = match member {
            ListMember::User(_) => ADD_USER,
            ListMember::Topic(_) => ADD_TOPIC,
        };
        let member = text(member);
        let parameters: Parameters<'_> = &[&owner.as_str(), &integer(id.0), &member, &integer(now), &count(most)];
        let rows = self.pool.write(sql, parameters).await?;
        match at(one(&rows)?, 0)? {
            "added" => Ok(ListOutcome::Added),
            "unchanged" => Ok(ListOutcome::Unchanged),
            "full" => Ok(ListOutcome::Full),
            "no_list" => Ok(ListOutcome::NoList),
            other => Err(LedgerError::Failed(format!("{other:?} is not an outcome"))),
        }
    }

    async fn remove_from_list(&self, owner: &UserId, id: ListId, member: &ListMember) -> Result<Option<bool>> {
        let sql = match member {
            ListMember::User(_) => REMOVE_USER,
            ListMember::Topic(_) => REMOVE_TOPIC,
        };
        let parameters: Parameters<'_> = &[&owner.as_str(), &integer(id.0), &text(member)];
        at(one(&self.pool.write(sql, parameters).await?)?, 0)
    }

    async fn list_users(
        &self,
        id: ListId,
        after: Option<(Millis, &UserId)>,
        limit: usize,
    ) -> Result<Vec<(Millis, User)>> {
        let (at_time, member) = after.map_or((i64::MAX, ""), |(at, member)| (integer(at), member.as_str()));
        let found = |row: &Row| Ok((natural_at(row, 4)?, user(row)?));
        self.readable_page("users", USERS, &[&integer(id.0), &at_time, &member], limit, found).await
    }

    async fn list_topics(&self, id: ListId) -> Result<Vec<String>> {
        self.pool.read(TOPICS, &[&integer(id.0)]).await?.iter().map(|row| at(row, 0)).collect()
    }

    async fn lists_with(&self, owner: &UserId, user: &UserId) -> Result<Vec<List>> {
        Ok(readable("lists", &self.pool.read(LISTS_WITH, &[&owner.as_str(), &user.as_str()]).await?, list))
    }

    async fn list_posts(&self, id: ListId, before: PostId, limit: usize) -> Result<Vec<PostId>> {
        ids(&self.pool.read(POSTS, &[&integer(id.0), &integer(before.0), &count(limit)]).await?)
    }

    async fn listed_among(&self, id: ListId, posts: &[PostId]) -> Result<HashSet<PostId>> {
        let rows = self.pool.read(LISTED_AMONG, &[&integer(id.0), &numbers(posts)]).await?;
        Ok(ids(&rows)?.into_iter().collect())
    }

    async fn lists_among(&self, lists: &[ListId], author: &UserId, topics: &[String]) -> Result<HashSet<ListId>> {
        let lists: Vec<i64> = lists.iter().map(|list| integer(list.0)).collect();
        let rows = self.pool.read(LISTS_AMONG, &[&lists, &author.as_str(), &names(topics)]).await?;
        rows.iter().map(|row| natural_at(row, 0).map(ListId)).collect()
    }

    async fn has_lists(&self) -> Result<bool> {
        at(one(&self.pool.read(ANY, &[]).await?)?, 0)
    }

    async fn sources_in_use(&self, author: &UserId, topics: &[String]) -> Result<SourcesInUse> {
        let rows = self.pool.read(SOURCES_IN_USE, &[&author.as_str(), &names(topics)]).await?;
        let row = one(&rows)?;
        Ok(SourcesInUse { is_listed: at(row, 0)?, topics: at(row, 1)? })
    }

    async fn sync_exclusion(&self, owner: &UserId, user: &UserId, now: Millis) -> Result<Option<(bool, Vec<NewJob>)>> {
        let inboxes = job_plan::restricted_inboxes(Restriction::Listed, owner, user);
        let closing = InboxJobs::new(&inboxes, job_plan::detachment(Restriction::Listed))?;
        let opening = InboxJobs::new(&inboxes, EdgeWork::Follow)?;
        let parameters: Parameters<'_> = &[
            &owner.as_str(),
            &user.as_str(),
            &closing.readers,
            &closing.authors,
            &closing.jobs,
            &opening.jobs,
            &integer(now),
        ];
        let rows = self.pool.write(SYNC, parameters).await?;
        let is_listed: bool = at(one(&rows)?, 1)?;
        let inboxes = if is_listed { closing } else { opening };
        Ok(inboxes.submitted(&rows, now)?.map(|jobs| (is_listed, jobs)))
    }
}

/// A member as it is stored.
fn text(member: &ListMember) -> String {
    match member {
        ListMember::User(user) => user.as_str().to_owned(),
        ListMember::Topic(topic) => plain(topic),
    }
}

/// Reads `id, name, exclusive, created_at`, and the numbers of users and topics.
fn list(row: &Row) -> Result<List> {
    Ok(List {
        id: ListId(natural_at(row, 0)?),
        name: at(row, 1)?,
        exclusive: at(row, 2)?,
        created_at: natural_at(row, 3)?,
        users: natural_at(row, 4)?,
        topics: natural_at(row, 5)?,
    })
}
