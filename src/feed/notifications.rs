//! What people are notified of: who hears of what, how it is grouped, and how far it was read.
//!
//! Notices come from the queue of events (`events.rs`), and of likes from the settlers (`likes/notices.rs`): in both cases nobody
//! who writes waits for them. What a batch holds for one user is noted in one transaction and told once, however many liked the
//! same post meanwhile.
//!
//! Who may be heard of is asked when it happens and again when it is read or told: a post that cannot be seen any more,
//! or somebody muted since, takes the notification back. So the log of `notifications:<user>` holds ids.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::audience::Surface;
use super::input::OwnList;
use super::telling::Stage;
use super::{Caller, Feed, FeedError, Result, now};
use crate::broker::{Append, Keep};
use crate::ledger::{Group, Happening, Mark, Marked, Notified};
use crate::model::{Comment, CommentId, Entry, Millis, NotificationId, Object, Person, PostId, UserId, What};

/// How long a group grows, counted from the first that happened: "alice and 12 others" is a day's worth.
const WINDOW: Duration = Duration::from_secs(24 * 3600);

/// How many people of a group are shown.
const SHOWN: usize = 8;

/// Up to how many unread notifications are counted: who has more needs no number. It bounds what a look at the list costs.
const COUNTED: usize = 100;

/// How much of the log is kept, for readers that come back; who comes later reads the list.
const LIVE: Keep = Keep { size: 100, ttl: Duration::from_secs(14 * 24 * 3600) };

/// How many users' notices are looked at at once. Few: they wait for the same stores as posts and likes, and are the least urgent.
const AT_ONCE: usize = 4;

/// How many users' notices are noted in one call of the ledger: SQLite's writer has others to serve.
const NOTED_AT_ONCE: usize = 32;

/// How often more is read for a page of which the reader may not see enough. A page may be short then; its cursor goes on.
const READS: usize = 5;

/// What one user is to be notified of.
pub(super) struct Notice {
    pub(super) to: UserId,
    pub(super) what: What,
    pub(super) by: UserId,
    /// The number of the event that it comes from; 0: of none.
    pub(super) event: i64,
}

impl Notice {
    /// A notice that comes from no event.
    pub(super) fn new(to: &UserId, what: What, by: &UserId) -> Self {
        Self { to: to.clone(), what, by: by.clone(), event: 0 }
    }
}

/// What somebody was notified of.
#[derive(Serialize, JsonSchema)]
pub(super) struct Notification {
    /// Its id; it stays while more people do the same.
    id: NotificationId,
    /// What they did: `like`, `comment`, `reply`, `follow` or `mention`.
    kind: &'static str,
    /// What they did it with; absent of `follow`. Of `comment` the post, of `reply` the comment that was replied to.
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<About>,
    /// Who did it: the newest, at most 8.
    people: Vec<Person>,
    /// How many did it.
    count: u64,
    /// When the first did it, in Unix milliseconds.
    created_at: Millis,
    /// When the last did it, in Unix milliseconds.
    updated_at: Millis,
    /// Whether it was read.
    read: bool,
    /// Whether it was seen.
    seen: bool,
}

/// What a notification is about.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
enum About {
    /// A post.
    Post {
        /// Its id.
        id: PostId,
    },
    /// A comment.
    Comment {
        /// Its id.
        id: CommentId,
        /// The post that it is under.
        post: PostId,
    },
}

/// Notifications, as a page.
#[derive(Serialize, JsonSchema)]
pub(super) struct NotificationPage {
    /// What happened last is first.
    items: Vec<Notification>,
    #[serde(flatten)]
    left: Left,
    /// Where to go on; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// How many notifications are left.
#[derive(Clone, Copy, Serialize, JsonSchema)]
pub(super) struct Left {
    /// How many are not read; 100 stands for 100 or more.
    unread: usize,
    /// How many of those are not seen.
    unseen: usize,
}

/// How far somebody has come.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Marking {
    /// Up to this one, and it too; absent: all.
    #[serde(default)]
    id: Option<NotificationId>,
    /// They are seen, not read.
    #[serde(default)]
    seen: bool,
}

