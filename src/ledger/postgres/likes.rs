//! Likes, and the position up to which the queue of likes is settled.

use std::collections::BTreeMap;

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{at, count, id_at, integer, json_text, natural_at, one, plain, user, user_ids};
use super::comments::once;
use super::statements::Parameters;
use crate::ledger::{
    EventConsumer, LIKE, LedgerError, LikeBatch, LikeStore, ListPage, Result, RevertReason, Reverted, SettledLikes,
};
use crate::model::{CommentId, ContentId, DomainEvent, LikeChange, MAX_LIKES, Millis, PostId, Tally, User, UserId};

const POSITION: &str = "SELECT position FROM like_positions WHERE partition = $1";

/// Writes events of all likes that are taken back, also of those that did not exist (they change nothing), and of
/// reverted ones.
const SETTLE: &str = "\
    WITH answer AS MATERIALIZED (SELECT * FROM feedline_apply_like_batch(
        $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
        $24)
    ), happened AS (
        INSERT INTO events (at, event, pending)
        SELECT $4::bigint, e.event, e.pending
        FROM answer, unnest($25::text[], $26::int[]) WITH ORDINALITY AS e (event, pending, place)
        WHERE applied ORDER BY place
    ), undone AS (
        INSERT INTO events (at, event, pending)
        SELECT $4::bigint, json_build_object('like_reverted',
            json_build_object('user', r.owner, 'object', r.object, 'reason', r.reason))::text, $27::int
        FROM answer, unnest(reverted_by, revert_objects, revert_reasons) AS r (owner, object, reason)
    ), set_aside AS (
        INSERT INTO quarantine (kind, name, content, reason, attempts, at)
        SELECT 'like', q.name, q.content, q.reason, q.attempts, q.at
        FROM answer, unnest($28::text[], $29::text[], $30::text[], $31::bigint[], $32::bigint[])
            AS q (name, content, reason, attempts, at)
        WHERE applied ON CONFLICT (kind, name) DO NOTHING
    )
    SELECT applied, added, tally_of_post, tally_of, tally_likes, tally_comments, tally_versions,
        reverted_by, revert_objects, revert_reasons FROM answer";

/// One look-up for each like, each in one partition.
const LIKES_AMONG: &str = "\
    SELECT '', wanted.p, wanted.n, wanted.owner
    FROM unnest($1::boolean[], $2::bigint[], $3::text[]) AS wanted (p, n, owner)
    WHERE CASE WHEN wanted.p
        THEN EXISTS (SELECT FROM likes WHERE likes.post = wanted.n AND likes.owner = wanted.owner OFFSET 0)
        ELSE EXISTS (SELECT FROM comment_likes c WHERE c.comment = wanted.n AND c.owner = wanted.owner OFFSET 0) END";

const TALLIES: &str = "\
    SELECT '', p, n, new_likes, new_comments, new_version FROM feedline_like_tallies($1, $2)";

pub(super) const LIKERS: &str = "\
    SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, l.seq
    FROM (SELECT owner, seq FROM likes WHERE post = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3) l
    JOIN users u ON u.id = l.owner ORDER BY l.seq DESC";

/// Merges the indexes of the partitions: likes are stored by post.
pub(super) const LIKES_BY: &str = "\
    SELECT post FROM likes WHERE owner = $1 AND post < $2 ORDER BY post DESC LIMIT $3";

pub(super) const COMMENT_LIKERS: &str = "\
    SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, l.at
    FROM (
        SELECT owner, at FROM comment_likes WHERE comment = $1 AND (at, owner) < ($2, $3)
        ORDER BY at DESC, owner DESC LIMIT $4
    ) l
    JOIN users u ON u.id = l.owner ORDER BY l.at DESC, l.owner DESC";

/// One look-up for each id, each in one partition.
pub(super) const LIKED_COMMENTS: &str = "\
    SELECT wanted.id FROM unnest($2::bigint[]) AS wanted (id)
    CROSS JOIN LATERAL (
        SELECT FROM comment_likes WHERE comment_likes.comment = wanted.id AND owner = $1 OFFSET 0
    ) liked";

