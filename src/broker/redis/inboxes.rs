//! Inboxes and fan-out in Redis.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::Cmd;

use super::command_connections::millis;
use super::inbox_cache::CachedInbox;
use super::page_command::page_command;
use super::scripts::SCRIPTS;
use super::{RedisBroker, replies};
use crate::broker::epoch::new_epoch;
use crate::broker::fan_out::{JOB_TTL, RETIRED_JOB_TTL, padded};
use crate::broker::inboxes::SLACK;
use crate::broker::{
    Attempt, BrokerError, FanOut, FannedOut, Inbox, InboxState, InboxStore, JobAttempt, JobProgress, Pull, Receipt,
    Result, Span,
};
use crate::model::{Entry, Epoch, GoneReason, InboxId, Position, PostId, UserId};

/// The metadata of an inbox expires a little later than its entries, so that an inbox always has metadata.
const META_MORE: Duration = Duration::from_secs(60);

impl RedisBroker {
    async fn amend(&self, inbox: &InboxId, kind: u8, posts: &[PostId], floor: PostId) -> Result<u64> {
        if posts.is_empty() && floor == PostId::ZERO {
            return Ok(0);
        }
        let mut call = SCRIPTS.amend.call(2);
        call.arg(&self.keys.inbox(inbox)[..]);
        let answer = self.call_with_run(call, |call| {
            let length = self.inbox.length_of(inbox);
            call.arg(&[kind][..]).arg(length).arg(length + SLACK).arg(floor.0);
            posts.iter().for_each(|id| _ = call.arg(id.0));
        });
        replies::parse(answer.await?)
    }

    /// The connection that receives the hints of an inbox in batches; empty: none. Those of lists come one by one.
    fn hint_connection(&self, inbox: &InboxId) -> String {
        match inbox {
            InboxId::Timeline(_) => self.pubsub.connection_of(&inbox.to_string()).unwrap_or_default().to_string(),
            InboxId::List(_) => String::new(),
        }
    }

    /// Reads the entries since the cached ones; `None` if the cache cannot be continued.
    async fn read_since(&self, keys: &[String; 2], known: &CachedInbox) -> Result<Option<Inbox>> {
        let mut link = self.commands.link()?;
        let commands = [about(keys), range(keys, &format!("0-{}", known.top()), None), range(keys, "-", Some(1))];
        let (about, news, oldest) = self.commands.send_atomic(&mut link, commands).await?;
        let first = replies::first_offset(&news).zip(replies::first_offset(&oldest));
        let news = replies::inbox(about, news, &self.run(&link))?;
        Ok(news.zip(first).and_then(|(news, (begins, oldest))| known.continued_by(news, begins, oldest)))
    }
}

/// The command that reads the metadata of an inbox.
fn about(keys: &[String; 2]) -> Cmd {
    let mut command = redis::cmd("HMGET");
    command.arg(&keys[1]).arg("r").arg("h").arg("f").arg("w");
    command
}

/// The command that reads the entries of an inbox.
fn range(keys: &[String; 2], from: &str, most: Option<usize>) -> Cmd {
    let mut command = redis::cmd("XRANGE");
    command.arg(&keys[0]).arg(from).arg("+");
    if let Some(most) = most {
        command.arg("COUNT").arg(most);
    }
    command
}

fn letter(reason: GoneReason) -> u8 {
    Entry::Gone(PostId::ZERO, reason).encode().0
}

#[async_trait]
impl InboxStore for RedisBroker {
    async fn open_inbox(&self, inbox: &InboxId) -> Result<InboxState> {
        let mut call = SCRIPTS.open.call(2);
        call.arg(&self.keys.inbox(inbox)[..]);
        let connection = self.hint_connection(inbox);
        let answer = self.call_with_run(call, |call| {
            let idle = self.inbox.idle;
            call.arg(&*new_epoch()).arg(millis(idle)).arg(millis(idle.saturating_add(META_MORE))).arg(connection);
        });
        replies::opening(answer.await?)
    }

    async fn fill_inbox(
        &self,
        inbox: &InboxId,
        epoch: &Epoch,
        posts: &[PostId],
        floor: PostId,
        mark: u64,
    ) -> Result<Option<Position>> {
        let mut call = SCRIPTS.fill.call(2);
        call.arg(&self.keys.inbox(inbox)[..]);
        let answer = self.call_with_run(call, |call| {
            let length = self.inbox.length_of(inbox);
            call.arg(&**epoch).arg(floor.0).arg(length).arg(length + SLACK).arg(mark);
            posts.iter().for_each(|id| _ = call.arg(id.0));
        });
        let top: Option<u64> = replies::parse(answer.await?)?;
        Ok(top.map(|offset| Position { offset, epoch: Arc::clone(epoch) }))
    }

    async fn merge_inbox(&self, inbox: &InboxId, posts: &[PostId], floor: PostId) -> Result<u64> {
        self.amend(inbox, Entry::Post(PostId::ZERO).encode().0, posts, floor).await
    }

