//! Runs operations: authorises the caller, counts the call, and runs a write with an idempotency key once.

use std::sync::Arc;

use bytes::Bytes;

use super::admission::admit;
use super::heavy_reads::{HEAVY_COST, HeavyReads};
use super::idempotency::{IdempotencyKeys, take_key};
use super::operations::{Access, Effect, Operation};
use super::request::Request;
use crate::broker::Attempt;
use crate::feed::{Call, Caller, Feed, FeedError, NewUser, Origin, Result};

/// Runs operations on the feed.
pub struct Executor {
    feed: Arc<Feed>,
    keys: Arc<IdempotencyKeys>,
    heavy: HeavyReads,
}

/// Writes that suspended users can do: they remove data of the user, and show nothing to others.
const ALLOWED_WHILE_SUSPENDED: [&str; 3] = ["sessions.delete", "accounts.delete", "devices.remove"];

impl Executor {
    /// An executor for this feed: see [`start`](Self::start).
    pub fn new(feed: Arc<Feed>) -> Self {
        let keys = IdempotencyKeys::new(feed.base.clone());
        Self { feed, keys: Arc::new(keys), heavy: HeavyReads::new() }
    }

    /// Removes expired idempotency keys until the feed stops.
    pub fn start(&self) {
        self.keys.start();
    }

    /// Runs an operation. The reply is JSON.
    ///
    /// # Errors
    /// Everything in [`FeedError`].
    pub async fn run(&self, operation: &Operation, mut request: Request) -> Result<Bytes> {
        request.remove_nulls(operation);
        let identity = &self.feed.base.identity;
        if operation.access == Access::User {
            request.caller.user()?;
        }
        let new = match operation.effect {
            Effect::QueuedWrite(_) => NewUser::Settled,
            _ => NewUser::Recorded,
        };
        let user = identity.authorize(request.caller.reader(), &request.credential, new).await?;
        if operation.access == Access::Backend
            && (request.origin != Origin::Backend || request.caller != Caller::Anonymous)
        {
            return Err(FeedError::Forbidden("only a backend does this: send X-API-Key, and no X-User"));
        }
        let is_allowed =
            matches!(operation.effect, Effect::Read(_)) || ALLOWED_WHILE_SUSPENDED.contains(&operation.name);
        if let Some(user) = user.as_ref().filter(|_| !is_allowed) {
            identity.refuse_suspended(user).await?;
        }
        request.caller = user.map_or(Caller::Anonymous, Caller::User);
        let write = take_key(operation, &mut request)?;
        if let Err(limited) = admit(&self.feed.base.rates, operation, &request).await {
            // A repeat writes nothing and returns the reply of the first request. Its look-up counts as a read.
            let stored = match &write {
                Some(write) if self.feed.base.rates.take_user_reads(&write.user, 1).is_ok() => {
                    self.keys.recall(write).await?
                }
                _ => None,
            };
            return stored.unwrap_or(Err(limited));
        }
        let _permit = match operation.effect {
            Effect::Read(HEAVY_COST..) => Some(self.heavy.acquire(&request.caller, request.origin).await?),
            _ => None,
        };
        let Request { caller, credential, origin, client, input, trace, .. } = request;
        let handler = Arc::clone(&operation.handler);
        let feed = Arc::clone(&self.feed);
        let Some(write) = write else {
            let reader = caller.reader().cloned();
            let call =
                Call { caller, credential, origin, client, reserved: None, key: None, attempt: Attempt::First, trace };
            let running = handler(feed, call, input);
            let reply = match operation.effect {
                Effect::Read(_) | Effect::QueuedWrite(_) => running.await?,
                // What is stored is put in force even if the client disconnects.
                _ => self.feed.base.runtime.spawn(running).await.unwrap_or(Err(FeedError::Internal))?,
            };
            self.feed.base.rates.take_answer(reader.as_ref(), origin, reply.len())?;
            return Ok(reply);
        };
        let keys = Arc::clone(&self.keys);
        let key = Some((write.user.clone(), write.key.clone().into_boxed_str()));
        let run = move |reserved, attempt| {
            handler(feed, Call { caller, credential, origin, client, reserved, key, attempt, trace }, input)
        };
        // The task continues if the client disconnects. Otherwise its key would stay in use without a running write.
        let reserves_id = matches!(operation.effect, Effect::Create(_));
        let running = self.feed.base.runtime.spawn(async move { keys.run_once(&write, reserves_id, run).await });
        running.await.unwrap_or(Err(FeedError::Internal))
    }
}
