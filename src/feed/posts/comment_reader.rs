//! Comments as their readers see them.
//!
//! A post has a list of comments, and each comment has a list of replies. A client reads one list at a time. Comments
//! are visible to readers that may see the post. A comment and the replies below it are omitted if the reader may not
//! see the author of the comment.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::feed::base::Base;
use crate::feed::call::Caller;
use crate::feed::error::{NO_COMMENT, Result};
use crate::feed::input::{
    CommentLikerList, CommentList, CommentOrder, CommentsByIds, OneComment, UserList, UserPage, check_ids,
};
use crate::feed::paging::{PageBuilder, PageCursor, TimedUser};
use crate::feed::rendering::load_people;
use crate::feed::visibility::{ViewContext, shows_content};
use crate::ledger::Thread;
use crate::model::{Comment, CommentId, Millis, Person, PostId, RemovedComment, User, UserId};

/// The maximal number of reads for one page if the reader may not see enough of the comments. After that the page is
/// short, and its cursor continues.
const MAX_READS: usize = 5;

/// Comments, as a page.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CommentPage {
    /// The comments, in the order of the list.
    items: Vec<Comment>,
    /// Their authors, by id.
    #[schemars(with = "BTreeMap<String, Person>")]
    people: BTreeMap<UserId, Person>,
    /// The `cursor` of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Above this comment, in a list of comments with the oldest first.
struct After(CommentId);

impl PageCursor for After {
    fn decode(text: &str) -> Option<Self> {
        text.strip_prefix('o').and_then(CommentId::parse).map(Self)
    }

    fn encode(&self) -> String {
        format!("o{}", self.0)
    }
}

/// The last liker of a page.
type AfterLiker = TimedUser<'l'>;

/// Reads comments.
pub(crate) struct CommentReader {
    base: Arc<Base>,
}

