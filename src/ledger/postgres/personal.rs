//! The data of one user, in pages.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, json_text};
use super::comments::{REMOVED_BY_AUTHOR, comment, removed};
use crate::ledger::{LedgerError, PersonalData, PersonalDataStore, PersonalRow, Result};
use crate::model::UserId;

/// A page of comments, in the columns that [`comment`] reads.
pub(super) const COMMENTS: &str = "\
    SELECT id, post, parent, coalesce((SELECT handle FROM users WHERE users.id = author), author),
        text, mentions, likes, replies, edited_at
    FROM comments WHERE author = $1 AND id > $2 AND author IS NOT NULL ORDER BY id LIMIT $3";

/// Rows ordered by a number. Columns: the number as text, the row as JSON, the other user. Parameters: user, number,
/// limit.
/// `ORDER BY` names the table: the bare name would be that of the text in the first column.
pub(super) const fn by_number(data: PersonalData) -> Option<&'static str> {
    Some(match data {
        PersonalData::Posts => {
            "SELECT p.id::text, p.body, NULL FROM (
                 SELECT post FROM author_posts WHERE author = $1 AND post > $2 ORDER BY post LIMIT $3
             ) mine CROSS JOIN LATERAL (
                 SELECT id, body FROM posts WHERE id = mine.post AND deleted_at IS NULL OFFSET 0
             ) p ORDER BY p.id"
        }
        PersonalData::PostLikes => {
            "SELECT post::text, json_build_object('post', post, 'at', at)::text, NULL FROM likes
             WHERE owner = $1 AND post > $2 ORDER BY likes.post LIMIT $3"
        }
        PersonalData::CommentLikes => {
            "SELECT comment::text, json_build_object('comment', comment, 'at', at)::text, NULL FROM comment_likes
             WHERE owner = $1 AND comment > $2 ORDER BY comment_likes.comment LIMIT $3"
        }
        PersonalData::Following => {
            "SELECT seq::text, json_build_object('user',
             coalesce((SELECT handle FROM users WHERE id = followee), followee), 'at', at)::text, followee FROM follows
             WHERE follower = $1 AND seq > $2 ORDER BY follows.seq LIMIT $3"
        }
        PersonalData::Followers => {
            "SELECT seq::text, json_build_object('user',
             coalesce((SELECT handle FROM users WHERE id = follower), follower))::text, follower FROM followers
             WHERE followee = $1 AND seq > $2 ORDER BY followers.seq LIMIT $3"
        }
        PersonalData::FollowRequests => {
            "SELECT seq::text, json_build_object('user',
             coalesce((SELECT handle FROM users WHERE id = followee), followee), 'at', at)::text, followee
             FROM follow_requests WHERE follower = $1 AND seq > $2 ORDER BY follow_requests.seq LIMIT $3"
        }
        PersonalData::RequestsToFollow => {
            "SELECT seq::text, json_build_object('user',
             coalesce((SELECT handle FROM users WHERE id = follower), follower), 'at', at)::text, follower
             FROM follow_requests WHERE followee = $1 AND seq > $2
                 AND shown_at <= (extract(epoch FROM now()) * 1000)::bigint ORDER BY follow_requests.seq LIMIT $3"
        }
        PersonalData::Reports => {
            "SELECT id::text, json_strip_nulls(json_build_object('id', id, 'kind', kind, 'object', object,
                 'reason', reason, 'text', text, 'at', at))::text, NULL FROM reports
             WHERE reporter = $1 AND id > $2 ORDER BY reports.id LIMIT $3"
        }
        PersonalData::MutedConversations => {
            "SELECT post::text, json_build_object('post', post, 'at', at)::text, NULL FROM muted_conversations
             WHERE owner = $1 AND post > $2 ORDER BY muted_conversations.post LIMIT $3"
        }
        PersonalData::Filters => {
            "SELECT id::text, json_strip_nulls(json_build_object('id', id, 'words', words, 'action', action,
                 'in', contexts, 'whole_word', whole_word, 'until', until, 'created_at', created_at))::text, NULL
             FROM filters WHERE owner = $1 AND id > $2 ORDER BY filters.id LIMIT $3"
        }
        PersonalData::Lists => {
            "SELECT id::text, json_build_object('id', id, 'name', name, 'exclusive', exclusive,
                 'users', ARRAY(
                     SELECT coalesce(u.handle, u.id) FROM list_users m JOIN users u ON u.id = m.member
                     WHERE m.list = lists.id AND u.erased_at IS NULL ORDER BY m.at DESC, m.member DESC),
                 'topics', ARRAY(SELECT topic FROM list_topics WHERE list = lists.id ORDER BY topic),
                 'created_at', created_at)::text, NULL
             FROM lists WHERE owner = $1 AND id > $2 ORDER BY lists.id LIMIT $3"
        }
        _ => return None,
    })
}