#[async_trait]
impl LikeStore for PostgresLedger {
    async fn like_position(&self, partition: u16) -> Result<String> {
        let rows = self.pool.read(POSITION, &[&i32::from(partition)]).await?;
        rows.first().map_or_else(|| Ok(String::new()), |row| at(row, 0))
    }

    async fn settle_likes(&self, batch: LikeBatch) -> Result<Option<SettledLikes>> {
        let format = DomainEvent::liked_json_parts();
        let format = format.ok_or_else(|| LedgerError::Failed("an event of likes without its parts".to_owned()))?;
        let arrays = BatchArrays::new(&batch);
        let events = arrays.events(batch.noted)?;
        let taken_back = arrays.unliked_events()?;
        let failed = batch.failed.iter().map(|like| Reverted::of(like, RevertReason::Failed));
        let failed: Vec<Reverted> = failed.collect();
        let [of_likes, of_reverts] = [EventConsumer::Likes, EventConsumer::Notifications].map(EventConsumer::bit);
        let mut pending_of = vec![of_likes; taken_back.len()];
        pending_of.resize(taken_back.len() + failed.len(), of_reverts);
        let of_failed = failed.iter().map(|revert| json_text(&revert.event()));
        let more_events = taken_back.into_iter().map(Ok).chain(of_failed).collect::<Result<Vec<String>>>()?;
        let aside = &batch.quarantined;
        let names: Vec<&str> = aside.iter().map(|item| item.name.as_str()).collect();
        let contents: Vec<String> = aside.iter().map(|item| plain(&item.content)).collect();
        let faults: Vec<String> = aside.iter().map(|item| plain(&item.reason)).collect();
        let attempts: Vec<i64> = aside.iter().map(|item| item.attempts.into()).collect();
        let times: Vec<i64> = aside.iter().map(|item| integer(item.at)).collect();
        let BatchArrays { liked, unliked, unseen, .. } = &arrays;
        let partition = i32::from(batch.partition);
        let now = integer(batch.now);
        let noted = count(batch.noted);
        let event_size = count(MAX_LIKES);
        let parameters: Parameters<'_> = &[
            &partition,
            &batch.from,
            &batch.to,
            &now,
            &arrays.posts,
            &arrays.steps,
            &arrays.comments,
            &liked.objects,
            &liked.users,
            &liked.times,
            &liked.of_posts,
            &arrays.likers,
            &arrays.handles,
            &unliked.objects,
            &unliked.users,
            &unliked.of_posts,
            &arrays.unseen_of_post,
            &unseen.objects,
            &unseen.users,
            &noted,
            &event_size,
            &&format[..],
            &events,
            &of_likes,
            &more_events,
            &pending_of,
            &of_reverts,
            &names,
            &contents,
            &faults,
            &attempts,
            &times,
        ];
        let Some(mut settled) = arrays.result(one(&self.pool.write(SETTLE, parameters).await?)?)? else {
            return Ok(None);
        };
        settled.reverted.extend(failed);
        if !aside.is_empty() {
            self.trim_quarantine(LIKE).await;
        }
        Ok(Some(settled))
    }

    async fn like_tallies(&self, objects: &[ContentId]) -> Result<Vec<(ContentId, Tally)>> {
        let (of_posts, numbers): (Vec<bool>, Vec<i64>) = objects.iter().copied().map(parts).unzip();
        self.pool.read(TALLIES, &[&of_posts, &numbers]).await?.iter().map(tally).collect()
    }

    async fn likers(&self, post: PostId, before: Option<i64>, limit: usize) -> Result<ListPage<User>> {
        self.listed(LIKERS, &[&integer(post.0), &before.unwrap_or(i64::MAX)], limit).await
    }

    async fn likes_by(&self, user: &UserId, before: PostId, limit: usize) -> Result<Vec<PostId>> {
        let rows = self.pool.read(LIKES_BY, &[&user.as_str(), &integer(before.0), &count(limit)]).await?;
        rows.iter().map(|row| natural_at(row, 0).map(PostId)).collect()
    }

    async fn comment_likers(
        &self,
        comment: CommentId,
        after: Option<(Millis, &UserId)>,
        limit: usize,
    ) -> Result<Vec<(Millis, User)>> {
        let (time, owner) = after.map_or((i64::MAX, ""), |(at, user)| (integer(at), user.as_str()));
        let parameters: Parameters<'_> = &[&integer(comment.0), &time, &owner];
        let liker = |row: &Row| Ok((natural_at(row, 4)?, user(row)?));
        self.readable_page("users", COMMENT_LIKERS, parameters, limit, liker).await
    }

    async fn liked_comments(&self, user: &UserId, ids: &[CommentId]) -> Result<Vec<CommentId>> {
        let rows = self.pool.read(LIKED_COMMENTS, &[&user.as_str(), &once(ids)]).await?;
        rows.iter().map(|row| natural_at(row, 0).map(CommentId)).collect()
    }

    async fn likes_among(&self, likes: &[(ContentId, UserId)]) -> Result<Vec<(ContentId, UserId)>> {
        let (of_posts, numbers): (Vec<bool>, Vec<i64>) = likes.iter().map(|(object, _)| parts(*object)).unzip();
        let users: Vec<&str> = likes.iter().map(|(_, user)| user.as_str()).collect();
        let rows = self.pool.read(LIKES_AMONG, &[&of_posts, &numbers, &users]).await?;
        rows.iter().map(|row| Ok((object(row)?, id_at(row, 3)?))).collect()
    }
}

