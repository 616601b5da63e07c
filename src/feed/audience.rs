//! Who may see what: decided here, for every way to read.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::relations::Between;
use super::{Body, Feed, Result};
use crate::ledger::PostOwner;
use crate::model::{Post, PostId, Relation, UserId, Visibility};

/// Where something is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Surface {
    /// Asked for by name: by id, on a profile, under a post. A mute does not matter here.
    Direct,
    /// Brought to the reader: topics, notifications, pushes.
    Brought,
    /// The reader's timeline: brought, and of those followed and oneself only.
    Timeline,
}

/// Who looks at an author's doings, and from where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Eye<'a> {
    /// Who; `None` of somebody anonymous.
    pub(super) reader: Option<&'a UserId>,
    /// What is between the reader and the author; nothing, of somebody anonymous.
    pub(super) relation: Relation,
    /// Where.
    pub(super) surface: Surface,
}

impl Eye<'_> {
    /// Whether the author's doings are for the reader: the first condition of all others.
    pub(super) fn sees_person(self, author: &UserId) -> bool {
        let muted = self.relation.muted && self.surface != Surface::Direct;
        self.reader == Some(author) || !(self.relation.is_barred() || muted)
    }

    /// Whether the reader may see a post of the author's with this visibility.
    pub(super) fn sees(self, author: &UserId, visibility: &Visibility) -> bool {
        if self.reader == Some(author) {
            return true;
        }
        let Relation { follows, followed, .. } = self.relation;
        if !self.sees_person(author) || (self.surface == Surface::Timeline && !follows) {
            return false;
        }
        let named = |names: &[UserId]| self.reader.is_some_and(|reader| names.contains(reader));
        match visibility {
            Visibility::Public => true,
            Visibility::Followers => follows,
            Visibility::Friends => follows && followed,
            Visibility::OnlyTo(names) => follows && named(names),
            Visibility::NotTo(names) => !named(names),
        }
    }
}

