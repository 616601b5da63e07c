//! Puts log entries into words, for those who may hear them.
//!
//! Logs hold ids. What an entry says, and to whom, is decided when it is told: bodies, relations and visibility are those
//! of that moment. In a timeline every entry is told, so that a reader who counts offsets misses none: what is not to be
//! seen is told as gone. On a channel that many read, who may not hear an entry hears nothing.

use std::collections::hash_map::Entry::Vacant;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::audience::{Eye, Surface};
use super::bodies::gone;
use super::notifications::taken_back;
use super::relations::Between;
use super::{Body, Feed, Result};
use crate::broker::CACHE_LEASE;
use crate::model::{Entry, GoneReason, Left, NotificationId, PostCounts, PostId, UserId, Visibility};

/// Where entries are told: what decides who may hear them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Somebody's timeline: theirs alone.
    Timeline(UserId),
    /// An author's profile.
    Profile,
    /// A topic's plaza.
    Topic(Arc<str>),
    /// Under a post.
    Post(PostId),
    /// What somebody is notified of: theirs alone.
    Notifications(UserId),
    /// Where whoever is there hears everything: application data.
    Plain,
}

impl Stage {
    /// Who alone is there.
    fn owner(&self) -> Option<&UserId> {
        match self {
            Self::Timeline(owner) => Some(owner),
            _ => None,
        }
    }
}

/// Who hears.
#[derive(Clone, Copy, Debug)]
pub enum Viewer<'a> {
    /// The application's backend, which hears everything.
    Backend,
    /// A client's user; `None` of an anonymous one.
    Client(Option<&'a UserId>),
}

/// All that it takes to tell some entries.
#[derive(Debug)]
pub struct Words {
    bodies: HashMap<PostId, Arc<Body>>,
    /// What shows a post: the publication's members by post and kind, encoded once however many hear them.
    shown: Encoded,
    /// The same for the author's own timeline, where that is not the same.
    whole: Encoded,
    /// Those notifications that there is still something to say of.
    notified: HashMap<NotificationId, Bytes>,
    /// Authors whose posts are not for everyone alike.
    barred: HashSet<UserId>,
    between: Between,
    /// Those who did something in these entries and were erased since.
    erased: HashSet<UserId>,
    /// How often something had been invalidated here, and when that was; see [`Feed::is_current`].
    invalidations: u64,
    since: Instant,
}

/// What an entry says on its stage, and to whom.
#[derive(Debug)]
pub struct Told<'a> {
    /// The publication's members.
    pub members: Bytes,
    /// Whether everybody there may hear it.
    pub is_open: bool,
    surface: Surface,
    /// All of them must be so of a reader.
    conditions: Vec<Condition<'a>>,
}

/// Something that a reader must, or must not, be able to see.
#[derive(Clone, Copy, Debug)]
struct Condition<'a> {
    author: &'a UserId,
    /// Of a post of the author's; `None`: of anything that the author did.
    visibility: Option<&'a Visibility>,
    must_see: bool,
}

impl<'a> Condition<'a> {
    fn sees(body: &'a Body) -> Self {
        Self { author: &body.post.author, visibility: Some(&body.post.visibility), must_see: true }
    }
}

impl Told<'_> {
    /// Whose relations to a reader decide.
    pub fn authors(&self) -> impl Iterator<Item = &UserId> {
        self.conditions.iter().map(|condition| condition.author)
    }
}

impl Words {
    /// What an entry says; `None`: nothing to anybody.
    pub fn told<'a>(&'a self, stage: &Stage, entry: &'a Entry) -> Option<Told<'a>> {
        let members = self.members(stage, entry)?;
        let surface = if matches!(stage, Stage::Topic(_)) { Surface::Brought } else { Surface::Direct };
        let conditions = match stage {
            Stage::Plain | Stage::Timeline(_) | Stage::Notifications(_) => Vec::new(),
            Stage::Profile | Stage::Topic(_) | Stage::Post(_) => self.conditions(stage, entry)?,
        };
        let is_open = conditions.iter().all(|it| {
            it.must_see && it.visibility.is_none_or(|it| *it == Visibility::Public) && !self.barred.contains(it.author)
        });
        Some(Told { members, is_open, surface, conditions })
    }

    fn members(&self, stage: &Stage, entry: &Entry) -> Option<Bytes> {
        match entry {
            Entry::Data(members) | Entry::By(_, members) => Some(members.clone()),
            Entry::Notified(id) => Some(self.notified.get(id).cloned().unwrap_or_else(|| taken_back(*id))),
            Entry::Gone(id, reason) => Some(gone(*id, *reason)),
            Entry::Left(left) => Some(gone(left.post, left.reason)),
            Entry::Post(id) | Entry::Edited(id) => match (self.bodies.get(id), stage) {
                (None, Stage::Timeline(_)) => Some(gone(*id, GoneReason::Deleted)),
                (None, _) => None,
                (Some(body), Stage::Timeline(reader)) if !self.is_seen_in_timeline(body, reader) => {
                    Some(gone(*id, GoneReason::Hidden))
                }
                (Some(body), _) => {
                    let key = (*id, kind(entry)?);
                    let own = self.whole.get(&key).filter(|_| stage.owner() == Some(&body.post.author));
                    own.or_else(|| self.shown.get(&key)).cloned()
                }
            },
        }
    }

