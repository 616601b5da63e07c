//! Comments: written, edited, deleted, and pushed to the subscribers of the post.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;

use super::comment_reader::CommentReader;
use super::draft::mentioned;
use crate::broker::{Append, Invalidation};
use crate::feed::base::Base;
use crate::feed::call::{Call, Caller};
use crate::feed::error::{FeedError, NO_COMMENT, NO_POST, Result};
use crate::feed::input::{Done, OneComment};
use crate::feed::runtime::now;
use crate::feed::visibility::may_comment;
use crate::ledger::{CommentEditOutcome, CommentOutcome, EventConsumer, MAX_COMMENT_DEPTH, Tally};
use crate::model::{
    Channel, ClientEvent, Comment, CommentChanged, CommentId, DomainEvent, Entry, PostId, RemovedComment, Retention,
    UserId,
};
use crate::text::is_blank;

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

/// A change of a comment.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommentEdit {
    /// The comment.
    id: CommentId,
    /// The new text.
    text: String,
}

/// The maximal number of attempts of an edit after conflicts with others of the same comment, and the longest pause
/// between two attempts.
const MAX_EDIT_ATTEMPTS: u32 = 16;
const MAX_EDIT_PAUSE: Duration = Duration::from_millis(50);

/// The comments on posts.
pub(crate) struct CommentService {
    base: Arc<Base>,
    reader: Arc<CommentReader>,
}

impl CommentService {
    /// Manages the comments in this ledger, and pushes them with this broker.
    pub(crate) fn new(base: Arc<Base>, reader: Arc<CommentReader>) -> Self {
        Self { base, reader }
    }

    pub(crate) async fn create(&self, call: Call, draft: CommentDraft) -> Result<Comment> {
        let caller = &call.caller;
        let author = caller.user()?;
        self.check_comment(&draft.text)?;
        let cached = self.base.visibility.post(caller.reader(), draft.id).await?;
        cached.check_is_no_repost()?;
        if cached.post.removed.is_some() {
            return Err(FeedError::Forbidden("this post was removed"));
        }
        if !may_comment(&self.base.visibility, author, &cached).await? {
            return Err(FeedError::Forbidden("the author of this post has limited who may comment"));
        }
        let above = match draft.reply_to {
            Some(parent) => {
                let (parent, above) = self.comment(caller, draft.id, parent).await?;
                parent.author.iter().cloned().chain(above).collect()
            }
            None => Vec::new(),
        };
        let id = CommentId(self.base.ids.for_call(&call, now())?.0);
        let mut comment = Comment {
            id,
            post: draft.id,
            reply_to: draft.reply_to,
            author: Some(author.clone()),
            mentions: mentioned(&draft.text),
            text: Some(draft.text),
            created_at: id.time(),
            likes: 0,
            replies: 0,
            edited_at: None,
            liked: None,
            filtered: Vec::new(),
            removed: None,
        };
        let ((), known) = tokio::try_join!(
            self.base.rates.take_mentions(&call, &comment.mentions),
            self.base.identity.spellings(comment.mentions.iter()),
        )?;
        UserId::respell(&mut comment.mentions, &known);
        match self.base.ledger.create_comment(&comment).await? {
            CommentOutcome::Stored(tally) => self.push_change(author, &comment, &above, Some(tally)).await,
            // An earlier attempt stored the comment together with its event.
            CommentOutcome::Before => {}
            CommentOutcome::NoPost => return Err(NO_POST),
            CommentOutcome::NoParent => return Err(NO_COMMENT),
            CommentOutcome::TooDeep => {
                let most = u64::from(MAX_COMMENT_DEPTH);
                return Err(FeedError::LimitExceeded { field: "reply_to", what: "replies to replies", most });
            }
        }
        self.base.events.wake(EventConsumer::Notifications);
        comment.liked = Some(false);
        Ok(comment)
    }

