//! Comments: written, listed, deleted, and pushed to the subscribers of the post.
//!
//! A post has a list of comments, and each comment has a list of replies. A client reads one list at a time, newest
//! first. Comments are visible to readers that may see the post. A comment and the replies below it are omitted if the
//! reader may not see the author of the comment.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::draft::mentioned;
use crate::broker::{Append, Broker, Invalidation};
use crate::feed::call::{Call, Caller};
use crate::feed::error::{FeedError, NO_COMMENT, NO_POST, Result};
use crate::feed::input::{CommentList, Done, OneComment};
use crate::feed::paging::{PageBuilder, PageCursor as _};
use crate::feed::rendering::load_people;
use crate::feed::runtime::now;
use crate::feed::visibility::{CommentContexts, ViewContext, VisibilityPolicy};
use crate::feed::write_path::WritePath;
use crate::ledger::{CommentOutcome, EventConsumer, Ledger, MAX_COMMENT_DEPTH, Tally, Thread};
use crate::model::{Channel, Comment, CommentId, Entry, Event, Person, PostId, Retention, UserId};

/// A comment as its author writes it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommentDraft {
    /// The post.
    id: PostId,
    /// The text.
    text: String,
    /// The comment that it replies to; absent: the post itself.
    #[serde(default)]
    reply_to: Option<CommentId>,
}

/// Comments, as a page.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CommentPage {
    /// The comments, newest first.
    items: Vec<Comment>,
    /// Their authors, by id.
    people: BTreeMap<String, Person>,
    /// The `cursor` of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// The maximal number of reads for one page if the reader may not see enough of the comments. After that the page is
/// short, and its cursor continues.
const MAX_READS: usize = 5;

/// The comments on posts.
pub(crate) struct CommentService {
    ledger: Arc<dyn Ledger>,
    broker: Arc<dyn Broker>,
    /// The services that all commands with writes share.
    write: WritePath,
    visibility: Arc<VisibilityPolicy>,
    contexts: Arc<CommentContexts>,
    /// The maximal number of characters of a comment.
    max_text: usize,
}