impl Feed {
    /// Those of `ids` that exist and that `reader` (`None`: somebody anonymous) may see there.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn seen_by(
        &self,
        reader: Option<&UserId>,
        surface: Surface,
        ids: impl IntoIterator<Item = PostId>,
    ) -> Result<HashMap<PostId, Arc<Body>>> {
        let mut bodies = self.bodies.get(ids).await?;
        let closed = self.closed_to(reader, surface, bodies.values()).await?;
        if closed.is_empty() {
            return Ok(bodies);
        }
        let authors: HashSet<UserId> =
            closed.iter().filter_map(|id| Some(bodies.get(id)?.post.author.clone())).collect();
        let mut between = self.between(reader, authors).await?;
        let sees = |between: &Between, body: &Body| {
            let author = &body.post.author;
            let eye = Eye { reader, relation: relation(between, reader, author), surface };
            !closed.contains(&body.post.id) || eye.sees(author, &body.post.visibility)
        };
        if let Some(reader) = reader {
            let hidden = bodies.values().filter(|body| !sees(&between, body));
            let hidden: HashSet<_> = hidden.map(|body| (reader.clone(), body.post.author.clone())).collect();
            if !hidden.is_empty() {
                between.extend(self.relations.fresh(hidden).await?);
            }
        }
        bodies.retain(|_, body| sees(&between, body));
        Ok(bodies)
    }

    /// How many of these posts a reader who asks for them by name may see. Most are counted without their bodies.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn count_seen(&self, reader: &UserId, ids: &[PostId]) -> Result<u64> {
        let owners = self.ledger.post_owners(ids).await?;
        let authors: HashSet<UserId> = owners.iter().map(|owner| owner.author.clone()).collect();
        let barred = self.relations.barred(authors).await?;
        let is_open = |owner: &PostOwner| owner.author == *reader || (owner.public && !barred.contains(&owner.author));
        let (open, closed): (Vec<PostOwner>, Vec<PostOwner>) = owners.into_iter().partition(is_open);
        let closed = closed.into_iter().map(|owner| owner.post);
        let seen = self.seen_by(Some(reader), Surface::Direct, closed).await?;
        Ok((open.len() + seen.len()) as u64)
    }

    /// Those of whom it takes more to know whether the reader sees them than what is known of their authors in general and
    /// of whom the reader follows. Most posts are not among them.
    async fn closed_to<'a>(
        &self,
        reader: Option<&UserId>,
        surface: Surface,
        bodies: impl Iterator<Item = &'a Arc<Body>> + Clone + Send,
    ) -> Result<HashSet<PostId>> {
        let authors: HashSet<UserId> = bodies.clone().map(|body| body.post.author.clone()).collect();
        let barred = self.relations.barred(authors).await?;
        let followees = match (reader, surface) {
            (Some(reader), Surface::Timeline) => self.relations.followees(reader).await?,
            _ => None,
        };
        let is_followed = |author: &UserId| followees.as_ref().is_some_and(|followees| followees.contains(author));
        let is_open = |body: &Body| {
            let Post { author, visibility, .. } = &body.post;
            let is_for_all = *visibility == Visibility::Public && !barred.contains(author);
            reader == Some(author) || (is_for_all && (surface != Surface::Timeline || is_followed(author)))
        };
        Ok(bodies.filter(|body| !is_open(body)).map(|body| body.post.id).collect())
    }

    /// Those of `people` whose doings (comments, likes, notifications) `reader` may see there.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn people_seen_by(
        &self,
        reader: Option<&UserId>,
        surface: Surface,
        people: impl IntoIterator<Item = UserId> + Send,
    ) -> Result<HashSet<UserId>> {
        let mut people: HashSet<UserId> = people.into_iter().filter(|person| !self.is_erased(person)).collect();
        let between = self.between(reader, people.iter().cloned()).await?;
        people
            .retain(|person| Eye { reader, relation: relation(&between, reader, person), surface }.sees_person(person));
        Ok(people)
    }

    /// Those of `people` who pass, by what is between the reader and them; the reader does. Between most people there is nothing,
    /// and that costs no more than their place in a cache that all readers share.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn people_among(
        &self,
        reader: Option<&UserId>,
        mut people: HashSet<UserId>,
        passes: impl Fn(Relation) -> bool + Send,
    ) -> Result<HashSet<UserId>> {
        people.retain(|person| !self.is_erased(person));
        if reader.is_some() {
            let barred = self.relations.barred(people.iter().cloned()).await?;
            let between = self.between(reader, barred).await?;
            people.retain(|person| passes(relation(&between, reader, person)));
        }
        Ok(people)
    }

    /// Of each reader and post, in their order, whether the post exists and the reader, asking for it by name, may see it.
    /// What everyone may see costs nothing but its author's place in a cache.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn each_sees(&self, pairs: &[(UserId, PostId)]) -> Result<Vec<bool>> {
        let bodies = self.bodies.get(pairs.iter().map(|(_, post)| *post)).await?;
        let authors: HashSet<UserId> = bodies.values().map(|body| body.post.author.clone()).collect();
        let barred = self.relations.barred(authors).await?;
        let is_open = |body: &Body| body.post.visibility == Visibility::Public && !barred.contains(&body.post.author);
        let closed = pairs.iter().filter_map(|(reader, post)| {
            let body = bodies.get(post).filter(|body| !is_open(body) && body.post.author != *reader)?;
            Some((reader.clone(), body.post.author.clone()))
        });
        let between = self.relations.get(closed.collect::<Vec<_>>()).await?;
        let sees = |(reader, post): &(UserId, PostId)| {
            bodies.get(post).filter(|_| !self.is_erased(reader)).is_some_and(|body| {
                let author = &body.post.author;
                let relation = relation(&between, Some(reader), author);
                is_open(body)
                    || Eye { reader: Some(reader), relation, surface: Surface::Direct }
                        .sees(author, &body.post.visibility)
            })
        };
        Ok(pairs.iter().map(sees).collect())
    }

    /// Whether a post is there for everyone, or the reader's own, as far as memory can tell; `None` if it takes a look.
    pub(super) fn sees_public(&self, reader: &UserId, post: PostId) -> Option<bool> {
        let body = self.bodies.remembered(post)?;
        let Some(Post { author, visibility, .. }) = body.as_ref().map(|body| &body.post) else { return Some(false) };
        if self.is_erased(reader) {
            return Some(false);
        }
        if author == reader {
            return Some(true);
        }
        (*visibility == Visibility::Public && !self.relations.is_barred(author)?).then_some(true)
    }

    /// Of each reader and person, in their order, whether the reader, asking by name, may see what the person does.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn each_sees_person(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<bool>> {
        // Between most people there is nothing.
        let barred = self.relations.barred(pairs.iter().map(|(_, person)| person.clone())).await?;
        let asked = pairs.iter().filter(|(reader, person)| reader != person && barred.contains(person));
        let between = self.relations.get(asked.cloned().collect::<Vec<_>>()).await?;
        let sees = |(reader, person): &(UserId, UserId)| {
            let relation = relation(&between, Some(reader), person);
            !self.is_erased(person)
                && Eye { reader: Some(reader), relation, surface: Surface::Direct }.sees_person(person)
        };
        Ok(pairs.iter().map(sees).collect())
    }

    async fn between(&self, reader: Option<&UserId>, authors: impl IntoIterator<Item = UserId>) -> Result<Between> {
        let Some(reader) = reader else { return Ok(Between::default()) };
        let others = authors.into_iter().filter(|author| author != reader);
        self.relations.get(others.map(|author| (reader.clone(), author))).await
    }
}