/// An object as the database's functions take it: whether it is a post, and its number.
fn parts(object: ContentId) -> (bool, i64) {
    (matches!(object, ContentId::Post(_)), integer(object.number()))
}

/// Reads an object from the second column on.
fn object(row: &Row) -> Result<ContentId> {
    let number = natural_at(row, 2)?;
    Ok(if at(row, 1)? { ContentId::Post(PostId(number)) } else { ContentId::Comment(CommentId(number)) })
}

/// Reads an object and its tally from the second column on.
pub(super) fn tally(row: &Row) -> Result<(ContentId, Tally)> {
    let tally = Tally { likes: natural_at(row, 3)?, comments: natural_at(row, 4)?, version: natural_at(row, 5)? };
    Ok((object(row)?, tally))
}

/// Changes of objects in the order of these, posts first, and of each object in the order of the queue.
#[derive(Default)]
struct ChangeArrays<'a> {
    objects: Vec<i64>,
    users: Vec<&'a str>,
    times: Vec<i64>,
    /// The changes of posts.
    of_posts: i32,
    changes: Vec<&'a LikeChange>,
}

impl<'a> ChangeArrays<'a> {
    fn new(changes: impl Iterator<Item = &'a LikeChange>) -> Self {
        let mut changes: Vec<&LikeChange> = changes.collect();
        changes.sort_by_key(|change| change.object);
        let of_posts = changes.partition_point(|change| matches!(change.object, ContentId::Post(_)));
        Self {
            objects: changes.iter().map(|change| integer(change.object.number())).collect(),
            users: changes.iter().map(|change| change.user.as_str()).collect(),
            times: changes.iter().map(|change| integer(change.at)).collect(),
            of_posts: i32::try_from(of_posts).unwrap_or(i32::MAX),
            changes,
        }
    }

    /// The changes as pairs of a user and an object.
    fn likes(&self) -> Vec<(UserId, ContentId)> {
        self.changes.iter().map(|change| (change.user.clone(), change.object)).collect()
    }
}

/// A batch as arrays.
struct BatchArrays<'a> {
    /// The posts in ascending order, each once.
    posts: Vec<i64>,
    /// By how much the likes of each post grow if every change has an effect.
    steps: Vec<i64>,
    /// The comments in ascending order, each once.
    comments: Vec<i64>,
    liked: ChangeArrays<'a>,
    unliked: ChangeArrays<'a>,
    /// The users who like, in ascending order, each once.
    likers: Vec<&'a str>,
    /// For each like, the id of its user as written; `None`: in lower case.
    handles: Vec<Option<&'a str>>,
    unseen: ChangeArrays<'a>,
    /// Whether each unseen change is one of a post.
    unseen_of_post: Vec<bool>,
}