/// Rows ordered by two texts; the first contains no space. Columns: `first second`, the row as JSON, the other user.
/// Parameters: user, first, second, limit.
pub(super) const fn by_texts(data: PersonalData) -> Option<&'static str> {
    Some(match data {
        PersonalData::Favourites => {
            "SELECT type || ' ' || object, json_strip_nulls(json_build_object('type', type, 'id', object, 'at', at,
             'private', CASE WHEN private THEN true END))::text, NULL
             FROM favourites WHERE owner = $1 AND (type, object) > ($2, $3) ORDER BY type, object LIMIT $4"
        }
        PersonalData::Restrictions => {
            "SELECT kind || ' ' || target, json_strip_nulls(json_build_object('kind', kind, 'user',
             coalesce((SELECT handle FROM users WHERE id = target), target), 'at', at, 'until', until))::text, target
             FROM restrictions WHERE maker = $1 AND (kind, target) > ($2, $3) AND kind <> 'listed'
             ORDER BY kind, target LIMIT $4"
        }
        PersonalData::FollowedTopics => {
            "SELECT 't ' || topic, json_build_object('topic', topic, 'at', at)::text, NULL FROM topic_follows
             WHERE follower = $1 AND topic > $3 AND $2::text IS NOT NULL ORDER BY topic LIMIT $4"
        }
        PersonalData::PostAlerts => {
            "SELECT 'a ' || author, json_build_object('user',
             coalesce((SELECT handle FROM users WHERE id = author), author), 'at', at)::text, author
             FROM post_alerts WHERE owner = $1 AND author > $3 AND $2::text IS NOT NULL ORDER BY author LIMIT $4"
        }
        PersonalData::Devices => {
            "SELECT 'd ' || id, json_strip_nulls(json_build_object('id', id, 'platform', target::json ->> 'platform',
                 'locale', locale, 'time_zone', time_zone, 'app_version', app_version,
                 'registered_at', registered_at, 'seen_at', seen_at))::text, NULL
             FROM devices WHERE owner = $1 AND id > $3 AND $2::text IS NOT NULL ORDER BY id LIMIT $4"
        }
        PersonalData::PushPreferences => {
            "SELECT 'p p', preferences, NULL FROM push_preferences
             WHERE owner = $1 AND 'p' > $3 AND $2::text IS NOT NULL LIMIT $4"
        }
        PersonalData::IdempotencyKeys => {
            "SELECT 'k ' || key, json_build_object('key', key, 'operation', operation, 'at', begun_at)::text, NULL
             FROM idempotency WHERE owner = $1 AND key > $3 AND $2::text IS NOT NULL ORDER BY key LIMIT $4"
        }
        _ => return None,
    })
}

#[async_trait]
impl PersonalDataStore for PostgresLedger {
    async fn personal_rows(
        &self,
        user: &UserId,
        data: PersonalData,
        after: &str,
        limit: usize,
    ) -> Result<Vec<PersonalRow>> {
        let number: i64 = after.parse().unwrap_or(0);
        if let Some(sql) = by_number(data) {
            return self.readable_page("personal", sql, &[&user.as_str(), &number], limit, row).await;
        }
        if let Some(sql) = by_texts(data) {
            let (first, second) = after.split_once(' ').unwrap_or_default();
            return self.readable_page("personal", sql, &[&user.as_str(), &first, &second], limit, row).await;
        }
        if data == PersonalData::RemovedComments {
            let of_comment = |row: &Row| {
                let comment = removed(row)?.comment;
                Ok(PersonalRow { key: comment.id.to_string(), json: json_text(&comment)?, other: None })
            };
            let wanted: super::statements::Parameters<'_> = &[&user.as_str(), &number];
            return self.readable_page("comments", REMOVED_BY_AUTHOR, wanted, limit, of_comment).await;
        }
        let of_comment = |row: &Row| {
            let comment = comment(row)?;
            Ok(PersonalRow { key: comment.id.to_string(), json: json_text(&comment)?, other: None })
        };
        self.readable_page("comments", COMMENTS, &[&user.as_str(), &number], limit, of_comment).await
    }
}

fn row(row: &Row) -> Result<PersonalRow> {
    let other: Option<&str> = at(row, 2)?;
    let id = |text| UserId::parse(text).ok_or_else(|| LedgerError::Failed(format!("{text:?} is not a user id")));
    Ok(PersonalRow { key: at(row, 0)?, json: at(row, 1)?, other: other.map(id).transpose()? })
}