    /// Replaces the text of a comment of the caller, by compare-and-set. The caller must still be able to see the
    /// comment: the edit shows a text to others.
    pub(crate) async fn edit(&self, call: Call, edit: CommentEdit) -> Result<Comment> {
        let author = call.caller.user()?;
        self.check_comment(&edit.text)?;
        for attempt in 0..MAX_EDIT_ATTEMPTS {
            let (before, above) = self.reader.visible(&call.caller, edit.id).await?;
            if before.author.as_ref().ok_or(NO_COMMENT)? != author {
                return Err(FeedError::Forbidden("only its author can edit a comment"));
            }
            if before.text.as_ref() == Some(&edit.text) {
                let mut unchanged = before;
                self.reader.add_flags(Some(author), std::slice::from_mut(&mut unchanged)).await?;
                return Ok(unchanged);
            }
            let now = now();
            let mut after = before.clone();
            after.mentions = mentioned(&edit.text);
            let known = self.base.identity.spellings(after.mentions.iter()).await?;
            UserId::respell(&mut after.mentions, &known);
            after.text = Some(edit.text.clone());
            // The version of the comment. It grows with each edit, even if the clock does not advance or goes back.
            after.edited_at = Some(before.edited_at.map_or(now, |last| now.max(last + 1)));
            let event = DomainEvent::comment_edited(&before, &after);
            if let (0, Some(DomainEvent::CommentEdited { mentions, .. })) = (attempt, &event) {
                self.base.rates.take_mentions(&call, mentions).await?;
            }
            match self.base.ledger.edit_comment(&before, &after, event.as_ref()).await? {
                CommentEditOutcome::Edited => {
                    self.push_change(author, &after, &above, None).await;
                    self.base.events.wake(EventConsumer::Notifications);
                    self.reader.add_flags(Some(author), std::slice::from_mut(&mut after)).await?;
                    return Ok(after);
                }
                CommentEditOutcome::Missing => return Err(NO_COMMENT),
                CommentEditOutcome::Conflict => {}
            }
            let pause = MAX_EDIT_PAUSE.min(Duration::from_millis(2 << attempt.min(8)));
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.0..1.0))).await;
        }
        Err(FeedError::Busy("this comment is being edited by too many at once, try again"))
    }

    fn check_comment(&self, text: &str) -> Result<()> {
        if is_blank(text) {
            return Err(FeedError::invalid("text", "a comment says something"));
        }
        let most = self.base.options.limits.text;
        if text.chars().count() > most {
            return Err(FeedError::LimitExceeded { field: "text", what: "characters of a comment", most: most as u64 });
        }
        Ok(())
    }

    pub(crate) async fn delete(&self, call: Call, comment: OneComment) -> Result<Done> {
        let id = comment.id;
        let done = self.delete_own(&call.caller, comment).await;
        self.base.invalidator.repeated_deletion(&call, done, Invalidation::Comment(id)).await
    }

    /// Deletes a comment of the caller, or a comment on a post of the caller. The author of a comment may delete it
    /// even if the post is no longer visible to them.
    async fn delete_own(&self, caller: &Caller, comment: OneComment) -> Result<Done> {
        let user = caller.user()?;
        let found = self.base.ledger.comments(&[comment.id]).await?.pop().ok_or(NO_COMMENT)?;
        let author = found.author.clone().ok_or(NO_COMMENT)?;
        if author != *user {
            let cached = self.base.visibility.post(caller.reader(), found.post).await.map_err(|error| match error {
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
        let mut above = self.reader.ancestors(comment.reply_to).await?;
        above.retain(|person| !self.base.identity.is_erased(person));
        let event = DomainEvent::comment_deleted(comment);
        let deleted = self.base.ledger.delete_comment(comment.id, event.as_ref(), now()).await?;
        self.base.events.wake(EventConsumer::Notifications);
        let along = deleted.iter().flat_map(|gone| gone.along.iter().copied());
        let gone: Vec<_> = std::iter::once(comment.id).chain(along).map(Invalidation::Comment).collect();
        let invalidated = self.base.invalidator.announce(&gone).await;
        // `None`: a concurrent deletion came first, and pushes the removal.
        if let Some(gone) = deleted {
            let entry =
                |by: Vec<UserId>, gone| if by.is_empty() { Entry::Data(gone) } else { Entry::Restricted(by, gone) };
            let by = author.into_iter().chain(&above).cloned().collect();
            let mut events = vec![entry(by, gone_comment(comment.id, gone.stays))];
            events.extend(gone.along.into_iter().map(|id| entry(above.clone(), gone_comment(id, false))));
            self.push_under(comment.post, events, Some(gone.tally)).await;
        }
        self.base.invalidator.confirm(invalidated?).await;
        Ok(())
    }

    /// Takes a comment out of its thread for the application's backend. It is shown as a deleted one, and its author
    /// still sees it. Returns when the change is in force on every node. A repeated call changes nothing, and announces
    /// the removal again, because the first announcement may have failed.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(crate) async fn take_out(&self, comment: &Comment, reason: Option<&str>) -> Result<()> {
        let above = self.reader.ancestors(comment.reply_to).await?;
        let event = DomainEvent::comment_removed(comment);
        let removed = self.base.ledger.remove_comment(comment.id, reason, event.as_ref(), now()).await?;
        self.base.events.wake(EventConsumer::Notifications);
        let invalidated = self.base.invalidator.announce(&[Invalidation::Comment(comment.id)]).await;
        if let (Some(tally), Some(author)) = (removed, &comment.author) {
            let people = std::iter::once(author).chain(&above).cloned().collect();
            let gone = Entry::Restricted(people, gone_comment(comment.id, true));
            self.push_under(comment.post, vec![gone], Some(tally)).await;
        }
        self.base.invalidator.confirm(invalidated?).await;
        Ok(())
    }

    /// Puts a removed comment back into its thread, and pushes it like an edit.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(crate) async fn put_back(&self, removed: RemovedComment) -> Result<()> {
        let RemovedComment { comment, author } = removed;
        let tally = self.base.ledger.restore_comment(comment.id).await?;
        let changed = [Invalidation::Comment(comment.id), Invalidation::Thread(comment.post)];
        let invalidated = self.base.invalidator.announce(&changed).await;
        if tally.is_some() {
            let above = self.reader.ancestors(comment.reply_to).await?;
            let people = std::iter::once(author).chain(above).collect();
            let back = Entry::Comment(Box::new(CommentChanged { comment: comment.id, is_edit: true, people }));
            self.push_under(comment.post, vec![back], tally).await;
        }
        self.base.invalidator.confirm(invalidated?).await;
        Ok(())
    }

    /// A comment that the caller may see and reply to, and the authors of its ancestors. The visibility of the post is
    /// not checked.
    async fn comment(&self, caller: &Caller, post: PostId, id: CommentId) -> Result<(Comment, Vec<UserId>)> {
        let (comment, above) = self.reader.in_thread(caller, post, id).await?;
        if comment.author.is_some() { Ok((comment, above)) } else { Err(NO_COMMENT) }
    }

    /// Pushes a comment that is new (with the counts of its post) or was edited. The entry has the ids alone: every
    /// delivery shows the present text. Pushes of concurrent edits may change places: clients keep the one with the
    /// greatest `edited_at`.
    async fn push_change(&self, author: &UserId, comment: &Comment, above: &[UserId], tally: Option<Tally>) {
        let people = std::iter::once(author).chain(above).cloned().collect();
        let changed = CommentChanged { comment: comment.id, is_edit: comment.edited_at.is_some(), people };
        self.push_under(comment.post, vec![Entry::Comment(Box::new(changed))], tally).await;
    }

    /// Pushes events of a post, then its counts, if they changed. Because of their version, older counts cannot replace
    /// newer ones. A failed push does no harm: clients get the change when they read the comments.
    async fn push_under(&self, post: PostId, events: Vec<Entry>, tally: Option<Tally>) {
        let channel = Channel::Post(post).to_string();
        let counts = tally
            .map(|tally| (Entry::Data(ClientEvent::counts(post, tally).encode()), Some((tally.version, "counts"))));
        for (entry, version) in events.into_iter().map(|entry| (entry, None)).chain(counts) {
            let append = Append {
                channel: &channel,
                entry: &entry,
                retention: Retention::SHARED,
                idempotency_key: None,
                version,
            };
            if let Err(error) = self.base.broker.append(append).await {
                tracing::warn!(%error, %post, "a change under a post is stored and not pushed");
                return;
            }
        }
    }
}

fn gone_comment(comment: CommentId, stays: bool) -> Bytes {
    ClientEvent::CommentGone { comment, stays }.encode()
}
