//! Writes the demonstration to an empty ledger.
//!
//! It is written past the operations, because posts, comments and likes are of different ages, while operations happen
//! now. Inboxes are not written: a timeline that is read for the first time is built from the ledger.

use std::collections::HashSet;

use super::content::{Content, DemoComment, DemoPost};
use super::notices::Notices;
use crate::feed::{Draft, LimitsConfig, mentioned};
use crate::ledger::{CommentOutcome, Ledger, LedgerError, LikeBatch, NewAccount, ProfileChange};
use crate::model::{
    Comment, CommentId, ContentId, LikeChange, Media, MediaKind, Millis, NotificationKind, ObjectId, ObjectType, Post,
    PostId, UserId, Visibility,
};

const HOUR: Millis = 3_600_000;
/// The age of the accounts.
const ACCOUNT_AGE: Millis = 90 * 24 * HOUR;
/// Likes of one object that notify its author.
const NOTED_LIKES: usize = 5;
/// The first person follows everyone but these, so that there is somebody to suggest.
pub(super) const NOT_FOLLOWED: [&str; 6] = ["elif", "ben", "anouk", "marek", "hugo", "ruth"];
/// The maximal number of favourites of a user.
const MAX_FAVOURITES: u64 = 1_000;
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
    let people = content.people.iter().map(|(id, ..)| user(id)).collect::<Result<Vec<UserId>, _>>()?;
    refuse_unless_empty(ledger).await?;
    let mut seeder = Seeder {
        ledger,
        people,
        seeded: Seeded::default(),
        times: HashSet::new(),
        likes: Vec::new(),
        notices: Notices::default(),
    };
    seeder.people(&content, password, now).await?;
    seeder.follows(now).await?;
    for (number, post) in content.posts.iter().enumerate().rev() {
        seeder.post(number, post, now).await?;
    }
    seeder.settle(now).await?;
    seeder.notices.write(ledger, now).await?;
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

/// A thread that is being written.
struct DemoThread {
    post: PostId,
    author: UserId,
    now: Millis,
    /// The people who can see the post.
    readers: Vec<UserId>,
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
    notices: Notices,
}

