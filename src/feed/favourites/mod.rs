//! Favourites: objects of any type that users save.
//!
//! Feedline stores only the names of objects of other types than posts. Lists and counts omit posts that the reader may
//! not see, and a deleted post is removed from all favourites.

mod types;

use std::collections::HashMap;
use std::sync::Arc;

pub(crate) use types::{
    Checked, CheckedObjects, CommonList, CommonPage, FavouriteCount, FavouriteItem, FavouriteList, FavouritePage,
    HolderItem, HolderList, HolderPage, NewFavourite, Objects, OneObject, OneType,
};

use super::call::Caller;
use super::content::CachedPost;
use super::error::{FeedError, NO_POST, NO_USER, Result};
use super::expand::Expand;
use super::input::{Done, check_ids};
use super::paging::{PageBuilder, PageCursor as _};
use super::runtime::now;
use super::visibility::ViewContext;
use crate::feed::base::Base;
use crate::ledger::{Favourite, FavouriteOutcome};
use crate::model::{Millis, ObjectId, ObjectType, Person, PostId, UserId};

/// The number of favourites that are read in one call to count all of them.
const COUNT_CHUNK: usize = 1_000;

/// The number of users from whose favourites a deleted post is removed in one step; other writes run between steps.
const REMOVAL_CHUNK: usize = 200;

/// A list of one user's favourites, in the order in which they were added.
struct FavouriteSource<'a> {
    user: &'a UserId,
    kind: &'a ObjectType,
    /// If set, only objects that this user has among their favourites, too.
    other: Option<&'a UserId>,
}

/// The favourites of users.
pub(crate) struct FavouriteService {
    base: Arc<Base>,
}