    /// The reader and the author, if an entry is of a post that its reader does not see.
    fn hidden(&self, stage: &Stage, entry: &Entry) -> Option<(UserId, UserId)> {
        let reader = stage.owner()?;
        kind(entry)?;
        let body = self.bodies.get(&entry.post()?).filter(|body| !self.is_seen_in_timeline(body, reader))?;
        Some((reader.clone(), body.post.author.clone()))
    }

    fn is_seen_in_timeline(&self, body: &Body, reader: &UserId) -> bool {
        let author = &body.post.author;
        let relation = self.between.get(reader, author).unwrap_or_default();
        Eye { reader: Some(reader), relation, surface: Surface::Timeline }.sees(author, &body.post.visibility)
    }

    /// What must be so of those who hear an entry on a channel that many read.
    fn conditions<'a>(&'a self, stage: &Stage, entry: &'a Entry) -> Option<Vec<Condition<'a>>> {
        let mut conditions = Vec::new();
        // What happens under a post is for those who may see the post.
        if let (Stage::Post(id), Entry::Data(_) | Entry::By(..)) = (stage, entry) {
            conditions.push(Condition::sees(self.bodies.get(id)?));
        }
        match entry {
            Entry::Data(_) | Entry::Gone(..) | Entry::Notified(_) => {}
            Entry::By(people, _) if people.iter().any(|person| self.erased.contains(person)) => return None,
            Entry::By(people, _) => {
                // Between readers and the others there is nothing.
                let barred = people.iter().filter(|person| self.barred.contains(*person));
                conditions.extend(barred.map(|author| Condition { author, visibility: None, must_see: true }));
            }
            Entry::Post(id) | Entry::Edited(id) => conditions.push(Condition::sees(self.bodies.get(id)?)),
            Entry::Left(left) => {
                let Left { author, visibility, .. } = &**left;
                conditions.push(Condition { author, visibility: Some(visibility), must_see: true });
                // It stays for those who may see it still, unless it is not in the topic any more.
                let stays = |body: &&Arc<Body>| match stage {
                    Stage::Topic(name) => body.post.topics.iter().any(|topic| **topic == **name),
                    _ => true,
                };
                if let Some(body) = self.bodies.get(&left.post).filter(stays) {
                    conditions.push(Condition { must_see: false, ..Condition::sees(body) });
                }
            }
        }
        Some(conditions)
    }

    /// Whether a reader (`None`: somebody anonymous) may hear it. `None` if the reader's relations were not asked for.
    pub fn hears(&self, told: &Told<'_>, reader: Option<&UserId>) -> Option<bool> {
        for condition in &told.conditions {
            let Condition { author, visibility, must_see } = *condition;
            let relation = match reader {
                Some(reader) if reader != author => self.between.get(reader, author)?,
                _ => crate::model::Relation::default(),
            };
            let eye = Eye { reader, relation, surface: told.surface };
            let sees = visibility.map_or_else(|| eye.sees_person(author), |visibility| eye.sees(author, visibility));
            if sees != must_see {
                return Some(false);
            }
        }
        Some(true)
    }
}

impl Feed {
    /// All that it takes to tell these entries where everybody may hear them, and in timelines. For the others readers'
    /// relations are needed, see [`acquaint`](Self::acquaint).
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub async fn words(&self, entries: &[(&Stage, &Entry)]) -> Result<Words> {
        let (invalidations, since) = (self.lease.invalidations(), Instant::now());
        let shown: HashSet<PostId> =
            entries.iter().filter(|(_, it)| kind(it).is_some()).filter_map(|(_, it)| it.post()).collect();
        let shown: Vec<PostId> = shown.into_iter().collect();
        let bodies = self.bodies.get(entries.iter().flat_map(|(stage, entry)| posts(stage, entry)));
        let (bodies, counts) = tokio::try_join!(bodies, self.bodies.counts(&shown))?;
        let (shown, whole) = encode(entries, &bodies, &counts)?;
        let (mut authors, mut pairs) = (HashSet::new(), HashSet::new());
        for (stage, entry) in entries {
            let theirs = posts(stage, entry).filter_map(|id| bodies.get(&id)).map(|body| body.post.author.clone());
            match stage {
                Stage::Plain | Stage::Notifications(_) => {}
                Stage::Timeline(reader) => {
                    pairs.extend(theirs.filter(|author| author != reader).map(|author| (reader.clone(), author)));
                }
                Stage::Profile | Stage::Topic(_) | Stage::Post(_) => {
                    authors.extend(theirs);
                    match entry {
                        Entry::By(people, _) => authors.extend(people.iter().cloned()),
                        Entry::Left(left) => drop(authors.insert(left.author.clone())),
                        _ => {}
                    }
                }
            }
        }
        let barred = self.relations.barred(authors).await?;
        let between = self.relations.get(pairs).await?;
        let notified = self.notifications_told(entries).await?;
        let doers =
            entries.iter().filter_map(|(_, entry)| if let Entry::By(people, _) = entry { Some(people) } else { None });
        let erased = doers.flatten().filter(|person| self.is_erased(person)).cloned().collect();
        let mut words = Words { bodies, shown, whole, notified, barred, between, erased, invalidations, since };
        let hidden: HashSet<_> = entries.iter().filter_map(|(stage, entry)| words.hidden(stage, entry)).collect();
        if !hidden.is_empty() {
            words.between.extend(self.relations.fresh(hidden).await?);
        }
        Ok(words)
    }