    async fn add_own_post(&self, author: &UserId, post: PostId) -> Result<u64> {
        let mut call = SCRIPTS.add_own.call(2);
        call.arg(&self.keys.inbox(&InboxId::Timeline(author.clone()))[..]);
        let answer = self.call_with_run(call, |call| {
            let length = self.inbox.length;
            call.arg(post.0).arg(padded(post)).arg(length).arg(length + SLACK);
        });
        replies::parse(answer.await?)
    }

    async fn purge_inbox(&self, inbox: &InboxId, posts: &[PostId], reason: GoneReason) -> Result<u64> {
        self.amend(inbox, letter(reason), posts, PostId::ZERO).await
    }

    async fn read_inbox(&self, id: &InboxId) -> Result<Option<Inbox>> {
        let keys = self.keys.inbox(id);
        if let Some(known) = self.inbox_cache.get(id) {
            if let Some(inbox) = self.read_since(&keys, &known).await? {
                if !known.is_all_of(&inbox) {
                    self.inbox_cache.put(id, &inbox);
                }
                return Ok(Some(inbox));
            }
            self.inbox_cache.forget(id);
        }
        // Reading a thousand entries through Lua costs Redis several times as much as reading them directly.
        let mut link = self.commands.link()?;
        let commands = [about(&keys), range(&keys, "-", None)];
        let (about, all) = self.commands.send_atomic(&mut link, commands).await?;
        if let Some(inbox) = replies::inbox(about, all, &self.run(&link))? {
            self.inbox_cache.put(id, &inbox);
            return Ok(Some(inbox));
        }
        // The inbox is empty or does not exist; the script distinguishes the two.
        let part = self.read_part(&keys, Span::After(0, usize::MAX)).await?;
        Ok(part.map(|part| Inbox { top: part.top, floor: part.floor, mark: part.mark, entries: part.entries }))
    }

    async fn fan_out(&self, page: FanOut<'_>) -> Result<FannedOut> {
        if page.entry.post().is_none() {
            return Err(BrokerError::Failed("an inbox holds posts only".to_owned()));
        }
        let mut link = self.commands.link()?;
        if *self.run(&link) != *page.attempt.run {
            return Ok(FannedOut::Fenced);
        }
        let call = page_command(&self.keys, self.inbox.length, &page);
        replies::fanned_out(self.commands.send_on(&mut link, &call).await?)
    }

    fn run(&self) -> Result<Arc<str>> {
        Ok(self.run(&self.commands.link()?).into())
    }

    async fn begin_attempt(&self, attempt: &JobAttempt) -> Result<Option<JobProgress>> {
        let mut call = SCRIPTS.begin.call(1);
        call.arg(self.keys.job(attempt)).arg(attempt.token()).arg(JOB_TTL.as_secs());
        let fields: Option<Vec<String>> = replies::parse(self.commands.send(&call).await?)?;
        let Some(fields) = fields else { return Ok(None) };
        let mut progress = JobProgress::default();
        for pair in fields.chunks_exact(2) {
            progress.add(&pair[0], &pair[1]);
        }
        Ok(Some(progress))
    }

    async fn retire_job(&self, attempt: &JobAttempt) -> Result<()> {
        let mut expire = redis::cmd("EXPIRE");
        expire.arg(self.keys.job(attempt)).arg(RETIRED_JOB_TTL.as_secs());
        self.commands.send(&expire).await.map(drop)
    }

    async fn pull(&self, pull: Pull<'_>) -> Result<Vec<Receipt>> {
        let Some(post) = pull.entry.post() else {
            return Err(BrokerError::Failed("an inbox holds posts only".to_owned()));
        };
        let Some(first) = pull.inboxes.first() else { return Ok(Vec::new()) };
        let mut call = SCRIPTS.pull.call(2 * pull.inboxes.len());
        pull.inboxes.iter().for_each(|inbox| _ = call.arg(&self.keys.inbox(inbox)[..]));
        let (kind, body) = pull.entry.encode();
        call.arg(&[kind][..]).arg(&body[..]).arg(padded(post)).arg(self.inbox.length_of(first));
        call.arg(u8::from(pull.attempt == Attempt::Repeated)).arg(pull.mark);
        call.arg(self.keys.node_hints("")).arg(self.keys.user_in_inbox());
        replies::receipts(self.commands.send(&call).await?)
    }

    async fn catch_up_inbox(
        &self,
        inbox: &InboxId,
        epoch: &Epoch,
        entries: &[Entry],
        mark: u64,
    ) -> Result<Option<(Position, u64)>> {
        let mut call = SCRIPTS.catch_up.call(2);
        call.arg(&self.keys.inbox(inbox)[..]);
        let answer = self.call_with_run(call, |call| {
            let length = self.inbox.length_of(inbox);
            call.arg(&**epoch).arg(mark).arg(length).arg(length + SLACK);
            for entry in entries.iter().filter(|entry| entry.post().is_some()) {
                let (kind, body) = entry.encode();
                call.arg(&[kind][..]).arg(&body[..]);
            }
        });
        let found: Option<(u64, u64)> = replies::parse(answer.await?)?;
        Ok(found.map(|(written, offset)| (Position { offset, epoch: Arc::clone(epoch) }, written)))
    }
}
