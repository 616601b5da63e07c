//! The data of one user, in pages.

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, Row, ToSql, params};

use super::comments::{REMOVED, comment, removed};
use super::{SqliteLedger, UNLIMITED, json_text, readable_page};
use crate::ledger::{PersonalData, PersonalDataStore, PersonalRow, Result};
use crate::model::UserId;

/// A page of comments, in the columns that [`comment`] reads.
const COMMENTS: &str = "SELECT id, post, parent, \
        coalesce((SELECT handle FROM users WHERE users.id = author), author), \
        text, mentions, likes, replies, edited_at \
    FROM comments INDEXED BY comments_author WHERE author = ?1 AND id > ?2 AND author IS NOT NULL ORDER BY id LIMIT ?3";

/// Rows ordered by a number. Columns: the number as text, the row as JSON, the other user. Parameters: user, number,
/// limit.
const fn by_number(data: PersonalData) -> Option<&'static str> {
    Some(match data {
        PersonalData::Posts => {
            "SELECT CAST(id AS TEXT), body, NULL FROM posts INDEXED BY posts_author \
             WHERE author = ?1 AND id > ?2 AND deleted_at IS NULL ORDER BY id LIMIT ?3"
        }
        PersonalData::PostLikes => {
            "SELECT CAST(post AS TEXT), json_object('post', post, 'at', at), NULL FROM likes INDEXED BY likes_one \
             WHERE user = ?1 AND post > ?2 ORDER BY post LIMIT ?3"
        }
        PersonalData::CommentLikes => {
            "SELECT CAST(comment AS TEXT), json_object('comment', comment, 'at', at), NULL \
             FROM comment_likes INDEXED BY comment_likes_user \
             WHERE user = ?1 AND comment > ?2 ORDER BY comment LIMIT ?3"
        }
        PersonalData::Following => {
            "SELECT CAST(seq AS TEXT), json_object('user', \
             coalesce((SELECT handle FROM users WHERE id = followee), followee), 'at', at), followee \
             FROM follows INDEXED BY follows_out WHERE follower = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3"
        }
        PersonalData::Followers => {
            "SELECT CAST(seq AS TEXT), json_object('user', \
             coalesce((SELECT handle FROM users WHERE id = follower), follower)), follower \
             FROM follows INDEXED BY follows_in WHERE followee = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3"
        }
        PersonalData::FollowRequests => {
            "SELECT CAST(seq AS TEXT), json_object('user', \
             coalesce((SELECT handle FROM users WHERE id = followee), followee), 'at', at), followee \
             FROM follow_requests INDEXED BY follow_requests_by WHERE follower = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3"
        }
        PersonalData::RequestsToFollow => {
            "SELECT CAST(seq AS TEXT), json_object('user', \
             coalesce((SELECT handle FROM users WHERE id = follower), follower), 'at', at), follower \
             FROM follow_requests INDEXED BY follow_requests_to WHERE followee = ?1 AND seq > ?2 \
                 AND shown_at <= CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER) ORDER BY seq LIMIT ?3"
        }
        PersonalData::Reports => {
            "SELECT CAST(id AS TEXT), json_patch('{}', json_object('id', id, 'kind', kind, 'object', object, \
             'reason', reason, 'text', text, 'at', at)), NULL FROM reports INDEXED BY reports_reporter \
             WHERE reporter = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
        }
        PersonalData::MutedConversations => {
            "SELECT CAST(post AS TEXT), json_object('post', post, 'at', at), NULL FROM muted_conversations \
             WHERE user = ?1 AND post > ?2 ORDER BY post LIMIT ?3"
        }
        PersonalData::Filters => {
            "SELECT CAST(id AS TEXT), json_patch('{}', json_object('id', id, 'words', json(words), 'action', action, \
             'in', json(contexts), 'whole_word', json(iif(whole_word, 'true', 'false')), 'until', until, \
             'created_at', created_at)), NULL FROM filters INDEXED BY filters_owner \
             WHERE owner = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
        }
        PersonalData::Lists => {
            "SELECT CAST(id AS TEXT), json_object('id', id, 'name', name, \
             'exclusive', json(iif(exclusive, 'true', 'false')), \
             'users', json((SELECT json_group_array(coalesce(u.handle, u.id) ORDER BY m.at DESC, m.member DESC) \
                 FROM list_users m CROSS JOIN users u ON u.id = m.member \
                 WHERE m.list = lists.id AND u.erased_at IS NULL)), \
             'topics', json((SELECT json_group_array(topic ORDER BY topic) FROM list_topics WHERE list = lists.id)), \
             'created_at', created_at), NULL FROM lists INDEXED BY lists_owner \
             WHERE owner = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
        }
        _ => return None,
    })
}