impl Feed {
    /// Notes and tells a batch: what concerns one user in order, several users at once. Nobody is notified of what they do
    /// themselves, nor of what they may not, or do not want to, see.
    ///
    /// # Errors
    /// The last that keeps something of it from being noted; the rest is noted all the same.
    pub(super) async fn note(&self, batch: Vec<Notice>) -> Result<()> {
        let mut by_user: HashMap<UserId, Vec<Notice>> = HashMap::new();
        for notice in batch.into_iter().filter(|notice| notice.to != notice.by) {
            by_user.entry(notice.to.clone()).or_default().push(notice);
        }
        if by_user.is_empty() {
            return Ok(());
        }
        let users: Vec<UserId> = by_user.keys().cloned().collect();
        // Whoever a text names need not exist.
        let known = self.ledger.users(&users).await?;
        let notices = known.into_iter().filter_map(|user| by_user.remove(&user.id).map(|notices| (user.id, notices)));
        let wanted = stream::iter(notices)
            .map(|(user, notices)| async move {
                let happenings = self.wanted(&user, notices).await?;
                Ok(Notified { to: user, happenings })
            })
            .buffer_unordered(AT_ONCE);
        let (mut failed, mut wanted) = (None, std::pin::pin!(wanted));
        let mut ready = Vec::new();
        loop {
            let next = wanted.next().await;
            let ended = next.is_none();
            match next {
                Some(Ok(notified)) if notified.happenings.is_empty() => {}
                Some(Ok(notified)) => ready.push(notified),
                Some(Err(error)) => failed = Some(error),
                None => {}
            }
            if ready.len() >= NOTED_AT_ONCE || (ended && !ready.is_empty()) {
                failed = self.note_for(&std::mem::take(&mut ready)).await.err().or(failed);
            }
            if ended {
                return failed.map_or(Ok(()), Err);
            }
        }
    }

    /// Those of a user's notices that the user may, and wants to, hear of.
    async fn wanted(&self, user: &UserId, notices: Vec<Notice>) -> Result<Vec<Happening>> {
        let about = self.about(user, notices.iter().filter_map(|notice| notice.what.object())).await?;
        let people: HashSet<UserId> = notices.iter().map(|notice| notice.by.clone()).collect();
        let people = self.people_seen_by(Some(user), Surface::Brought, people).await?;
        let now = now();
        let wanted = |notice: &Notice| {
            people.contains(&notice.by) && notice.what.object().is_none_or(|object| about.contains_key(&object))
        };
        let happening = |notice: Notice| {
            let Notice { what, by, event, .. } = notice;
            Ok(Happening { id: NotificationId(self.ids.next(now)?.0), what, by, event })
        };
        notices.into_iter().filter(wanted).map(happening).collect()
    }

    async fn note_for(&self, batch: &[Notified]) -> Result<()> {
        let window = u64::try_from(WINDOW.as_millis()).unwrap_or(u64::MAX);
        let mut untold = None;
        for (user, groups) in self.ledger.notify_many(batch, now(), window).await? {
            for group in groups {
                untold = self.tell_owner(&user, &Entry::Notified(group.id)).await.err().or(untold);
            }
        }
        // They are in the list. While the broker is away others are noted all the same.
        if let Some(error) = untold {
            tracing::warn!(%error, "notifications are noted, some of their owners are not told now");
        }
        Ok(())
    }

    /// Tells a user that a notification changed, or went.
    ///
    /// # Errors
    /// If the broker cannot be reached.
    pub(super) async fn tell_notification(&self, owner: &UserId, id: NotificationId) -> Result<()> {
        self.tell_owner(owner, &Entry::Notified(id)).await
    }

    async fn tell_owner(&self, user: &UserId, entry: &Entry) -> Result<()> {
        let channel = format!("notifications:{user}");
        let append = Append { channel: &channel, entry, keep: LIVE, idempotency_key: None, version: None };
        self.broker.append(append).await?;
        Ok(())
    }

