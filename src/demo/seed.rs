//! Writes the demonstration to an empty ledger.
//!
//! It is written past the operations, because posts, comments and likes are of different ages, while operations happen
//! now. Inboxes are not written: a timeline that is read for the first time is built from the ledger.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::content::{Content, DemoComment, DemoPost};
use super::pictures::PICTURES;
use crate::feed::{Draft, LimitOptions, mentioned};
use crate::ledger::{CommentOutcome, Lease, Ledger, LedgerError, LikeBatch, NewAccount};
use crate::model::{Comment, CommentId, ContentId, LikeChange, Media, MediaKind, Millis, PostId, UserId};

const HOUR: Millis = 3_600_000;
/// The age of the accounts.
const ACCOUNT_AGE: Millis = 90 * 24 * HOUR;
/// Likes of one object that notify its author.
const NOTED_LIKES: usize = 3;
/// Every person follows about this share of the others, in twelfths.
const FOLLOWED_TWELFTHS: usize = 5;

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seeded {
    /// Accounts.
    pub people: usize,
    /// Follows.
    pub follows: usize,
    /// Posts.
    pub posts: usize,
    /// Comments and replies.
    pub comments: usize,
    /// Likes.
    pub likes: usize,
}

/// The demonstration was not written, or not all of it.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// The ledger has users already. Nothing was written.
    #[error("the ledger is not empty: it has the user {0}; the demonstration is for a new instance")]
    NotEmpty(UserId),
    /// The ledger failed. What was written before stays.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The content in the binary is not valid.
    #[error("the content of the demonstration is not valid: {0}")]
    Content(String),
}

/// Writes the demonstration to an empty ledger. All accounts get the password with this hash (argon2id, PHC form). No
/// server may use the ledger at the same time: its caches would not know the new users.
///
/// # Errors
/// [`SeedError`].
pub async fn seed(ledger: &dyn Ledger, password: &str, now: Millis) -> Result<Seeded, SeedError> {
    let content = Content::load().map_err(|error| SeedError::Content(error.to_string()))?;
    let people = content.people.iter().map(|(id, _)| user(id)).collect::<Result<Vec<UserId>, _>>()?;
    refuse_unless_empty(ledger).await?;
    let mut seeder = Seeder { ledger, people, seeded: Seeded::default(), times: HashSet::new(), likes: Vec::new() };
    seeder.people(&content, password, now).await?;
    seeder.follows(now).await?;
    for (number, post) in content.posts.iter().enumerate().rev() {
        seeder.post(number, post, now).await?;
    }
    seeder.settle(now).await?;
    Ok(seeder.seeded)
}

/// Searches a user by every character that an id can begin with.
async fn refuse_unless_empty(ledger: &dyn Ledger) -> Result<(), SeedError> {
    for first in "abcdefghijklmnopqrstuvwxyz0123456789_-.".chars() {
        if let Some(found) = ledger.search_users(&first.to_string(), None, 1).await?.into_iter().next() {
            return Err(SeedError::NotEmpty(found.user.id));
        }
    }
    Ok(())
}

fn user(id: &str) -> Result<UserId, SeedError> {
    UserId::parse(id).ok_or_else(|| SeedError::Content(format!("{id} is no user id")))
}

/// A lease of length zero: the server that starts afterwards claims the jobs.
fn unleased() -> Lease {
    Lease { holder: Arc::from("seed-demo"), length: Duration::ZERO }
}

/// A thread that is being written.
struct DemoThread {
    post: PostId,
    /// The time of its last comment; of the post before the first.
    last: Millis,
    /// The time between two comments.
    step: Millis,
}

struct Seeder<'a> {
    ledger: &'a dyn Ledger,
    people: Vec<UserId>,
    seeded: Seeded,
    /// The times of the ids so far: no two ids have the same.
    times: HashSet<Millis>,
    likes: Vec<LikeChange>,
}