impl CommentReader {
    /// Reads the comments of this ledger.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self { base }
    }

    pub(crate) async fn get(&self, caller: Caller, comment: OneComment) -> Result<Comment> {
        let (mut comment, _) = self.visible(&caller, comment.id).await?;
        self.show_removed(caller.reader(), std::slice::from_mut(&mut comment)).await?;
        self.add_flags(caller.reader(), std::slice::from_mut(&mut comment)).await?;
        Ok(comment)
    }

    pub(crate) async fn many(&self, caller: Caller, list: CommentsByIds) -> Result<CommentPage> {
        check_ids(&list.ids)?;
        let reader = caller.reader();
        let mut read = self.base.ledger.comments(&list.ids).await?;
        let visible = self.visible_among(reader, &read).await?;
        read.retain(|comment| visible.contains(&comment.id));
        read.sort_by_key(|comment| list.ids.iter().position(|id| *id == comment.id));
        self.page(reader, read, None).await
    }

    pub(crate) async fn list(&self, caller: Caller, list: CommentList) -> Result<CommentPage> {
        let order = list.order;
        let (limit, cursor) = match order {
            CommentOrder::Newest => list.page.decode::<CommentId>()?,
            CommentOrder::Oldest => {
                let (limit, cursor) = list.page.decode::<After>()?;
                (limit, cursor.map(|After(id)| id))
            }
        };
        self.base.visibility.post(caller.reader(), list.id).await?;
        if let Some(under) = list.reply_to {
            self.in_thread(&caller, list.id, under).await?;
        }
        let thread = Thread { post: list.id, reply_to: list.reply_to };
        let filters = self.base.content_filter.of(caller.reader()).await?;
        let mut page = PageBuilder::with_max_reads(cursor, limit, MAX_READS);
        while let Some((after, count)) = page.wants() {
            let read = match order {
                CommentOrder::Newest => {
                    self.base.ledger.comments_in(thread, after.unwrap_or(CommentId::MAX), count).await?
                }
                CommentOrder::Oldest => {
                    self.base.ledger.comments_after(thread, after.unwrap_or(CommentId::ZERO), count).await?
                }
            };
            let authors: HashSet<UserId> = read.iter().filter_map(|comment| comment.author.clone()).collect();
            let seen = self.base.visibility.visible_users(caller.reader(), ViewContext::Direct, authors).await?;
            page.take(read.into_iter().map(|mut comment| {
                let is_visible = comment.author.as_ref().is_none_or(|author| seen.contains(author))
                    && filters.as_ref().is_none_or(|filters| filters.mark(&mut comment));
                (comment.id, is_visible.then_some(comment))
            }));
        }
        let (items, next) = page.finish();
        let next = next.map(|id| match order {
            CommentOrder::Newest => id.encode(),
            CommentOrder::Oldest => After(id).encode(),
        });
        self.page(caller.reader(), items, next).await
    }

    /// The comments that a user wrote, as far as the reader may see them.
    pub(crate) async fn by_author(&self, caller: Caller, list: UserList) -> Result<CommentPage> {
        let (limit, cursor) = list.page.decode::<CommentId>()?;
        let reader = caller.reader();
        if !shows_content(&*self.base.ledger, &self.base.visibility, reader, &list.id).await? {
            return self.page(reader, Vec::new(), None).await;
        }
        let mut page = PageBuilder::with_max_reads(cursor, limit, MAX_READS);
        while let Some((before, count)) = page.wants() {
            let read = self.base.ledger.comments_by(&list.id, before.unwrap_or(CommentId::MAX), count).await?;
            let visible = self.visible_among(reader, &read).await?;
            page.take(read.into_iter().map(|comment| (comment.id, visible.contains(&comment.id).then_some(comment))));
        }
        let (items, next) = page.finish();
        self.page(reader, items, next.map(|id| id.encode())).await
    }

    pub(crate) async fn likers(&self, caller: Caller, list: CommentLikerList) -> Result<UserPage> {
        let (limit, cursor) = list.page.decode::<AfterLiker>()?;
        let (comment, _) = self.visible(&caller, list.id).await?;
        if comment.author.is_none() {
            return Err(NO_COMMENT);
        }
        let mut page = PageBuilder::new(cursor, limit);
        while let Some((after, count)) = page.wants() {
            let after = after.as_ref().map(|after| (after.at, &after.user));
            let read = self.base.ledger.comment_likers(list.id, after, count).await?;
            let people: Vec<UserId> = read.iter().map(|(_, user)| user.id.clone()).collect();
            let seen = self.base.visibility.visible_users(caller.reader(), ViewContext::Direct, people).await?;
            page.take(read.into_iter().map(|(at, user): (Millis, User)| {
                (AfterLiker { at, user: user.id.clone() }, seen.contains(&user.id).then_some(user))
            }));
        }
        Ok(page.finish().into())
    }

    /// A comment that the caller may see, and the authors of its ancestors. May be a deleted comment that stays because
    /// of its replies.
    ///
    /// # Errors
    /// `NO_COMMENT`; or the ledger cannot be read.
    pub(super) async fn visible(&self, caller: &Caller, id: CommentId) -> Result<(Comment, Vec<UserId>)> {
        let comment = self.base.ledger.comments(&[id]).await?.pop().ok_or(NO_COMMENT)?;
        if !self.base.visibility.can_see_post(caller.reader(), comment.post).await? {
            return Err(NO_COMMENT);
        }
        self.with_ancestors(caller, comment).await
    }

    /// As [`visible`](Self::visible), of a comment under this post. The visibility of the post is not checked.
    ///
    /// # Errors
    /// As for [`visible`](Self::visible).
    pub(super) async fn in_thread(
        &self,
        caller: &Caller,
        post: PostId,
        id: CommentId,
    ) -> Result<(Comment, Vec<UserId>)> {
        let found = self.base.ledger.comments(&[id]).await?.pop();
        self.with_ancestors(caller, found.filter(|comment| comment.post == post).ok_or(NO_COMMENT)?).await
    }

    async fn with_ancestors(&self, caller: &Caller, comment: Comment) -> Result<(Comment, Vec<UserId>)> {
        let above = self.ancestors(comment.reply_to).await?;
        if !self.base.visibility.can_see_all(caller.reader(), comment.author.iter().chain(&above)).await? {
            return Err(NO_COMMENT);
        }
        Ok((comment, above))
    }

    /// The authors of the ancestors of a comment, each once. Only readers that may see all of them may see the comment.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn ancestors(&self, parent: Option<CommentId>) -> Result<Vec<UserId>> {
        Ok(self.base.contexts.authors_in_threads([parent]).await?.into_values().next().unwrap_or_default())
    }

    /// Those of the comments whose post, author and ancestors the reader may see. The number of ledger calls does not
    /// depend on the number of comments.
    async fn visible_among(&self, reader: Option<&UserId>, comments: &[Comment]) -> Result<HashSet<CommentId>> {
        let posts = comments.iter().map(|comment| comment.post);
        let posts = self.base.visibility.visible_posts(reader, ViewContext::Direct, posts).await?;
        let threads = self.base.contexts.authors_in_threads(comments.iter().map(|comment| comment.reply_to)).await?;
        let people_of = |comment: &Comment| -> Vec<UserId> {
            let above = comment.reply_to.and_then(|parent| threads.get(&parent)).into_iter().flatten();
            comment.author.iter().chain(above).cloned().collect()
        };
        let people: HashSet<UserId> = comments.iter().flat_map(people_of).collect();
        let seen = self.base.visibility.visible_users(reader, ViewContext::Direct, people).await?;
        let is_visible = |comment: &&Comment| {
            posts.contains_key(&comment.post) && people_of(comment).iter().all(|person| seen.contains(person))
        };
        Ok(comments.iter().filter(is_visible).map(|comment| comment.id).collect())
    }

    async fn page(
        &self,
        reader: Option<&UserId>,
        mut items: Vec<Comment>,
        next: Option<String>,
    ) -> Result<CommentPage> {
        self.show_removed(reader, &mut items).await?;
        self.add_flags(reader, &mut items).await?;
        let people =
            load_people(&*self.base.ledger, items.iter().filter_map(|comment| comment.author.as_ref())).await?;
        Ok(CommentPage { items, people, next })
    }

    /// Shows the reader's own removed comments among these, which have the place of deleted ones. Makes no ledger call
    /// if there is no deleted comment.
    async fn show_removed(&self, reader: Option<&UserId>, comments: &mut [Comment]) -> Result<()> {
        let deleted: Vec<CommentId> =
            comments.iter().filter(|comment| comment.author.is_none()).map(|comment| comment.id).collect();
        let Some(reader) = reader.filter(|_| !deleted.is_empty()) else { return Ok(()) };
        for RemovedComment { comment, author } in self.base.ledger.removed_comments(&deleted).await? {
            if let (true, Some(place)) = (author == *reader, comments.iter_mut().find(|it| it.id == comment.id)) {
                *place = comment;
            }
        }
        Ok(())
    }

    /// Adds whether the reader likes each comment, in one ledger call.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn add_flags(&self, reader: Option<&UserId>, comments: &mut [Comment]) -> Result<()> {
        let existing = comments.iter().filter(|comment| comment.author.is_some());
        let ids: Vec<CommentId> = existing.map(|comment| comment.id).collect();
        let Some(reader) = reader.filter(|_| !ids.is_empty()) else { return Ok(()) };
        let liked: HashSet<CommentId> = self.base.ledger.liked_comments(reader, &ids).await?.into_iter().collect();
        for comment in comments.iter_mut().filter(|comment| comment.author.is_some()) {
            comment.liked = Some(liked.contains(&comment.id));
        }
        Ok(())
    }
}
