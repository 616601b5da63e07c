//! Comments: what may be in one, how it is written, listed and deleted, and who is told of it.
//!
//! A post has a list of comments, and each of them a list of replies, and so on: a client reads one list at a time, newest
//! first. Whoever may not see the post finds none of it; whoever is kept from a comment's author does not find that
//! author's comments, nor what is below them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::audience::Surface;
use super::input::{CommentList, Done, OneComment};
use super::posts::mentioned;
use super::{Call, Caller, Feed, FeedError, Result, now};
use crate::broker::{Append, Invalidation, Keep};
use crate::ledger::{Commented, DEEPEST, EventConsumer, Tally, Thread};
use crate::model::{Comment, CommentId, Entry, Person, PostId, UserId};

/// What somebody says under a post.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CommentDraft {
    /// The post.
    id: PostId,
    /// What they say.
    text: String,
    /// The comment they reply to; absent: the post itself.
    #[serde(default)]
    reply_to: Option<CommentId>,
}

/// Comments, as a page.
#[derive(Serialize, JsonSchema)]
pub(super) struct CommentPage {
    /// The comments, newest first.
    items: Vec<Comment>,
    /// Their authors, by id.
    people: BTreeMap<String, Person>,
    /// Where to go on; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// How much of the log of `post:` is kept, for readers that come back.
const LIVE: Keep = Keep { size: 100, ttl: Duration::from_secs(3600) };

/// How often more is read for a page of which the reader may not see enough. A page may be short then; its cursor goes on.
const READS: usize = 5;

/// How many rows are read at once for such a page, at most.
const CHUNK: usize = 500;

const NO_COMMENT: FeedError = FeedError::NotFound("no such comment");

impl Feed {
    pub(super) async fn create_comment(&self, call: Call, draft: CommentDraft) -> Result<Comment> {
        let caller = &call.caller;
        let author = caller.user()?;
        self.welcome(author).await?;
        self.check_comment(&draft.text)?;
        self.post(caller, draft.id).await?;
        let above = match draft.reply_to {
            Some(parent) => {
                let (parent, above) = self.comment(caller, draft.id, parent).await?;
                parent.author.iter().cloned().chain(above).collect()
            }
            None => Vec::new(),
        };
        let id = CommentId(self.ids.for_call(&call, now())?.0);
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
        self.count_mentions(&call, &comment.mentions).await?;
        match self.ledger.create_comment(&comment).await? {
            Commented::Stored(tally) => self.tell_of_comment(author, &comment, &above, tally).await,
            // By an earlier attempt, and the event of it.
            Commented::Before => {}
            Commented::NoPost => return Err(super::posts::NO_POST),
            Commented::NoParent => return Err(NO_COMMENT),
            Commented::TooDeep => {
                let most = u64::from(DEEPEST);
                return Err(FeedError::LimitExceeded { field: "reply_to", what: "replies to replies", most });
            }
        }
        self.events.wake(EventConsumer::Notifications);
        Ok(comment)
    }

    fn check_comment(&self, text: &str) -> Result<()> {
        if text.trim().is_empty() {
            return Err(FeedError::invalid("text", "a comment says something"));
        }
        let most = self.options.limits.text;
        if text.chars().count() > most {
            return Err(FeedError::LimitExceeded { field: "text", what: "characters of a comment", most: most as u64 });
        }
        Ok(())
    }

    pub(super) async fn list_comments(&self, caller: Caller, list: CommentList) -> Result<CommentPage> {
        let (limit, cursor) = (list.limit()?, list.cursor()?);
        self.post(&caller, list.id).await?;
        if let Some(under) = list.under {
            self.thread_of(&caller, list.id, under).await?;
        }
        let thread = Thread { post: list.id, parent: list.under };
        let (items, next) = self.seen_in(&caller, thread, cursor, limit).await?;
        let people = self.people(items.iter().filter_map(|comment| comment.author.as_ref())).await?;
        Ok(CommentPage { items, people, next: next.map(|id| format!("c{id}")) })
    }