/// Rows ordered by two texts; the first contains no space. Columns: `first second`, the row as JSON, the other user.
/// Parameters: user, first, second, limit.
const fn by_texts(data: PersonalData) -> Option<&'static str> {
    Some(match data {
        PersonalData::Favourites => {
            "SELECT type || ' ' || object, json_patch(json_object('type', type, 'id', object, 'at', at), \
             json_object('private', CASE WHEN private THEN json('true') END)), NULL \
             FROM favourites INDEXED BY favourites_one \
             WHERE user = ?1 AND (type, object) > (?2, ?3) ORDER BY type, object LIMIT ?4"
        }
        PersonalData::Restrictions => {
            "SELECT kind || ' ' || target, json_patch(json_object('kind', kind, 'user', \
             coalesce((SELECT handle FROM users WHERE id = target), target), 'at', at), \
             json_object('until', until)), target \
             FROM restrictions WHERE maker = ?1 AND (kind, target) > (?2, ?3) AND kind <> 'listed' \
             ORDER BY kind, target LIMIT ?4"
        }
        PersonalData::FollowedTopics => {
            "SELECT 't ' || topic, json_object('topic', topic, 'at', at), NULL FROM topic_follows \
             WHERE follower = ?1 AND topic > ?3 ORDER BY topic LIMIT ?4"
        }
        PersonalData::PostAlerts => {
            "SELECT 'a ' || author, json_object('user', \
             coalesce((SELECT handle FROM users WHERE id = author), author), 'at', at), author FROM post_alerts \
             WHERE user = ?1 AND author > ?3 ORDER BY author LIMIT ?4"
        }
        PersonalData::Devices => {
            "SELECT 'd ' || id, json_patch('{}', json_object('id', id, 'platform', target ->> 'platform', \
             'locale', locale, 'time_zone', time_zone, 'app_version', app_version, 'registered_at', registered_at, \
             'seen_at', seen_at)), NULL FROM devices WHERE user = ?1 AND id > ?3 ORDER BY id LIMIT ?4"
        }
        PersonalData::PushPreferences => {
            "SELECT 'p p', preferences, NULL FROM push_preferences WHERE user = ?1 AND 'p' > ?3 LIMIT ?4"
        }
        PersonalData::IdempotencyKeys => {
            "SELECT 'k ' || key, json_object('key', key, 'operation', operation, 'at', begun_at), NULL \
             FROM idempotency \
             WHERE user = ?1 AND key > ?3 ORDER BY key LIMIT ?4"
        }
        _ => return None,
    })
}

#[async_trait]
impl PersonalDataStore for SqliteLedger {
    async fn personal_rows(
        &self,
        user: &UserId,
        data: PersonalData,
        after: &str,
        limit: usize,
    ) -> Result<Vec<PersonalRow>> {
        let user = user.clone();
        let after = after.to_owned();
        self.read(move |db| rows(db, &user, data, &after, limit)).await
    }
}

pub(super) fn rows(
    db: &Connection,
    user: &UserId,
    data: PersonalData,
    after: &str,
    limit: usize,
) -> rusqlite::Result<Vec<PersonalRow>> {
    let number: i64 = after.parse().unwrap_or(0);
    let read = |sql: &str, wanted: &[&dyn ToSql]| {
        readable_page("personal", db.prepare_cached(sql)?.query(wanted)?, limit, row)
    };
    if let Some(sql) = by_number(data) {
        return read(sql, params![user.as_str(), number, UNLIMITED]);
    }
    if let Some(sql) = by_texts(data) {
        let (first, second) = after.split_once(' ').unwrap_or_default();
        return read(sql, params![user.as_str(), first, second, UNLIMITED]);
    }
    if data == PersonalData::RemovedComments {
        let sql = format!("{REMOVED} WHERE r.author = ?1 AND r.comment > ?2 ORDER BY r.comment LIMIT ?3");
        let of_comment = |row: &Row<'_>| {
            let comment = removed(row)?.comment;
            Ok(PersonalRow { key: comment.id.to_string(), json: json_text(&comment)?, other: None })
        };
        let wanted = params![user.as_str(), number, UNLIMITED];
        return readable_page("comments", db.prepare_cached(&sql)?.query(wanted)?, limit, of_comment);
    }
    let of_comment = |row: &Row<'_>| {
        let comment = comment(row)?;
        Ok(PersonalRow { key: comment.id.to_string(), json: json_text(&comment)?, other: None })
    };
    let wanted = params![user.as_str(), number, UNLIMITED];
    readable_page("comments", db.prepare_cached(COMMENTS)?.query(wanted)?, limit, of_comment)
}

fn row(row: &Row<'_>) -> rusqlite::Result<PersonalRow> {
    let other: Option<String> = row.get(2)?;
    let strange = |text: &str| {
        rusqlite::Error::FromSqlConversionFailure(2, Type::Text, format!("{text:?} is not a user id").into())
    };
    let id = |text: String| UserId::parse(&text).ok_or_else(|| strange(&text));
    Ok(PersonalRow { key: row.get(0)?, json: row.get(1)?, other: other.map(id).transpose()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Ledger, SqliteOptions};

    #[tokio::test]
    async fn every_page_is_read_from_an_index_in_its_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = SqliteLedger::open(SqliteOptions::new(folder.path().join("l.db"))).await.expect("it opens");
        let statements = PersonalData::ALL.into_iter().filter_map(|data| by_number(data).or(by_texts(data)));
        for sql in statements.chain([COMMENTS]) {
            let explain = format!("EXPLAIN QUERY PLAN {sql}");
            let plan = ledger.read(move |db| -> rusqlite::Result<Vec<String>> {
                let mut statement = db.prepare(&explain)?;
                let bound = vec![1; statement.parameter_count()];
                statement.query_map(rusqlite::params_from_iter(bound), |row| row.get(3))?.collect()
            });
            for step in plan.await.expect("a plan") {
                let is_search = step.starts_with("SEARCH") && step.contains("=?");
                // The spelling of each id, which is searched too, and the members of a list, which are few.
                let is_of_row = step.starts_with("CORRELATED SCALAR SUBQUERY") || step.contains("json_group_array");
                assert!(is_search || is_of_row, "{step} in {sql}");
            }
        }
        ledger.close().await;
    }
}