    /// The publication members of those notifications among log entries of which there is still something to say, as they
    /// are now.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn notifications_told(
        &self,
        entries: &[(&Stage, &Entry)],
    ) -> Result<HashMap<NotificationId, Bytes>> {
        let mut by_user: HashMap<UserId, HashSet<NotificationId>> = HashMap::new();
        for (stage, entry) in entries {
            if let (Stage::Notifications(user), Entry::Notified(id)) = (stage, entry) {
                by_user.entry(user.clone()).or_default().insert(*id);
            }
        }
        #[derive(Serialize)]
        struct Told<'a> {
            r#type: &'static str,
            notification: &'a Notification,
        }
        let told = stream::iter(by_user).map(|(user, ids)| async move {
            let ids: Vec<NotificationId> = ids.into_iter().collect();
            let groups = self.ledger.notifications_by_id(&user, &ids).await?;
            let visible = self.visible(&user, groups).await?;
            let members =
                |one: &Notification| Ok((one.id, members(&Told { r#type: "notification", notification: one })?));
            self.named(visible).await?.iter().map(members).collect::<Result<Vec<_>>>()
        });
        let told: Vec<Vec<_>> = told.buffer_unordered(AT_ONCE).try_collect().await?;
        Ok(told.into_iter().flatten().collect())
    }

    pub(super) async fn list_notifications(&self, caller: Caller, list: OwnList) -> Result<NotificationPage> {
        let user = caller.user()?;
        let (limit, mut before) = (list.limit()?, list.cursor()?);
        let (mut seen, mut at_the_end): (Vec<Visible>, bool) = (Vec::with_capacity(limit + 1), false);
        // One more than asked for tells whether there is a next page.
        let mut chunk = limit + 1;
        for _ in 0..READS {
            let groups = self.ledger.notifications(user, before, chunk).await?;
            at_the_end = groups.len() < chunk;
            chunk *= 2;
            before = groups.last().map(|group| group.seq).or(before);
            seen.extend(self.visible(user, groups).await?);
            if at_the_end || seen.len() > limit {
                break;
            }
        }
        let next = if seen.len() > limit {
            seen.truncate(limit);
            seen.last().map(|last| last.group.seq)
        } else {
            before.filter(|_| !at_the_end)
        };
        let left = self.left(user).await?;
        Ok(NotificationPage { items: self.named(seen).await?, left, next: next.map(|seq| format!("e{seq}")) })
    }

    pub(super) async fn mark_notifications(&self, caller: Caller, marking: Marking) -> Result<Left> {
        let user = caller.user()?;
        let mark = if marking.seen { Mark::Seen } else { Mark::Read };
        let marked = self.ledger.mark_notifications(user, marking.id, mark).await?;
        if marked == Marked::Nothing {
            return Err(FeedError::NotFound("no such notification"));
        }
        let left = self.left(user).await?;
        if marked == Marked::Anew {
            #[derive(Serialize)]
            struct Told {
                r#type: &'static str,
                #[serde(skip_serializing_if = "Option::is_none")]
                id: Option<NotificationId>,
                seen: bool,
                #[serde(flatten)]
                left: Left,
            }
            let told = Told { r#type: "notifications.read", id: marking.id, seen: marking.seen, left };
            if let Err(error) = self.tell_owner(user, &Entry::Data(members(&told)?)).await {
                tracing::warn!(%error, %user, "notifications are marked, the user's other sockets are not told");
            }
        }
        Ok(left)
    }

    async fn left(&self, user: &UserId) -> Result<Left> {
        let unread = self.ledger.unread_notifications(user, COUNTED).await?;
        let unread = self.visible(user, unread).await?;
        let unseen = unread.iter().filter(|visible| !visible.group.seen).count();
        Ok(Left { unread: unread.len(), unseen })
    }

    /// Those of a user's groups that still have something to show, without those people whom the user may not, or does not
    /// want to, hear of. However many groups there are, it takes the same number of round trips.
    async fn visible(&self, user: &UserId, groups: Vec<Group>) -> Result<Vec<Visible>> {
        if groups.is_empty() {
            return Ok(Vec::new());
        }
        let about = self.about(user, groups.iter().filter_map(|group| group.what.object())).await?;
        let people: HashSet<UserId> = groups.iter().flat_map(|group| group.people.iter().cloned()).collect();
        let people = self.people_seen_by(Some(user), Surface::Brought, people).await?;
        let visible = |mut group: Group| {
            let about = match group.what.object() {
                Some(object) => Some(*about.get(&object)?),
                None => None,
            };
            let told = group.people.len();
            group.people.retain(|person| people.contains(person));
            let hidden = told - group.people.len();
            group.count = group.count.saturating_sub(hidden as u64);
            group.people.truncate(SHOWN);
            (!group.people.is_empty()).then_some(Visible { group, about })
        };
        Ok(groups.into_iter().filter_map(visible).collect())
    }

    /// Groups of a user as the user may see them.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn notifications_of(&self, user: &UserId, groups: Vec<Group>) -> Result<Vec<Notification>> {
        let visible = self.visible(user, groups).await?;
        self.named(visible).await
    }

    async fn named(&self, visible: Vec<Visible>) -> Result<Vec<Notification>> {
        let people = self.people(visible.iter().flat_map(|visible| &visible.group.people)).await?;
        Ok(visible.into_iter().map(|visible| visible.named(&people)).collect())
    }

    /// Those of `objects` that are there and that the user may see, comments with all that is above them. A mute takes nothing
    /// away here: it concerns who did something, not where.
    async fn about(
        &self,
        user: &UserId,
        objects: impl Iterator<Item = Object> + Send,
    ) -> Result<HashMap<Object, About>> {
        let objects: HashSet<Object> = objects.collect();
        let ids: Vec<CommentId> = objects.iter().filter_map(|object| comment(*object)).collect();
        let comments = if ids.is_empty() { Vec::new() } else { self.ledger.comments(&ids).await? };
        let lines = self.lines_of(comments.iter().map(|comment| comment.parent)).await?;
        let above: HashSet<UserId> = lines.values().flatten().cloned().collect();
        let seen = self.people_seen_by(Some(user), Surface::Direct, above).await?;
        let line = |comment: &Comment| comment.parent.and_then(|parent| lines.get(&parent)).into_iter().flatten();
        let is_seen = |comment: &Comment| line(comment).all(|author| seen.contains(author));
        let there = comments.iter().filter(|comment| comment.author.is_some() && is_seen(comment));
        let post_of: HashMap<CommentId, PostId> = there.map(|comment| (comment.id, comment.post)).collect();
        let about = |object: Object| match object {
            Object::Post(id) => Some(About::Post { id }),
            Object::Comment(id) => post_of.get(&id).map(|post| About::Comment { id, post: *post }),
        };
        let about: HashMap<Object, About> =
            objects.into_iter().filter_map(|object| Some((object, about(object)?))).collect();
        let posts: HashSet<PostId> = about.values().map(|about| about.post()).collect();
        let posts = self.seen_by(Some(user), Surface::Direct, posts).await?;
        Ok(about.into_iter().filter(|(_, about)| posts.contains_key(&about.post())).collect())
    }
}

/// The members of a publication that says this.
fn members<T: Serialize>(data: &T) -> Result<Bytes> {
    let data = serde_json::to_string(data).map_err(|error| {
        tracing::error!(%error, "a notification could not be encoded");
        FeedError::Internal
    })?;
    Ok(format!(r#""data":{data}"#).into())
}

/// What is told of a notification that has nothing to show any more.
pub(super) fn taken_back(id: NotificationId) -> Bytes {
    format!(r#""data":{{"type":"notification.gone","id":{id}}}"#).into()
}

fn comment(object: Object) -> Option<CommentId> {
    match object {
        Object::Comment(id) => Some(id),
        Object::Post(_) => None,
    }
}

impl About {
    fn post(self) -> PostId {
        match self {
            Self::Post { id } => id,
            Self::Comment { post, .. } => post,
        }
    }
}

/// A group with the people whom its owner may hear of, and what it is about.
struct Visible {
    group: Group,
    about: Option<About>,
}

impl Visible {
    fn named(self, people: &BTreeMap<String, Person>) -> Notification {
        let Self { group, about } = self;
        Notification {
            id: group.id,
            kind: group.what.kind(),
            object: about,
            people: group.people.iter().filter_map(|person| people.get(person.as_str()).cloned()).collect(),
            count: group.count,
            created_at: group.created_at,
            updated_at: group.updated_at,
            read: group.read,
            seen: group.seen,
        }
    }
}