    /// Adds what is between readers and authors.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub async fn acquaint(&self, words: &mut Words, pairs: HashSet<(UserId, UserId)>) -> Result<()> {
        if !pairs.is_empty() {
            words.between.extend(self.relations.get(pairs).await?);
        }
        Ok(())
    }

    /// Whether nothing has changed since, as far as this node knows: no post, and nothing between people. After a pause it
    /// does not know.
    pub fn is_current(&self, words: &Words) -> bool {
        let knows = self.lease.is_held() || words.since.elapsed() < CACHE_LEASE;
        knows && self.lease.invalidations() == words.invalidations
    }

    /// The publication members of log entries, in their order: `None` of what is not for this viewer.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub async fn publications(
        &self,
        stage: &Stage,
        viewer: Viewer<'_>,
        entries: &[Entry],
    ) -> Result<Vec<Option<Bytes>>> {
        let staged: Vec<_> = entries.iter().map(|entry| (stage, entry)).collect();
        let mut words = self.words(&staged).await?;
        if let Viewer::Client(Some(reader)) = viewer {
            let told = entries.iter().filter_map(|entry| words.told(stage, entry)).filter(|told| !told.is_open);
            let authors: HashSet<UserId> = told.flat_map(|told| told.authors().cloned().collect::<Vec<_>>()).collect();
            let pairs = authors.into_iter().map(|author| (reader.clone(), author)).collect();
            self.acquaint(&mut words, pairs).await?;
        }
        let publication = |entry| {
            let told = words.told(stage, entry)?;
            let hears = match viewer {
                Viewer::Backend => true,
                Viewer::Client(reader) => told.is_open || words.hears(&told, reader) == Some(true),
            };
            hears.then_some(told.members)
        };
        Ok(entries.iter().map(publication).collect())
    }
}

/// Publication members by post and kind.
type Encoded = HashMap<(PostId, &'static str), Bytes>;

/// Encodes what shows the posts of these entries: to everyone alike, and to their authors where that differs.
fn encode(
    entries: &[(&Stage, &Entry)],
    bodies: &HashMap<PostId, Arc<Body>>,
    counts: &HashMap<PostId, PostCounts>,
) -> Result<(Encoded, Encoded)> {
    let (mut shown, mut whole) = (Encoded::new(), Encoded::new());
    for (stage, entry) in entries {
        let (Some(kind), Some(body)) = (kind(entry), entry.post().and_then(|id| bodies.get(&id))) else { continue };
        let (id, author) = (body.post.id, &body.post.author);
        let counts = counts.get(&id).copied();
        let own = body.has_two_sides() && stage.owner() == Some(author);
        let (encoded, reader) = if own { (&mut whole, Some(author)) } else { (&mut shown, None) };
        if let Vacant(place) = encoded.entry((id, kind)) {
            place.insert(body.shown_to(reader, kind, counts)?);
        }
    }
    Ok((shown, whole))
}

/// How an entry that shows a post is told.
fn kind(entry: &Entry) -> Option<&'static str> {
    match entry {
        Entry::Post(_) => Some("post"),
        Entry::Edited(_) => Some("edited"),
        _ => None,
    }
}

/// The posts that it takes to tell an entry.
fn posts(stage: &Stage, entry: &Entry) -> impl Iterator<Item = PostId> + use<> {
    let about = match entry {
        Entry::Post(id) | Entry::Edited(id) => Some(*id),
        Entry::Left(left) => Some(left.post).filter(|_| left.reason == GoneReason::Hidden),
        Entry::Gone(..) | Entry::Data(_) | Entry::Notified(_) | Entry::By(..) => None,
    };
    let under = match stage {
        Stage::Post(id) => Some(*id),
        _ => None,
    };
    about.into_iter().chain(under)
}