fn relation(between: &Between, reader: Option<&UserId>, author: &UserId) -> Relation {
    reader.and_then(|reader| between.get(reader, author)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> UserId {
        UserId::parse(text).expect("an id")
    }

    const NOTHING: Relation =
        Relation { follows: false, followed: false, hidden: false, muted: false, blocks: false, blocked: false };
    const FOLLOWER: Relation = Relation { follows: true, ..NOTHING };
    const FOLLOWED: Relation = Relation { followed: true, ..NOTHING };
    const FRIEND: Relation = Relation { follows: true, followed: true, ..NOTHING };

    /// One letter for each of public, followers, friends, only to ann, only to bo, not to ann, not to bo: `+` where ann
    /// may see bo's post.
    fn seen(reader: Option<&str>, relation: Relation, surface: Surface) -> String {
        let (ann, bo) = (vec![id("ann")], vec![id("bo")]);
        let visibilities = [
            Visibility::Public,
            Visibility::Followers,
            Visibility::Friends,
            Visibility::OnlyTo(ann.clone()),
            Visibility::OnlyTo(bo.clone()),
            Visibility::NotTo(ann),
            Visibility::NotTo(bo),
        ];
        let reader = reader.map(id);
        let eye = Eye { reader: reader.as_ref(), relation, surface };
        visibilities.iter().map(|visibility| if eye.sees(&id("bo"), visibility) { '+' } else { '-' }).collect()
    }

    #[test]
    fn every_relation_on_every_surface_sees_what_it_may() {
        let with = |base: Relation, set: fn(&mut Relation)| {
            let mut relation = base;
            set(&mut relation);
            relation
        };
        let rows = [
            ("nothing", NOTHING, "+-----+", "+-----+", "-------"),
            ("a follower", FOLLOWER, "++-+--+", "++-+--+", "++-+--+"),
            ("followed only", FOLLOWED, "+-----+", "+-----+", "-------"),
            ("a friend", FRIEND, "++++--+", "++++--+", "++++--+"),
            ("a muting stranger", with(NOTHING, |it| it.muted = true), "+-----+", "-------", "-------"),
            ("a muting friend", with(FRIEND, |it| it.muted = true), "++++--+", "-------", "-------"),
        ];
        for (name, relation, direct, brought, timeline) in rows {
            assert_eq!(seen(Some("ann"), relation, Surface::Direct), direct, "{name}, direct");
            assert_eq!(seen(Some("ann"), relation, Surface::Brought), brought, "{name}, brought");
            assert_eq!(seen(Some("ann"), relation, Surface::Timeline), timeline, "{name}, timeline");
        }
        let surfaces = [Surface::Direct, Surface::Brought, Surface::Timeline];
        let bars: [fn(&mut Relation); 3] = [|it| it.hidden = true, |it| it.blocks = true, |it| it.blocked = true];
        for surface in surfaces {
            for base in [NOTHING, FOLLOWER, FOLLOWED, FRIEND] {
                for bar in bars {
                    let barred = with(base, bar);
                    assert_eq!(seen(Some("ann"), barred, surface), "-------", "{barred:?} {surface:?}");
                    let eye = Eye { reader: Some(&id("ann")), relation: barred, surface };
                    assert!(!eye.sees_person(&id("bo")), "{barred:?} {surface:?}");
                }
            }
            assert_eq!(seen(Some("bo"), NOTHING, surface), "+++++++", "authors see their own, {surface:?}");
        }
        assert_eq!(seen(None, NOTHING, Surface::Direct), "+----++", "nobody in particular is nobody excluded");
        assert_eq!(seen(None, NOTHING, Surface::Timeline), "-------");
    }

    #[test]
    fn a_muted_person_is_met_where_one_goes_and_not_where_one_is_brought() {
        let muted = Relation { muted: true, ..FRIEND };
        let (ann, bo) = (id("ann"), id("bo"));
        let sees = |surface| Eye { reader: Some(&ann), relation: muted, surface }.sees_person(&bo);
        assert!(sees(Surface::Direct) && !sees(Surface::Brought) && !sees(Surface::Timeline));
        assert!(Eye { reader: Some(&bo), relation: NOTHING, surface: Surface::Brought }.sees_person(&bo));
        assert!(Eye { reader: None, relation: NOTHING, surface: Surface::Direct }.sees_person(&bo));
    }
}