    /// At most `limit` comments of a thread below `cursor` that the caller may see, and where to go on.
    async fn seen_in(
        &self,
        caller: &Caller,
        thread: Thread,
        cursor: Option<CommentId>,
        limit: usize,
    ) -> Result<(Vec<Comment>, Option<CommentId>)> {
        let mut before = cursor.unwrap_or(CommentId::MAX);
        // One more than asked for tells whether there is a next page.
        let (mut items, mut chunk) = (Vec::with_capacity(limit + 1), limit + 1);
        for _ in 0..READS {
            let read = self.ledger.comments_in(thread, before, chunk).await?;
            let at_the_end = read.len() < chunk;
            before = read.last().map_or(before, |comment| comment.id);
            let authors: HashSet<UserId> = read.iter().filter_map(|comment| comment.author.clone()).collect();
            let seen = self.people_seen_by(caller.reader(), Surface::Direct, authors).await?;
            let visible = |comment: &Comment| comment.author.as_ref().is_none_or(|author| seen.contains(author));
            items.extend(read.into_iter().filter(visible));
            if items.len() > limit {
                items.truncate(limit);
                return Ok((items.clone(), items.last().map(|comment: &Comment| comment.id)));
            }
            if at_the_end {
                return Ok((items, None));
            }
            chunk = (chunk * 2).min(CHUNK);
        }
        Ok((items, Some(before)))
    }

    pub(super) async fn delete_comment(&self, call: Call, comment: OneComment) -> Result<Done> {
        let id = comment.id;
        let done = self.take_away(&call.caller, comment).await;
        self.deleted(&call, done, Invalidation::Comment(id)).await
    }

    /// Takes a comment back, or away from under one's post. Its author may do that although the post cannot be seen any more.
    async fn take_away(&self, caller: &Caller, comment: OneComment) -> Result<Done> {
        let user = caller.user()?;
        let found = self.ledger.comments(&[comment.id]).await?.pop().ok_or(NO_COMMENT)?;
        let author = found.author.clone().ok_or(NO_COMMENT)?;
        if author != *user {
            let body = self.post(caller, found.post).await.map_err(|error| match error {
                FeedError::NotFound(_) => NO_COMMENT,
                error => error,
            })?;
            if body.post.author != *user {
                self.comment(caller, found.post, comment.id).await?;
                return Err(FeedError::Forbidden("only its author, and the post's, can delete a comment"));
            }
        }
        self.remove_comment(&found, Some(&author)).await?;
        Ok(Done {})
    }

    /// Deletes a comment, on every node before it returns, and tells those who look at the post: those who may see what `author`
    /// (`None`: an erased user, whom nobody sees) and those above wrote.
    pub(super) async fn remove_comment(&self, comment: &Comment, author: Option<&UserId>) -> Result<()> {
        let mut above = self.above(comment.parent).await?;
        above.retain(|person| !self.is_erased(person));
        let deleted = self.ledger.delete_comment(comment.id).await?;
        let along = deleted.iter().flat_map(|gone| gone.along.iter().copied());
        let gone: Vec<_> = std::iter::once(comment.id).chain(along).map(Invalidation::Comment).collect();
        let invalidated = self.announce(&gone).await;
        // Whoever lost a race against another deletion has what they wanted, and the other tells of it.
        if let Some(gone) = deleted {
            let entry = |by: Vec<UserId>, gone| if by.is_empty() { Entry::Data(gone) } else { Entry::By(by, gone) };
            let by = author.into_iter().chain(&above).cloned().collect();
            let mut told = vec![entry(by, gone_comment(comment.id, gone.stays))];
            told.extend(gone.along.into_iter().map(|id| entry(above.clone(), gone_comment(id, false))));
            self.tell_under(comment.post, told, gone.tally).await;
        }
        self.confirm(invalidated?).await;
        Ok(())
    }

    /// A comment under a post that the caller may see and reply to, and those who wrote what is above it. Whether the post may
    /// be seen is the caller's to ask.
    async fn comment(&self, caller: &Caller, post: PostId, id: CommentId) -> Result<(Comment, Vec<UserId>)> {
        let (comment, above) = self.thread_of(caller, post, id).await?;
        if comment.author.is_some() { Ok((comment, above)) } else { Err(NO_COMMENT) }
    }

