//! Followed topics.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};

use super::rows::{ids_json, user_id_at};
use super::{SqliteLedger, count, integer, natural, readable};
use crate::ledger::filters::distinct;
use crate::ledger::{FollowedTopic, Result, TopicFollowStore};
use crate::model::{Millis, UserId};

#[async_trait]
impl TopicFollowStore for SqliteLedger {
    async fn follow_topic(&self, user: &UserId, topic: &str, now: Millis, most: usize) -> Result<bool> {
        let user = user.clone();
        let topic = topic.to_owned();
        self.write(move |db| follow(db, &user, &topic, now, most)).await
    }

    async fn unfollow_topic(&self, user: &UserId, topic: &str) -> Result<bool> {
        let user = user.clone();
        let topic = topic.to_owned();
        let sql = "DELETE FROM topic_follows WHERE follower = ?1 AND topic = ?2";
        self.write(move |db| Ok(db.prepare_cached(sql)?.execute([user.as_str(), &topic])? == 1)).await
    }

    async fn followed_topics(&self, user: &UserId) -> Result<Vec<FollowedTopic>> {
        let user = user.clone();
        let found = |row: &Row<'_>| Ok(FollowedTopic { name: row.get(0)?, at: natural(row.get(1)?) });
        self.read(move |db| readable("topic_follows", db.prepare_cached(OF_ONE)?.query([user.as_str()])?, found)).await
    }

    async fn topics_of(&self, users: &[UserId]) -> Result<Vec<(UserId, String)>> {
        let users = distinct(users);
        let found = |row: &Row<'_>| Ok((user_id_at(row, 0)?, row.get(1)?));
        self.read(move |db| readable("topic_follows", db.prepare_cached(OF)?.query([ids_json(&users)?])?, found)).await
    }

    async fn has_topic_follows(&self) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM topic_follows)";
        self.read(move |db| db.prepare_cached(sql)?.query_row([], |row| row.get(0))).await
    }

    async fn topic_followers_among(&self, topics: &[String], users: &[UserId]) -> Result<Vec<UserId>> {
        let topics = names_json(topics);
        let users = users.to_vec();
        self.read(move |db| {
            let mut statement = db.prepare_cached(AMONG)?;
            readable("topic_follows", statement.query(params![ids_json(&users)?, topics])?, |row| user_id_at(row, 0))
        })
        .await
    }
}

const OF_ONE: &str = "SELECT topic, at FROM topic_follows WHERE follower = ?1 ORDER BY topic";

/// One look-up for each user.
const OF: &str = "SELECT wanted.value, f.topic FROM json_each(?1) wanted CROSS JOIN topic_follows f \
    ON f.follower = wanted.value ORDER BY wanted.key, f.topic";

/// The lists are the outer loops: the other order would scan all followers.
const AMONG: &str = "SELECT wanted.value FROM json_each(?1) wanted WHERE EXISTS (\
        SELECT 1 FROM json_each(?2) named \
        CROSS JOIN topic_follows f ON f.follower = wanted.value AND f.topic = named.value)";

/// Names of topics as a JSON array, for `json_each`.
pub(super) fn names_json(names: &[String]) -> String {
    serde_json::Value::from(names).to_string()
}

/// Whether a user follows any topic.
pub(super) fn has_any(db: &Connection, user: &UserId) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM topic_follows WHERE follower = ?1")?.exists([user.as_str()])
}

/// Whether a user has a list.
pub(super) fn has_lists(db: &Connection, user: &UserId) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM lists INDEXED BY lists_owner WHERE owner = ?1")?.exists([user.as_str()])
}

/// Numbers as a JSON array, for `json_each`.
pub(super) fn numbers_json(numbers: impl Iterator<Item = u64>) -> String {
    serde_json::Value::from_iter(numbers).to_string()
}

fn follow(db: &Connection, user: &UserId, topic: &str, now: Millis, most: usize) -> rusqlite::Result<bool> {
    let sql = "INSERT INTO topic_follows (follower, topic, at) SELECT ?1, ?2, ?3 \
               WHERE (SELECT count(*) FROM topic_follows WHERE follower = ?1 AND topic <> ?2) < ?4 \
               ON CONFLICT DO NOTHING";
    db.prepare_cached(sql)?.execute(params![user.as_str(), topic, integer(now), count(most)])?;
    let sql = "SELECT 1 FROM topic_follows WHERE follower = ?1 AND topic = ?2";
    db.prepare_cached(sql)?.exists([user.as_str(), topic])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Ledger as _, SqliteOptions};

    #[tokio::test]
    async fn followed_topics_are_look_ups_in_indexes() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = SqliteLedger::open(SqliteOptions::new(folder.path().join("l.db"))).await.expect("it opens");
        for sql in [OF_ONE, OF, AMONG] {
            let plan = ledger.read(move |db| -> rusqlite::Result<Vec<String>> {
                let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
                let bound = vec!["[]"; statement.parameter_count()];
                statement.query_map(rusqlite::params_from_iter(bound), |row| row.get(3))?.collect()
            });
            let plan = plan.await.expect("a plan");
            let of_table = plan.iter().filter(|step| step.contains("topic_follows") || step.contains(" f "));
            assert!(of_table.clone().count() > 0, "{plan:?}");
            assert!(of_table.clone().all(|step| step.starts_with("SEARCH") && step.contains("=?")), "{plan:?}");
        }
        ledger.close().await;
    }
}