impl Seeder<'_> {
    async fn people(&mut self, content: &Content, password: &str, now: Millis) -> Result<(), SeedError> {
        for (user, (_, name, bio)) in self.people.iter().zip(&content.people) {
            let account = NewAccount {
                user: user.clone(),
                name: name.clone(),
                password: password.to_owned(),
                created_at: now.saturating_sub(ACCOUNT_AGE),
            };
            self.seeded.people += usize::from(self.ledger.create_account(account).await?);
            let change = ProfileChange { bio: Some(Some(bio.clone())), ..ProfileChange::default() };
            self.ledger.update_user(user, &change).await?;
        }
        Ok(())
    }

    async fn follows(&mut self, now: Millis) -> Result<(), SeedError> {
        let places = 0..self.people.len();
        let pairs = places.clone().flat_map(|i| places.clone().map(move |j| (i, j)));
        let edges: Vec<(usize, usize)> = pairs.filter(|(i, j)| self.is_following(*i, *j)).collect();
        for (i, j) in edges {
            // Spread over the age of the accounts, the last one some hours ago.
            let age = 2 * HOUR + (ACCOUNT_AGE - 2 * HOUR) / 100 * ((i * 31 + j * 17) % 100) as Millis;
            let at = self.time(now.saturating_sub(age));
            let follower = self.people[i].clone();
            let followee = self.people[j].clone();
            self.ledger.follow(&follower, &followee, at, u64::MAX).await?;
            self.note(&followee, at, NotificationKind::Follow, &follower);
            self.seeded.follows += 1;
        }
        Ok(())
    }

    /// Whether one person follows another, by their places. The command proposes the first account, so it follows most.
    fn is_following(&self, i: usize, j: usize) -> bool {
        let is_chosen = if i == 0 {
            !NOT_FOLLOWED.contains(&self.people[j].as_str())
        } else {
            (i * 7 + j * 5 + i * j) % 12 < FOLLOWED_TWELFTHS
        };
        i != j && is_chosen
    }

    /// Whether a person can see a post.
    fn can_see(&self, reader: &UserId, post: &Post) -> bool {
        let place = |user: &UserId| self.people.iter().position(|person| person == user);
        let (Some(i), Some(j)) = (place(reader), place(&post.author)) else { return false };
        let follows = self.is_following(i, j);
        i == j
            || match &post.visibility {
                Visibility::Public => true,
                Visibility::Followers => follows,
                Visibility::Friends => follows && self.is_following(j, i),
                Visibility::OnlyTo(named) => follows && named.contains(reader),
                Visibility::NotTo(named) => !named.contains(reader),
            }
    }

    /// Adds a notification.
    fn note(&mut self, to: &UserId, at: Millis, kind: NotificationKind, by: &UserId) {
        let at = self.time(at);
        self.notices.add(to, at, kind, by);
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
        let id = PostId::from_parts(self.time(now.saturating_sub(age)), PostId::IMPORT_NODE, 0);
        let media = written.picture.iter().map(|name| Media {
            kind: MediaKind::Image,
            url: format!("/demo/{name}.svg"),
            width: Some(1_200),
            height: Some(800),
            alt: written.alt.clone(),
        });
        let visibility = written.visibility.clone();
        let draft = Draft { text: written.text.clone(), media: media.collect(), visibility, ..Draft::default() };
        let post =
            draft.into_post(&user(&written.by)?, id, &LIMITS).map_err(|error| SeedError::Content(error.to_string()))?;
        self.ledger.create_post(&post, None).await?;
        self.seeded.posts += 1;
        self.favourites(&post, written, now).await?;
        let readers: Vec<UserId> = self.people.iter().filter(|person| self.can_see(person, &post)).cloned().collect();
        for person in post.mentions.iter().filter(|person| readers.contains(person)) {
            self.note(person, id.time(), NotificationKind::Mention(ContentId::Post(id)), &post.author);
        }
        self.like(ContentId::Post(id), &readers, &post.author, 3 + (number * 11) % 19, now);
        // The thread fills the first third of the time since.
        let comments = count(&written.comments).max(1) as Millis;
        let step = age / 3 / comments;
        let mut thread = DemoThread { post: id, author: post.author, now, readers, last: id.time(), step };
        self.thread(&mut thread, None, &written.comments).await
    }

    async fn favourites(&mut self, post: &Post, written: &DemoPost, now: Millis) -> Result<(), SeedError> {
        let wrong = || SeedError::Content("posts can be favourites".into());
        let kind = ObjectType::parse(ObjectType::POST).ok_or_else(wrong)?;
        let object = ObjectId::parse(&post.id.to_string()).ok_or_else(wrong)?;
        for person in &written.favourites {
            let at = post.created_at + (now - post.created_at) / 2;
            self.ledger.add_favourite(&user(person)?, &kind, &object, at, MAX_FAVOURITES, false).await?;
        }
        Ok(())
    }

    async fn thread(
        &mut self,
        thread: &mut DemoThread,
        reply_to: Option<(CommentId, &UserId)>,
        comments: &[DemoComment],
    ) -> Result<(), SeedError> {
        for written in comments {
            thread.last = self.time(thread.last + thread.step);
            let id = CommentId(PostId::from_parts(thread.last, PostId::IMPORT_NODE, 0).0);
            let author = user(&written.by)?;
            let comment = Comment {
                id,
                post: thread.post,
                reply_to: reply_to.map(|(comment, _)| comment),
                author: Some(author.clone()),
                text: Some(written.text.clone()),
                mentions: mentioned(&written.text),
                created_at: id.time(),
                likes: 0,
                replies: 0,
                edited_at: None,
                liked: None,
                filtered: Vec::new(),
                removed: None,
            };
            match self.ledger.create_comment(&comment).await? {
                CommentOutcome::Stored(_) => self.seeded.comments += 1,
                other => return Err(SeedError::Content(format!("{}: {other:?}", written.text))),
            }
            self.note_comment(thread, reply_to, &comment, &author);
            self.like(ContentId::Comment(id), &thread.readers, &author, written.text.len() % 4, thread.now);
            Box::pin(self.thread(thread, Some((id, &author)), &written.replies)).await?;
        }
        Ok(())
    }

    /// Notifies the user that is replied to, the author of the post and the mentioned users, each once.
    fn note_comment(
        &mut self,
        thread: &DemoThread,
        reply_to: Option<(CommentId, &UserId)>,
        comment: &Comment,
        by: &UserId,
    ) {
        let reply = reply_to.map(|(above, to)| (to, NotificationKind::Reply(above)));
        let on_post = (&thread.author, NotificationKind::Comment(thread.post));
        let mention = NotificationKind::Mention(ContentId::Comment(comment.id));
        let mentions = comment.mentions.iter().filter(|person| thread.readers.contains(person));
        let mut notified = HashSet::new();
        for (to, kind) in reply.into_iter().chain([on_post]).chain(mentions.map(|person| (person, mention))) {
            if notified.insert(to) {
                self.note(to, comment.created_at, kind, by);
            }
        }
    }

    /// Up to `many` of `readers` like an object of `author`, in the first half of the time since.
    fn like(&mut self, object: ContentId, readers: &[UserId], author: &UserId, many: usize, now: Millis) {
        let created_at = PostId(object.number()).time();
        let step = (now - created_at) / 2 / (many.max(1) as Millis);
        let start = object.number() as usize >> (PostId::NODE_BITS + PostId::SEQUENCE_BITS);
        let people = (0..readers.len()).map(|step| &readers[(start + step * 5) % readers.len()]);
        let mut liked = HashSet::new();
        let likers = people.filter(|user| *user != author && liked.insert(*user)).take(many);
        for (nth, user) in likers.enumerate() {
            let at = self.time(created_at + 1 + step * nth as Millis);
            if nth < NOTED_LIKES {
                self.note(author, at, NotificationKind::Like(object), user);
            }
            self.likes.push(LikeChange { user: user.clone(), object, liked: true, at });
        }
    }

    /// Settles the likes as one batch. The position of the queue stays at its beginning.
    async fn settle(&mut self, now: Millis) -> Result<(), SeedError> {
        let batch = LikeBatch {
            partition: 0,
            from: String::new(),
            to: String::new(),
            changes: std::mem::take(&mut self.likes),
            // Their notifications are written here.
            noted: 0,
            now,
            ..LikeBatch::default()
        };
        let settled = self.ledger.settle_likes(batch).await?;
        let settled = settled.ok_or_else(|| SeedError::Content("the ledger has settled likes already".into()))?;
        self.seeded.likes = settled.added.len();
        Ok(())
    }
}