    /// The same, or a deleted one that stays for the sake of its replies.
    async fn thread_of(&self, caller: &Caller, post: PostId, id: CommentId) -> Result<(Comment, Vec<UserId>)> {
        let found = self.ledger.comments(&[id]).await?.pop();
        let comment = found.filter(|comment| comment.post == post).ok_or(NO_COMMENT)?;
        let above = self.above(comment.parent).await?;
        if !self.sees_all(caller.reader(), comment.author.iter().chain(&above)).await? {
            return Err(NO_COMMENT);
        }
        Ok((comment, above))
    }

    /// Those who wrote what is above a comment, its parent and what that replies to, each once. It is for those who may see all of them.
    async fn above(&self, parent: Option<CommentId>) -> Result<Vec<UserId>> {
        Ok(self.lines_of([parent]).await?.into_values().next().unwrap_or_default())
    }

    /// By comment those who wrote it and what is above it. Of comments that have nothing above them there is nothing to ask.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn lines_of(
        &self,
        parents: impl IntoIterator<Item = Option<CommentId>>,
    ) -> Result<HashMap<CommentId, Vec<UserId>>> {
        let parents: HashSet<CommentId> = parents.into_iter().flatten().collect();
        let mut lines: HashMap<CommentId, Vec<UserId>> = HashMap::new();
        if !parents.is_empty() {
            for (comment, author) in self.ledger.lines(&parents.into_iter().collect::<Vec<_>>()).await? {
                lines.entry(comment).or_default().push(author);
            }
        }
        Ok(lines)
    }

    pub(super) async fn sees_all(
        &self,
        reader: Option<&UserId>,
        people: impl Iterator<Item = &UserId> + Send,
    ) -> Result<bool> {
        let people: HashSet<UserId> = people.cloned().collect();
        let many = people.len();
        Ok(self.people_seen_by(reader, Surface::Direct, people).await?.len() == many)
    }

    /// Tells those who look at the post.
    async fn tell_of_comment(&self, author: &UserId, comment: &Comment, above: &[UserId], tally: Tally) {
        let people = self.people(std::iter::once(author)).await.unwrap_or_else(|error| {
            tracing::warn!(%error, comment = %comment.id, "a comment is told without its author's name");
            BTreeMap::new()
        });
        #[derive(Serialize)]
        struct Arrived<'a> {
            r#type: &'static str,
            comment: &'a Comment,
            people: BTreeMap<String, Person>,
        }
        match serde_json::to_string(&Arrived { r#type: "comment", comment, people }) {
            Ok(data) => {
                let by = std::iter::once(author).chain(above).cloned().collect();
                let arrived = Entry::By(by, format!(r#""data":{data}"#).into());
                self.tell_under(comment.post, vec![arrived], tally).await;
            }
            Err(error) => tracing::error!(%error, comment = %comment.id, "a comment could not be encoded"),
        }
    }

    /// Tells what happened under a post, and its counts after it. Their version keeps an older count from coming after a
    /// newer one. What cannot be told now is found when the comments are read.
    async fn tell_under(&self, post: PostId, happened: Vec<Entry>, tally: Tally) {
        let channel = format!("post:{post}");
        let counts = (Entry::Data(counts(post, tally)), Some((tally.version, "counts")));
        for (entry, version) in happened.into_iter().map(|entry| (entry, None)).chain([counts]) {
            let append = Append { channel: &channel, entry: &entry, keep: LIVE, idempotency_key: None, version };
            if let Err(error) = self.broker.append(append).await {
                tracing::warn!(%error, %post, "a change under a post is stored, those who look at it are not told");
                return;
            }
        }
    }
}

fn gone_comment(id: CommentId, stays: bool) -> Bytes {
    format!(r#""data":{{"type":"gone","comment":{id},"stays":{stays}}}"#).into()
}

fn counts(post: PostId, tally: Tally) -> Bytes {
    let Tally { likes, comments, version } = tally;
    format!(r#""data":{{"type":"counts","id":{post},"likes":{likes},"comments":{comments},"version":{version}}}"#)
        .into()
}