impl Seeder<'_> {
    async fn people(&mut self, content: &Content, password: &str, now: Millis) -> Result<(), SeedError> {
        for (user, (_, name)) in self.people.iter().zip(&content.people) {
            let account = NewAccount {
                user: user.clone(),
                name: name.clone(),
                password: password.to_owned(),
                created_at: now.saturating_sub(ACCOUNT_AGE),
            };
            self.seeded.people += usize::from(self.ledger.create_account(account).await?);
        }
        Ok(())
    }

    async fn follows(&mut self, now: Millis) -> Result<(), SeedError> {
        for (i, follower) in self.people.iter().enumerate() {
            for (j, followee) in self.people.iter().enumerate() {
                // The first person follows everyone: the command proposes this account.
                let follows = i != j && (i == 0 || (i * 7 + j * 5 + i * j) % 12 < FOLLOWED_TWELFTHS);
                if follows {
                    self.ledger.follow(follower, followee, now.saturating_sub(ACCOUNT_AGE / 2), &unleased()).await?;
                    self.seeded.follows += 1;
                }
            }
        }
        Ok(())
    }

    /// The first time at or after `wanted` that no id has.
    fn time(&mut self, wanted: Millis) -> Millis {
        let mut time = wanted;
        while !self.times.insert(time) {
            time += 1;
        }
        time
    }

    async fn post(&mut self, number: usize, written: &DemoPost, now: Millis) -> Result<(), SeedError> {
        let age = (written.hours * HOUR as f64) as Millis;
        let id = PostId::from_parts(self.time(now.saturating_sub(age)), 0, 0);
        let media = written.picture.iter().map(|name| Media {
            kind: MediaKind::Image,
            url: format!("{PICTURES}{name}.svg"),
            width: Some(1_200),
            height: Some(800),
            alt: written.alt.clone(),
        });
        let draft = Draft { text: written.text.clone(), media: media.collect(), ..Draft::default() };
        let post =
            draft.into_post(&user(&written.by)?, id, &LIMITS).map_err(|error| SeedError::Content(error.to_string()))?;
        self.ledger.create_post(&post, &unleased()).await?;
        self.seeded.posts += 1;
        self.like(ContentId::Post(id), &post.author, 3 + (number * 11) % 19, id.time());
        // The thread fills the first third of the time since.
        let comments = count(&written.comments).max(1) as Millis;
        let step = age / 3 / comments;
        let mut thread = DemoThread { post: id, last: id.time(), step };
        self.thread(&mut thread, None, &written.comments).await
    }

    async fn thread(
        &mut self,
        thread: &mut DemoThread,
        parent: Option<CommentId>,
        comments: &[DemoComment],
    ) -> Result<(), SeedError> {
        for written in comments {
            thread.last = self.time(thread.last + thread.step);
            let id = CommentId(PostId::from_parts(thread.last, 0, 0).0);
            let author = user(&written.by)?;
            let comment = Comment {
                id,
                post: thread.post,
                reply_to: parent,
                author: Some(author.clone()),
                text: Some(written.text.clone()),
                mentions: mentioned(&written.text),
                created_at: id.time(),
                likes: 0,
                replies: 0,
                edited_at: None,
                liked: None,
            };
            match self.ledger.create_comment(&comment).await? {
                CommentOutcome::Stored(_) => self.seeded.comments += 1,
                other => return Err(SeedError::Content(format!("{}: {other:?}", written.text))),
            }
            self.like(ContentId::Comment(id), &author, written.text.len() % 4, id.time());
            Box::pin(self.thread(thread, Some(id), &written.replies)).await?;
        }
        Ok(())
    }

    /// Up to `many` people like an object of `author`.
    fn like(&mut self, object: ContentId, author: &UserId, many: usize, at: Millis) {
        let start = object.number() as usize >> (PostId::NODE_BITS + PostId::SEQUENCE_BITS);
        let people = (0..self.people.len()).map(|step| &self.people[(start + step * 5) % self.people.len()]);
        let likes = people.filter(|user| *user != author).take(many).cloned();
        self.likes.extend(likes.map(|user| LikeChange { user, object, liked: true, at }));
    }

    /// Settles the likes as one batch. The position of the queue stays at its beginning.
    async fn settle(&mut self, now: Millis) -> Result<(), SeedError> {
        let batch = LikeBatch {
            partition: 0,
            from: String::new(),
            to: String::new(),
            changes: std::mem::take(&mut self.likes),
            unseen: Vec::new(),
            noted: NOTED_LIKES,
            now,
        };
        let settled = self.ledger.settle_likes(batch).await?;
        let settled = settled.ok_or_else(|| SeedError::Content("the ledger has settled likes already".into()))?;
        self.seeded.likes = settled.added.len();
        Ok(())
    }
}

/// The limits that the content was written for.
const LIMITS: LimitOptions =
    LimitOptions { text: 5_000, media: 9, topics: 10, data_bytes: 0, follows: 100, favourites: 0 };

fn count(comments: &[DemoComment]) -> usize {
    comments.iter().map(|comment| 1 + count(&comment.replies)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{CommentStore as _, PostStore as _, SqliteLedger, SqliteOptions, Thread, TimelineRange};

    const NOW: Millis = PostId::TIME_ZERO + 400 * 24 * HOUR;

    #[tokio::test]
    async fn the_demonstration_is_written_once_and_lies_in_the_past() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = SqliteLedger::open(SqliteOptions::new(folder.path().join("feedline.db"))).await.unwrap();
        let seeded = seed(&ledger, "hash", NOW).await.unwrap();
        let content = Content::load().unwrap();
        let comments: usize = content.posts.iter().map(|post| count(&post.comments)).sum();
        assert_eq!((seeded.people, seeded.posts), (content.people.len(), content.posts.len()));
        assert_eq!(seeded.comments, comments);
        assert!(seeded.follows > 300 && seeded.likes > 400, "{seeded:?}");

        let reader = user("mara").unwrap();
        let whole = TimelineRange { before: PostId::MAX, limit: 1_000, likely: PostId::ZERO };
        let posts = ledger.timeline_posts(&reader, whole).await.unwrap();
        assert_eq!(posts.len(), content.posts.len(), "the first person follows everyone");
        for post in posts {
            assert!(post.time() < NOW, "{post} is in the future");
            let thread = Thread { post, reply_to: None };
            for comment in ledger.comments_in(thread, CommentId::MAX, 100).await.unwrap() {
                assert!(post.time() < comment.created_at && comment.created_at < NOW, "{comment:?}");
            }
        }
        let again = seed(&ledger, "hash", NOW).await;
        assert!(matches!(again, Err(SeedError::NotEmpty(_))), "{again:?}");
    }
}