impl FavouriteService {
    /// Favourites of this ledger.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self { base }
    }

    pub(crate) async fn add(&self, caller: Caller, object: NewFavourite) -> Result<FavouriteItem> {
        let user = caller.user()?;
        let id = named(&object.kind, object.id)?;
        if let Some(post) = post_of(&object.kind, &id) {
            self.base.visibility.post(Some(user), post).await?.check_is_no_repost()?;
        }
        let most = self.base.options.limits.favourites;
        match self.base.ledger.add_favourite(user, &object.kind, &id, now(), most, object.private).await? {
            FavouriteOutcome::Since(created_at) => {
                Ok(FavouriteItem { id, created_at, private: object.private, post: None })
            }
            FavouriteOutcome::Full => {
                Err(FeedError::LimitExceeded { field: "id", what: "favourites of one type", most })
            }
            FavouriteOutcome::Absent => Err(NO_POST),
        }
    }

    pub(crate) async fn remove(&self, caller: Caller, object: OneObject) -> Result<Done> {
        let id = named(&object.kind, object.id)?;
        self.base.ledger.remove_favourite(caller.user()?, &object.kind, &id).await?;
        Ok(Done {})
    }

    pub(crate) async fn list(&self, caller: Caller, list: FavouriteList) -> Result<FavouritePage> {
        let source = FavouriteSource { user: caller.user()?, kind: &list.kind, other: None };
        let ((limit, cursor), expand) = (list.page.decode()?, list.expand.decode()?);
        self.page_of_favourites(&source, cursor, limit, &expand).await
    }

    pub(crate) async fn count(&self, caller: Caller, of: OneType) -> Result<FavouriteCount> {
        let source = FavouriteSource { user: caller.user()?, kind: &of.kind, other: None };
        Ok(FavouriteCount { count: self.count_of(&source).await? })
    }

    pub(crate) async fn check(&self, caller: Caller, objects: Objects) -> Result<CheckedObjects> {
        let user = caller.user()?;
        check_ids(&objects.ids)?;
        let ids = objects.ids.into_iter().map(|id| named(&objects.kind, id)).collect::<Result<Vec<_>>>()?;
        let found = self.base.ledger.favourites_among(user, &objects.kind, &ids).await?;
        let found = self.with_visibility(user, &objects.kind, found).await?;
        let since: HashMap<ObjectId, Millis> = found
            .into_iter()
            .filter(ShownFavourite::is_shown)
            .map(|shown| (shown.favourite.id, shown.favourite.at))
            .collect();
        let checked = |id: ObjectId| {
            let created_at = since.get(&id).copied();
            Checked { id, favourited: created_at.is_some(), created_at }
        };
        Ok(CheckedObjects { items: ids.into_iter().map(checked).collect() })
    }

    pub(crate) async fn holders(&self, caller: Caller, list: HolderList) -> Result<HolderPage> {
        let (reader, (limit, cursor)) = (caller.reader(), list.page.decode::<i64>()?);
        let id = named(&list.kind, list.id)?;
        if let Some(post) = post_of(&list.kind, &id) {
            self.base.visibility.post(reader, post).await?;
        }
        let mut page = PageBuilder::new(cursor, limit);
        while let Some((before, wanted)) = page.wants() {
            let holders = self.base.ledger.holders(&list.kind, &id, before, wanted).await?;
            let people: Vec<UserId> = holders.iter().map(|holder| holder.user.id.clone()).collect();
            let seen = self.base.visibility.visible_users(reader, ViewContext::Direct, people).await?;
            page.take(holders.into_iter().map(|holder| {
                let item = seen
                    .contains(&holder.user.id)
                    .then(|| HolderItem { person: Person::from(holder.user), created_at: holder.at });
                (holder.seq, item)
            }));
        }
        let count = self.base.ledger.holders_count(&list.kind, &id).await?;
        let (items, next) = page.finish();
        Ok(HolderPage { count, items, next: next.map(|seq| seq.encode()) })
    }

    pub(crate) async fn common(&self, caller: Caller, list: CommonList) -> Result<CommonPage> {
        let user = caller.user()?;
        let ((limit, cursor), expand) = (list.page.decode()?, list.expand.decode()?);
        let seen = self.base.visibility.visible_users(Some(user), ViewContext::Direct, [list.user.clone()]).await?;
        if seen.is_empty() || self.base.ledger.users(std::slice::from_ref(&list.user)).await?.is_empty() {
            return Err(NO_USER);
        }
        let source = FavouriteSource { user, kind: &list.kind, other: Some(&list.user) };
        let count = match cursor {
            None => Some(self.count_of(&source).await?),
            Some(_) => None,
        };
        Ok(CommonPage { count, page: self.page_of_favourites(&source, cursor, limit, &expand).await? })
    }

    /// Removes a deleted post from the favourites of all users. The post cannot be added again.
    ///
    /// # Errors
    /// If the ledger cannot be written. Some users may still have the post then.
    pub(crate) async fn remove_deleted_post(&self, post: PostId) -> Result<()> {
        let Some(kind) = ObjectType::parse(ObjectType::POST) else { return Ok(()) };
        let id = ObjectId::from(post);
        while self.base.ledger.forget_object(&kind, &id, REMOVAL_CHUNK).await? == REMOVAL_CHUNK {}
        Ok(())
    }

    async fn page_of_favourites(
        &self,
        source: &FavouriteSource<'_>,
        cursor: Option<i64>,
        limit: usize,
        expand: &Expand,
    ) -> Result<FavouritePage> {
        let mut page = PageBuilder::new(cursor, limit);
        while let Some((before, wanted)) = page.wants() {
            let read = self.read_favourites(source, before, wanted).await?;
            let shown = self.with_visibility(source.user, source.kind, read).await?;
            page.take(shown.into_iter().map(|shown| (shown.favourite.seq, shown.is_shown().then_some(shown))));
        }
        let (shown, next) = page.finish();
        let posts: Vec<Arc<CachedPost>> = shown.iter().filter_map(ShownFavourite::post).cloned().collect();
        let rendered = self.base.post_renderer.render_page(Some(source.user), &posts, None, expand).await?;
        // Either all of them are posts, or none.
        let mut rendered_posts = rendered.items.into_iter();
        let item = |shown: ShownFavourite| FavouriteItem {
            id: shown.favourite.id,
            created_at: shown.favourite.at,
            private: shown.favourite.private,
            post: rendered_posts.next(),
        };
        Ok(FavouritePage {
            items: shown.into_iter().map(item).collect(),
            people: rendered.people,
            next: next.map(|seq| seq.encode()),
        })
    }

    /// The number of favourites visible to the user. Loads posts only if they are not public or their authors have
    /// restrictions.
    async fn count_of(&self, source: &FavouriteSource<'_>) -> Result<u64> {
        if !source.kind.is_post() {
            return Ok(match source.other {
                None => self.base.ledger.favourites_count(source.user, source.kind).await?,
                Some(other) => self.base.ledger.common_favourites_count(source.user, other, source.kind).await?,
            });
        }
        let mut count = 0;
        let mut before = None;
        loop {
            let read = self.read_favourites(source, before, COUNT_CHUNK).await?;
            let ended = read.len() < COUNT_CHUNK;
            before = read.last().map(|favourite| favourite.seq);
            let posts: Vec<PostId> = read.iter().filter_map(|favourite| favourite.id.post()).collect();
            count += self.base.visibility.count_visible(source.user, &posts).await?;
            if ended {
                return Ok(count);
            }
        }
    }

    async fn read_favourites(
        &self,
        source: &FavouriteSource<'_>,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Favourite>> {
        let user = source.user;
        let kind = source.kind;
        Ok(match source.other {
            None => self.base.ledger.favourites(user, kind, before, limit).await?,
            Some(other) => self.base.ledger.common_favourites(user, other, kind, before, limit).await?,
        })
    }

    /// Favourites with the posts that the reader may see.
    async fn with_visibility(
        &self,
        reader: &UserId,
        kind: &ObjectType,
        favourites: Vec<Favourite>,
    ) -> Result<Vec<ShownFavourite>> {
        if !kind.is_post() {
            return Ok(favourites
                .into_iter()
                .map(|favourite| ShownFavourite { favourite, object: FavouriteObject::Other })
                .collect());
        }
        let ids = favourites.iter().filter_map(|favourite| favourite.id.post());
        let mut posts =
            self.base.visibility.visible_posts(Some(reader), ViewContext::Direct, ids.collect::<Vec<_>>()).await?;
        let look = |favourite: Favourite| {
            let cached = favourite.id.post().and_then(|post| posts.remove(&post));
            ShownFavourite { favourite, object: cached.map_or(FavouriteObject::Invisible, FavouriteObject::Post) }
        };
        Ok(favourites.into_iter().map(look).collect())
    }
}

/// A favourite, and the content that its reader may see.
struct ShownFavourite {
    favourite: Favourite,
    object: FavouriteObject,
}

enum FavouriteObject {
    /// A visible post.
    Post(Arc<CachedPost>),
    /// A post that is deleted, or not visible to this reader.
    Invisible,
    /// An object of another type. Feedline stores only its name.
    Other,
}

impl ShownFavourite {
    fn is_shown(&self) -> bool {
        !matches!(self.object, FavouriteObject::Invisible)
    }

    fn post(&self) -> Option<&Arc<CachedPost>> {
        match &self.object {
            FavouriteObject::Post(cached) => Some(cached),
            FavouriteObject::Invisible | FavouriteObject::Other => None,
        }
    }
}

/// The id in its stored form: post ids are normalised.
fn named(kind: &ObjectType, id: ObjectId) -> Result<ObjectId> {
    if !kind.is_post() {
        return Ok(id);
    }
    id.post().map(ObjectId::from).ok_or_else(|| FeedError::invalid("id", "a post's id is a whole number below 2^53"))
}

fn post_of(kind: &ObjectType, id: &ObjectId) -> Option<PostId> {
    id.post().filter(|_| kind.is_post())
}
