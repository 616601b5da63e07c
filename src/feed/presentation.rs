//! Posts as readers are shown them: the author's part as it was encoded once, and behind it what came of it.
//!
//! An answer to a reader has the counts as the ledger has them now, and to somebody signed in what they did with the post.
//! What is pushed is encoded once for everyone: it has counts, at most [`FRESH`] old, and no flags.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use moka::sync::Cache;
use serde::Serialize;
use serde_json::value::RawValue;

use super::along::{Along, Beneath, With};
use super::input::PostPage;
use super::{Body, Feed, FeedError, Result};
use crate::ledger::{Hydration, Ledger};
use crate::model::{Person, PostCounts, PostFlags, PostId, User, UserId};

/// How old the counts may be that are pushed. As long as this a post that goes to many sockets is counted once.
const FRESH: Duration = Duration::from_secs(2);

/// How many posts' counts are remembered that long.
const REMEMBERED: u64 = 100_000;

/// What stands behind the author's part.
#[derive(Serialize)]
struct Behind<'a> {
    #[serde(flatten)]
    counts: PostCounts,
    #[serde(flatten)]
    flags: Option<PostFlags>,
    #[serde(flatten)]
    beneath: Option<&'a Beneath>,
}

impl Feed {
    /// These posts with what came of them and, for a reader who is somebody, what they did with them: in one round trip,
    /// however many there are.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn present(&self, reader: Option<&UserId>, bodies: &[Arc<Body>]) -> Result<Vec<Box<RawValue>>> {
        Ok(self.hydrate(reader, bodies, &[], &Along::default()).await?.0)
    }

    /// A page of posts, with its people: in one round trip, and what they bring along in a few more. How many there are does
    /// not depend on the page.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn page_of_posts(
        &self,
        reader: Option<&UserId>,
        bodies: &[Arc<Body>],
        next: Option<PostId>,
        with: &With,
    ) -> Result<PostPage> {
        let along = self.along(reader, bodies, with).await?;
        let people: HashSet<&UserId> = bodies.iter().map(|body| &body.post.author).chain(along.people.iter()).collect();
        let people: Vec<UserId> = people.into_iter().cloned().collect();
        let (items, people) = self.hydrate(reader, bodies, &people, &along).await?;
        Ok(PostPage { items, people, next: next.map(|id| format!("p{id}")) })
    }

    async fn hydrate(
        &self,
        reader: Option<&UserId>,
        bodies: &[Arc<Body>],
        people: &[UserId],
        along: &Along,
    ) -> Result<(Vec<Box<RawValue>>, BTreeMap<String, Person>)> {
        if bodies.is_empty() {
            return Ok(Default::default());
        }
        let ids: Vec<PostId> = bodies.iter().map(|body| body.post.id).collect();
        let Hydration { counts, flags, people } = self.ledger.hydrate(reader, &ids, people).await?;
        let counts: HashMap<PostId, PostCounts> = counts.into_iter().collect();
        let flags: HashMap<PostId, PostFlags> = flags.into_iter().collect();
        let present = |body: &Arc<Body>| {
            let id = &body.post.id;
            let flags = reader.map(|_| flags.get(id).copied().unwrap_or_default());
            let counts = counts.get(id).copied().unwrap_or_default();
            behind(body.json_for(reader), &Behind { counts, flags, beneath: along.beneath(*id) })
        };
        Ok((bodies.iter().map(present).collect::<Result<_>>()?, by_id(people)))
    }

    /// These people by their ids, each once, in one round trip.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn people<'a>(
        &self,
        ids: impl Iterator<Item = &'a UserId> + Send,
    ) -> Result<BTreeMap<String, Person>> {
        let ids: Vec<UserId> = ids.collect::<HashSet<_>>().into_iter().cloned().collect();
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        Ok(by_id(self.ledger.users(&ids).await?))
    }
}

fn by_id(users: Vec<User>) -> BTreeMap<String, Person> {
    users.into_iter().map(|user| (user.id.to_string(), Person::from(user))).collect()
}

/// A post's JSON with what came of it at its end.
pub(super) fn shown(post: &RawValue, counts: PostCounts, flags: Option<PostFlags>) -> Result<Box<RawValue>> {
    behind(post, &Behind { counts, flags, beneath: None })
}

/// A post's JSON with more members, at least one, at its end. The author's part is not encoded again.
pub(super) fn behind(post: &RawValue, members: &impl Serialize) -> Result<Box<RawValue>> {
    let behind = serde_json::to_string(members).ok();
    let parts = behind.as_deref().and_then(|behind| Some((post.get().strip_suffix('}')?, behind.strip_prefix('{')?)));
    let spliced = parts.map(|(post, behind)| RawValue::from_string(format!("{post},{behind}")));
    spliced.and_then(std::result::Result::ok).ok_or_else(|| {
        tracing::error!(post = post.get(), "a post could not be put together");
        FeedError::Internal
    })
}

/// The counts of posts that are being pushed.
pub(super) struct PushedCounts {
    ledger: Arc<dyn Ledger>,
    fresh: Cache<PostId, PostCounts>,
}

impl PushedCounts {
    pub(super) fn new(ledger: Arc<dyn Ledger>) -> Self {
        Self { ledger, fresh: Cache::builder().max_capacity(REMEMBERED).time_to_live(FRESH).build() }
    }

    /// Notes a post that was just written: nothing came of it yet.
    pub(super) fn begin(&self, id: PostId) {
        self.fresh.insert(id, PostCounts::default());
    }

    /// The counts of those of `ids` that something came of, in one round trip at most.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn get(&self, ids: &[PostId]) -> Result<HashMap<PostId, PostCounts>> {
        let mut found: HashMap<PostId, PostCounts> =
            ids.iter().filter_map(|id| Some((*id, self.fresh.get(id)?))).collect();
        let missing: HashSet<PostId> = ids.iter().copied().filter(|id| !found.contains_key(id)).collect();
        if !missing.is_empty() {
            let missing: Vec<PostId> = missing.into_iter().collect();
            let counted: HashMap<PostId, PostCounts> = self.ledger.counts(&missing).await?.into_iter().collect();
            for id in missing {
                let counts = counted.get(&id).copied().unwrap_or_default();
                self.fresh.insert(id, counts);
                found.insert(id, counts);
            }
        }
        found.retain(|_, counts| *counts != PostCounts::default());
        Ok(found)
    }
}

/// `"data":{"type":…,"post":{…}}`: the members of a publication that shows a post to everyone alike.
pub(super) fn pushed(kind: &str, post: &RawValue, counts: PostCounts) -> Result<Bytes> {
    Ok(format!(r#""data":{{"type":"{kind}","post":{}}}"#, shown(post, counts, None)?.get()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_of_a_post_is_put_behind_what_its_author_wrote() {
        let post = RawValue::from_string(r#"{"id":1,"data":{"a":{}}}"#.into()).unwrap();
        let counts = PostCounts { likes: 3, comments: 0, favourites: 1 };
        let flags = Some(PostFlags { liked: true, favourited: false });
        let behind = r#""likes":3,"comments":0,"favourites":1"#;
        let to_all = shown(&post, counts, None).unwrap();
        assert_eq!(to_all.get(), format!(r#"{{"id":1,"data":{{"a":{{}}}},{behind}}}"#));
        let to_one = shown(&post, counts, flags).unwrap();
        assert_eq!(to_one.get(), format!(r#"{{"id":1,"data":{{"a":{{}}}},{behind},"liked":true,"favourited":false}}"#));
    }
}
