//! Followed topics.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, id_at, integer, natural_at, one, plain, texts};
use super::rows::readable;
use crate::ledger::filters::distinct;
use crate::ledger::{FollowedTopic, Result, TopicFollowStore};
use crate::model::{Millis, UserId};

const FOLLOW: &str = "SELECT feedline_follow_topic($1, $2, $3, $4)";

const UNFOLLOW: &str = "DELETE FROM topic_follows WHERE follower = $1 AND topic = $2 RETURNING 1";

pub(super) const OF_ONE: &str = "SELECT topic, at FROM topic_follows WHERE follower = $1 ORDER BY topic";

/// Each topic with the place of its follower in the list, from 1: one look-up for each follower.
pub(super) const OF: &str = "\
    SELECT wanted.place, f.topic FROM unnest($1::text[]) WITH ORDINALITY AS wanted (follower, place)
    CROSS JOIN LATERAL (SELECT topic FROM topic_follows WHERE topic_follows.follower = wanted.follower OFFSET 0) f
    ORDER BY wanted.place, f.topic";

const ANY: &str = "SELECT EXISTS (SELECT FROM topic_follows)";

/// One look-up for each user and topic.
pub(super) const AMONG: &str = "\
    SELECT DISTINCT wanted.follower
    FROM unnest($2::text[]) AS wanted (follower) CROSS JOIN unnest($1::text[]) AS named (topic)
    CROSS JOIN LATERAL (
        SELECT FROM topic_follows
        WHERE topic_follows.follower = wanted.follower AND topic_follows.topic = named.topic OFFSET 0
    ) f";

#[async_trait]
impl TopicFollowStore for PostgresLedger {
    async fn follow_topic(&self, user: &UserId, topic: &str, now: Millis, most: usize) -> Result<bool> {
        let rows = self.pool.write(FOLLOW, &[&user.as_str(), &plain(topic), &integer(now), &count(most)]).await?;
        at(one(&rows)?, 0)
    }

    async fn unfollow_topic(&self, user: &UserId, topic: &str) -> Result<bool> {
        Ok(!self.pool.write(UNFOLLOW, &[&user.as_str(), &plain(topic)]).await?.is_empty())
    }

    async fn followed_topics(&self, user: &UserId) -> Result<Vec<FollowedTopic>> {
        let rows = self.pool.read(OF_ONE, &[&user.as_str()]).await?;
        let followed = |row: &Row| Ok(FollowedTopic { name: at(row, 0)?, at: natural_at(row, 1)? });
        Ok(readable("topic_follows", &rows, followed))
    }

    async fn topics_of(&self, users: &[UserId]) -> Result<Vec<(UserId, String)>> {
        let users = distinct(users);
        let rows = self.pool.read(OF, &[&texts(&users)]).await?;
        let follower = |place: i64| usize::try_from(place - 1).ok().and_then(|place| users.get(place)).cloned();
        let found = rows.iter().map(|row| Ok(follower(at(row, 0)?).zip(at(row, 1)?)));
        Ok(found.collect::<Result<Vec<Option<_>>>>()?.into_iter().flatten().collect())
    }

    async fn has_topic_follows(&self) -> Result<bool> {
        at(one(&self.pool.read(ANY, &[]).await?)?, 0)
    }

    async fn topic_followers_among(&self, topics: &[String], users: &[UserId]) -> Result<Vec<UserId>> {
        let rows = self.pool.read(AMONG, &[&names(topics), &texts(users)]).await?;
        Ok(readable("topic_follows", &rows, |row| id_at(row, 0)))
    }
}

/// Names of topics, as PostgreSQL takes them.
pub(super) fn names(topics: &[String]) -> Vec<String> {
    topics.iter().map(|topic| plain(topic)).collect()
}