impl CommentService {
    /// Manages the comments in this ledger, and pushes them with this broker.
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        broker: Arc<dyn Broker>,
        write: WritePath,
        visibility: Arc<VisibilityPolicy>,
        contexts: Arc<CommentContexts>,
        max_text: usize,
    ) -> Self {
        Self { ledger, broker, write, visibility, contexts, max_text }
    }

    pub(crate) async fn create(&self, call: Call, draft: CommentDraft) -> Result<Comment> {
        let caller = &call.caller;
        let author = caller.user()?;
        self.write.identity.ensure_user(author).await?;
        self.check_comment(&draft.text)?;
        self.visibility.post(caller.reader(), draft.id).await?;
        let above = match draft.reply_to {
            Some(parent) => {
                let (parent, above) = self.comment(caller, draft.id, parent).await?;
                parent.author.iter().cloned().chain(above).collect()
            }
            None => Vec::new(),
        };
        let id = CommentId(self.write.ids.for_call(&call, now())?.0);
        let comment = Comment {
            id,
            post: draft.id,
            parent: draft.reply_to,
            author: Some(author.clone()),
            mentions: mentioned(&draft.text),
            text: Some(draft.text),
            created_at: id.time(),
            likes: 0,
            replies: 0,
        };
        self.write.rates.take_mentions(&call, &comment.mentions).await?;
        match self.ledger.create_comment(&comment).await? {
            CommentOutcome::Stored(tally) => self.push_comment(author, &comment, &above, tally).await,
            // An earlier attempt stored the comment together with its event.
            CommentOutcome::Before => {}
            CommentOutcome::NoPost => return Err(NO_POST),
            CommentOutcome::NoParent => return Err(NO_COMMENT),
            CommentOutcome::TooDeep => {
                let most = u64::from(MAX_COMMENT_DEPTH);
                return Err(FeedError::LimitExceeded { field: "reply_to", what: "replies to replies", most });
            }
        }
        self.write.events.wake(EventConsumer::Notifications);
        Ok(comment)
    }

    fn check_comment(&self, text: &str) -> Result<()> {
        if text.trim().is_empty() {
            return Err(FeedError::invalid("text", "a comment says something"));
        }
        let most = self.max_text;
        if text.chars().count() > most {
            return Err(FeedError::LimitExceeded { field: "text", what: "characters of a comment", most: most as u64 });
        }
        Ok(())
    }

    pub(crate) async fn list(&self, caller: Caller, list: CommentList) -> Result<CommentPage> {
        let (limit, cursor) = list.page.decode::<CommentId>()?;
        self.visibility.post(caller.reader(), list.id).await?;
        if let Some(under) = list.reply_to {
            self.comment_in_thread(&caller, list.id, under).await?;
        }
        let thread = Thread { post: list.id, parent: list.reply_to };
        let mut page = PageBuilder::with_max_reads(cursor, limit, MAX_READS);
        while let Some((before, count)) = page.wants() {
            let read = self.ledger.comments_in(thread, before.unwrap_or(CommentId::MAX), count).await?;
            let authors: HashSet<UserId> = read.iter().filter_map(|comment| comment.author.clone()).collect();
            let seen = self.visibility.visible_users(caller.reader(), ViewContext::Direct, authors).await?;
            page.take(read.into_iter().map(|comment| {
                let is_visible = comment.author.as_ref().is_none_or(|author| seen.contains(author));
                (comment.id, is_visible.then_some(comment))
            }));
        }
        let (items, next) = page.finish();
        let people = load_people(&*self.ledger, items.iter().filter_map(|comment| comment.author.as_ref())).await?;
        Ok(CommentPage { items, people, next: next.map(|id| id.encode()) })
    }

    pub(crate) async fn delete(&self, call: Call, comment: OneComment) -> Result<Done> {
        let id = comment.id;
        let done = self.delete_own(&call.caller, comment).await;
        self.write.repeated_deletion(&call, done, Invalidation::Comment(id)).await
    }

    /// Deletes a comment of the caller, or a comment on a post of the caller. The author of a comment may delete it
    /// even if the post is no longer visible to them.
    async fn delete_own(&self, caller: &Caller, comment: OneComment) -> Result<Done> {
        let user = caller.user()?;
        let found = self.ledger.comments(&[comment.id]).await?.pop().ok_or(NO_COMMENT)?;
        let author = found.author.clone().ok_or(NO_COMMENT)?;
        if author != *user {
            let cached = self.visibility.post(caller.reader(), found.post).await.map_err(|error| match error {
                FeedError::NotFound(_) => NO_COMMENT,
                error => error,
            })?;
            if cached.post.author != *user {
                self.comment(caller, found.post, comment.id).await?;
                return Err(FeedError::Forbidden("only its author, and the post's, can delete a comment"));
            }
        }
        self.remove(&found, Some(&author)).await?;
        Ok(Done {})
    }

    /// Deletes a comment and waits until it is gone on every node. Pushes the removal to subscribers of the post that
    /// may see `author` and the authors of the ancestors. `author` is `None` for an erased user, which is visible to no
    /// one.
    /// # Errors
    /// If a store cannot be reached.
    pub(crate) async fn remove(&self, comment: &Comment, author: Option<&UserId>) -> Result<()> {
        let mut above = self.ancestors(comment.parent).await?;
        above.retain(|person| !self.write.identity.is_erased(person));
        let deleted = self.ledger.delete_comment(comment.id).await?;
        let along = deleted.iter().flat_map(|gone| gone.along.iter().copied());
        let gone: Vec<_> = std::iter::once(comment.id).chain(along).map(Invalidation::Comment).collect();
        let invalidated = self.write.invalidator.announce(&gone).await;
        // `None`: a concurrent deletion came first, and pushes the removal.
        if let Some(gone) = deleted {
            let entry =
                |by: Vec<UserId>, gone| if by.is_empty() { Entry::Data(gone) } else { Entry::Restricted(by, gone) };
            let by = author.into_iter().chain(&above).cloned().collect();
            let mut events = vec![entry(by, gone_comment(comment.id, gone.stays))];
            events.extend(gone.along.into_iter().map(|id| entry(above.clone(), gone_comment(id, false))));
            self.push_under(comment.post, events, gone.tally).await;
        }
        self.write.invalidator.confirm(invalidated?).await;
        Ok(())
    }

    /// A comment that the caller may see and reply to, and the authors of its ancestors. The visibility of the post is
    /// not checked.
    async fn comment(&self, caller: &Caller, post: PostId, id: CommentId) -> Result<(Comment, Vec<UserId>)> {
        let (comment, above) = self.comment_in_thread(caller, post, id).await?;
        if comment.author.is_some() { Ok((comment, above)) } else { Err(NO_COMMENT) }
    }

    /// As [`comment`](Self::comment), including a deleted comment that stays because of its replies.
    async fn comment_in_thread(&self, caller: &Caller, post: PostId, id: CommentId) -> Result<(Comment, Vec<UserId>)> {
        let found = self.ledger.comments(&[id]).await?.pop();
        let comment = found.filter(|comment| comment.post == post).ok_or(NO_COMMENT)?;
        let above = self.ancestors(comment.parent).await?;
        if !self.visibility.can_see_all(caller.reader(), comment.author.iter().chain(&above)).await? {
            return Err(NO_COMMENT);
        }
        Ok((comment, above))
    }

    /// The authors of the ancestors of a comment, each once. Only readers that may see all of them may see the comment.
    async fn ancestors(&self, parent: Option<CommentId>) -> Result<Vec<UserId>> {
        Ok(self.contexts.authors_in_threads([parent]).await?.into_values().next().unwrap_or_default())
    }

    /// Pushes a new comment to the subscribers of the post.
    async fn push_comment(&self, author: &UserId, comment: &Comment, above: &[UserId], tally: Tally) {
        let people = load_people(&*self.ledger, std::iter::once(author)).await.unwrap_or_else(|error| {
            tracing::warn!(%error, comment = %comment.id, "a comment is pushed without its author's name");
            BTreeMap::new()
        });
        let by = std::iter::once(author).chain(above).cloned().collect();
        let event = Event::Comment { comment, people: &people };
        self.push_under(comment.post, vec![Entry::Restricted(by, event.encode())], tally).await;
    }

    /// Pushes events of a post, then its counts. Because of their version, older counts cannot replace newer ones. A
    /// failed push does no harm: clients get the change when they read the comments.
    async fn push_under(&self, post: PostId, events: Vec<Entry>, tally: Tally) {
        let channel = Channel::Post(post).to_string();
        let counts = (Entry::Data(Event::counts(post, tally).encode()), Some((tally.version, "counts")));
        for (entry, version) in events.into_iter().map(|entry| (entry, None)).chain([counts]) {
            let append = Append {
                channel: &channel,
                entry: &entry,
                retention: Retention::SHARED,
                idempotency_key: None,
                version,
            };
            if let Err(error) = self.broker.append(append).await {
                tracing::warn!(%error, %post, "a change under a post is stored and not pushed");
                return;
            }
        }
    }
}

fn gone_comment(comment: CommentId, stays: bool) -> Bytes {
    Event::CommentGone { comment, stays }.encode()
}