impl<'a> BatchArrays<'a> {
    fn new(batch: &'a LikeBatch) -> Self {
        let mut posts = BTreeMap::new();
        let mut comments = BTreeMap::new();
        for change in &batch.changes {
            let steps = if matches!(change.object, ContentId::Post(_)) { &mut posts } else { &mut comments };
            *steps.entry(integer(change.object.number())).or_insert(0) += if change.liked { 1 } else { -1 };
        }
        let liked = ChangeArrays::new(batch.changes.iter().filter(|change| change.liked));
        let mut likers = liked.users.clone();
        likers.sort_unstable();
        likers.dedup();
        let handles = liked.changes.iter().map(|change| change.user.handle()).collect();
        let unseen = ChangeArrays::new(batch.unseen.iter());
        let of_post = |change: &&LikeChange| matches!(change.object, ContentId::Post(_));
        let (posts, steps) = posts.into_iter().unzip();
        Self {
            posts,
            steps,
            comments: comments.into_keys().collect(),
            unliked: ChangeArrays::new(batch.changes.iter().filter(|change| !change.liked)),
            likers,
            handles,
            unseen_of_post: unseen.changes.iter().map(of_post).collect(),
            liked,
            unseen,
        }
    }

    /// The events of the batch if all of its likes are new, of each object at most `of_each` likes.
    fn events(&self, of_each: usize) -> Result<Vec<String>> {
        DomainEvent::liked(&self.liked.likes(), of_each).iter().map(json_text).collect()
    }

    /// The events of the likes that the batch takes back.
    fn unliked_events(&self) -> Result<Vec<String>> {
        DomainEvent::unliked(&self.unliked.likes()).iter().map(json_text).collect()
    }

    /// Reads the result; `None`: the batch was not applied.
    fn result(&self, row: &Row) -> Result<Option<SettledLikes>> {
        if !at::<bool>(row, 0)? {
            return Ok(None);
        }
        let strange = |what: &str| LedgerError::Failed(format!("settled likes with strange {what}"));
        let mut settled = SettledLikes::default();
        for place in at::<Vec<i32>>(row, 1)? {
            let place = usize::try_from(place - 1).ok();
            let change = place.and_then(|place| self.liked.changes.get(place)).ok_or_else(|| strange("places"))?;
            settled.added.push((change.user.clone(), change.object));
        }
        let of_post: Vec<bool> = at(row, 2)?;
        let numbers: [Vec<i64>; 4] = [at(row, 3)?, at(row, 4)?, at(row, 5)?, at(row, 6)?];
        for (index, of_post) in of_post.into_iter().enumerate() {
            let natural = |column: usize| {
                let number = numbers.get(column).and_then(|column| column.get(index)).copied();
                number.and_then(|number| u64::try_from(number).ok()).ok_or_else(|| strange("counts"))
            };
            let number = natural(0)?;
            let object = if of_post { ContentId::Post(PostId(number)) } else { ContentId::Comment(CommentId(number)) };
            settled.tallies.push((object, Tally { likes: natural(1)?, comments: natural(2)?, version: natural(3)? }));
        }
        if let Some(users) = at::<Option<Vec<&str>>>(row, 7)? {
            let objects: Vec<&str> = at(row, 8)?;
            let reasons: Vec<&str> = at(row, 9)?;
            for ((user, object), reason) in user_ids(users)?.into_iter().zip(objects).zip(reasons) {
                let what = ContentId::parse(object).zip(RevertReason::parse(reason));
                let (object, reason) = what.ok_or_else(|| strange("reverts"))?;
                settled.reverted.push(Reverted { user, object, reason });
            }
        }
        Ok(Some(settled))
    }
}