/// The limits that the content was written for.
const LIMITS: LimitsConfig =
    LimitsConfig { text: 5_000, media: 9, topics: 10, data_bytes: 0, follows: 100, favourites: 0 };

fn count(comments: &[DemoComment]) -> usize {
    comments.iter().map(|comment| 1 + count(&comment.replies)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{
        CommentStore as _, EventConsumer, EventStore as _, FavouriteStore as _, NotificationStore as _,
        PeopleStore as _, PostStore as _, SqliteLedger, SqliteOptions, SuggestionLimits, Thread, TimelineRange,
    };

    const NOW: Millis = PostId::TIME_ZERO + 400 * 24 * HOUR;

    #[tokio::test]
    async fn the_demonstration_is_written_once_and_lies_in_the_past() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = SqliteLedger::open(SqliteOptions::new(folder.path().join("feedline.db"))).await.unwrap();
        let started = std::time::Instant::now();
        let seeded = seed(&ledger, "hash", NOW).await.unwrap();
        let content = Content::load().unwrap();
        let comments: usize = content.posts.iter().map(|post| count(&post.comments)).sum();
        assert_eq!((seeded.people, seeded.posts), (content.people.len(), content.posts.len()));
        assert_eq!(seeded.comments, comments);
        assert!(seeded.follows > 300 && seeded.likes > 400, "{seeded:?}");
        assert!(started.elapsed() < std::time::Duration::from_secs(10), "{:?}", started.elapsed());

        let reader = user("mara").unwrap();
        let whole = TimelineRange { before: PostId::MAX, limit: 1_000, likely: PostId::ZERO };
        let posts = ledger.timeline_posts(&reader, whole).await.unwrap();
        let followed = content.posts.iter().filter(|post| !NOT_FOLLOWED.contains(&&*post.by)).count();
        assert_eq!(posts.len(), followed, "the first person follows nearly everyone");
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

    #[tokio::test]
    async fn the_demonstration_has_something_in_every_view() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = SqliteLedger::open(SqliteOptions::new(folder.path().join("feedline.db"))).await.unwrap();
        seed(&ledger, "hash", NOW).await.unwrap();
        let mara = user("mara").unwrap();
        let limits = SuggestionLimits { followees: 100, each: 100, people: 9 };
        let suggested = ledger.second_degree(&mara, limits).await.unwrap();
        assert!(suggested.len() >= 4, "{}", suggested.len());
        let post = ObjectType::parse(ObjectType::POST).unwrap();
        assert!(ledger.favourites_count(&mara, &post).await.unwrap() >= 5);
        for (id, ..) in Content::load().unwrap().people {
            let profile = ledger.profile(&user(&id).unwrap(), None, 0).await.unwrap().unwrap();
            assert!(profile.about.bio.is_some(), "{id}");
        }
        let content = Content::load().unwrap();
        for kind in ["followers", "friends", "only_to", "not_to"] {
            let of = |post: &DemoPost| serde_json::to_string(&post.visibility).unwrap().contains(kind);
            assert!(content.posts.iter().any(of), "{kind}");
        }

        let groups = ledger.notifications(&mara, None, 100).await.unwrap();
        let kinds: HashSet<&str> = groups.iter().map(|group| group.kind.name()).collect();
        assert_eq!(kinds, HashSet::from(["like", "comment", "reply", "follow", "mention"]));
        let days: HashSet<Millis> = groups.iter().map(|group| group.updated_at / (24 * HOUR)).collect();
        assert!(days.len() >= 4, "spread over days: {days:?}");
        assert!(
            groups.is_sorted_by(|newer, older| newer.updated_at >= older.updated_at),
            "in the order of their times"
        );
        assert!(groups.iter().all(|group| group.updated_at < NOW));
        let unread = groups.iter().filter(|group| !group.read).count();
        assert!((1..15).contains(&unread), "{unread} are unread");
        for consumer in [EventConsumer::Notifications, EventConsumer::Likes] {
            assert_eq!(ledger.event_backlog(consumer).await.unwrap().events, 0, "nobody is notified twice");
        }
    }
}
