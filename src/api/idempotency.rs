//! Idempotency keys: a write with a key runs once.
//!
//! A caller that sends a key (`Idempotency-Key`, or `idempotency_key` in the input) may repeat the write for 24 hours:
//! it runs once, and every repeat gets the reply of the first. The ledger is written at both ends:
//!
//! 1. `begin` stores the key, a digest of the input, and the id reserved for what the operation creates, if it
//!    creates something.
//! 2. The operation runs. The post or comment gets the reserved id.
//! 3. `finish` stores the reply: success, or a permanent error. After other errors the key is released.
//!
//! A process that dies between 1 and 3 leaves a key without a reply. A repeat then runs the operation again with the id
//! of the first attempt, finds any object that the first attempt created, and does not create it twice. Operations that
//! create nothing are idempotent; for a repeated deletion, `not_found` counts as success.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::operations::{Access, Input, Operation};
use super::request::Request;
use crate::backoff::Backoff;
use crate::broker::Attempt;
use crate::feed::{Base, Caller, FeedError, Result, StoredError, now};
use crate::ledger::{BeginOutcome, IdempotentWrite, WriteLease};
use crate::model::{Millis, PostId, UserId};

/// The member of an input that has the key.
const KEY_MEMBER: &str = "idempotency_key";

/// How long a reply is stored, in milliseconds.
const RETENTION: u64 = 24 * 3600 * 1000;

/// The lease of a running write, in milliseconds. It is renewed twice in that time; after a crash, a repeat waits until
/// the lease expires.
const LEASE: u64 = 2_000;

/// How long a repeat waits for the first request before it fails with `in_progress`. Longer than a lease, so that a
/// repeat after a crash succeeds.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// The interval between removals of expired keys, and the keys removed at once: the ledger has a single writer.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(60);
const MAX_REMOVED: usize = 500;

/// Idempotency keys in the ledger.
pub(super) struct IdempotencyKeys {
    base: Arc<Base>,
}

impl IdempotencyKeys {
    /// Idempotency keys in the ledger of the feed.
    pub(super) fn new(base: Arc<Base>) -> Self {
        Self { base }
    }

    /// The stored reply of a write, if it has one.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn recall(&self, write: &IdempotentWrite) -> Result<Option<Result<Bytes>>> {
        let stored = self.base.ledger.recall(write, now().saturating_sub(RETENTION)).await?;
        Ok(stored.map(|reply| decode_reply(&reply)))
    }

    /// Runs a write, unless it has a stored reply. With `reserves_id`, an id is reserved for the object that it
    /// creates.
    ///
    /// # Errors
    /// Those of the write; [`FeedError::InProgress`] and [`FeedError::KeyReused`].
    pub(super) async fn run_once<F>(&self, write: &IdempotentWrite, reserves_id: bool, run: F) -> Result<Bytes>
    where
        F: FnOnce(Option<PostId>, Attempt) -> BoxFuture<'static, Result<Bytes>>,
    {
        let (reserved, turn, attempt) = match self.begin(write, reserves_id).await? {
            WritePlan::Run(reserved, turn, attempt) => (reserved, turn, attempt),
            WritePlan::Reply(reply) => return decode_reply(&reply),
        };
        let mut until = turn.until;
        let mut running = run(reserved, attempt);
        let ran = loop {
            tokio::select! {
                ran = &mut running => break ran,
                () = tokio::time::sleep(Duration::from_millis(LEASE / 2)) => until = self.renew(write, until).await,
            }
        };
        let noted = match encode_reply(&ran) {
            Some(answer) => self.base.ledger.finish(&write.user, &write.key, &answer).await,
            None => self.base.ledger.move_write_lease(&write.user, &write.key, until, 0).await,
        };
        if let Err(error) = noted {
            // The reply is returned anyway. A repeat will find the key without a reply and run again.
            tracing::warn!(%error, operation = write.operation, "what came of a write could not be kept");
        }
        ran
    }

    /// Renews the lease of a running write. Returns the new end of the lease.
    async fn renew(&self, write: &IdempotentWrite, until: Millis) -> Millis {
        let later = now().saturating_add(LEASE);
        match self.base.ledger.move_write_lease(&write.user, &write.key, until, later).await {
            Ok(()) => later,
            Err(error) => {
                tracing::warn!(%error, operation = write.operation, "a repeat of a slow write may run beside it");
                until
            }
        }
    }

    /// Begins the write, or finds its reply. Waits up to [`MAX_WAIT`] for another request that is running the write.
    async fn begin(&self, write: &IdempotentWrite, reserves_id: bool) -> Result<WritePlan> {
        let deadline = tokio::time::Instant::now() + MAX_WAIT;
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(500));
        loop {
            let now = now();
            let new = reserves_id.then(|| self.base.ids.next(now)).transpose()?;
            let turn = WriteLease { now, until: now.saturating_add(LEASE), since: now.saturating_sub(RETENTION) };
            match self.base.ledger.begin(write, new, turn).await? {
                BeginOutcome::Fresh => return Ok(WritePlan::Run(new, turn, Attempt::First)),
                BeginOutcome::Again(reserved) => return Ok(WritePlan::Run(reserved, turn, Attempt::Repeated)),
                BeginOutcome::Answered(answer) => return Ok(WritePlan::Reply(answer)),
                BeginOutcome::Reused => return Err(FeedError::KeyReused),
                BeginOutcome::Running if tokio::time::Instant::now() >= deadline => return Err(FeedError::InProgress),
                BeginOutcome::Running => tokio::time::sleep(backoff.next_delay()).await,
            }
        }
    }

    /// Removes expired keys until the process stops.
    pub(super) fn start(self: &Arc<Self>) {
        self.base.runtime.supervise("idempotency_keys", self, |keys| async move {
            while keys.base.runtime.sleep(CLEANUP_INTERVAL.mul_f64(rand::random_range(0.8..1.2))).await {
                loop {
                    match keys.base.ledger.delete_old_keys(now().saturating_sub(RETENTION), MAX_REMOVED).await {
                        Ok(MAX_REMOVED) => {}
                        Ok(_) => break,
                        Err(error) => {
                            tracing::warn!(%error, "old answers could not be removed");
                            break;
                        }
                    }
                    // Other writes run during this pause.
                    if !keys.base.runtime.sleep(Duration::from_millis(50)).await {
                        return;
                    }
                }
            }
        });
    }
}

/// The next step for a write with an idempotency key.
enum WritePlan {
    /// Run the write, with this id for the object that it creates, if any.
    Run(Option<PostId>, WriteLease, Attempt),
    /// Return this stored reply.
    Reply(Bytes),
}

/// Returns the write if the operation takes a key and the request has one. Removes the key from the input.
///
/// # Errors
/// If the key is malformed.
pub(super) fn take_key(operation: &Operation, request: &mut Request) -> Result<Option<IdempotentWrite>> {
    let user = match &request.caller {
        Caller::User(user) => user.clone(),
        Caller::Anonymous if operation.access == Access::Backend => UserId::backend(),
        Caller::Anonymous => return Ok(None),
    };
    if !operation.takes_key() {
        return Ok(None);
    }
    let wrong = |why: &'static str| FeedError::invalid(KEY_MEMBER, why);
    let within = match request.input.as_object_mut().and_then(|input| input.remove(KEY_MEMBER)) {
        None => None,
        Some(Value::String(key)) => Some(key),
        Some(_) => return Err(wrong("an idempotency key is text")),
    };
    let key = match (request.key.take(), within) {
        (Some(one), Some(other)) if one != other => return Err(wrong("two different idempotency keys")),
        (Some(key), _) | (None, Some(key)) => key,
        (None, None) => return Ok(None),
    };
    if !(1..=255).contains(&key.len()) || !key.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        return Err(wrong("an idempotency key is 1 to 255 printable ASCII characters"));
    }
    Ok(Some(IdempotentWrite { user, key, operation: operation.name, input: digest(&request.input) }))
}

/// A digest of an input that is the same over every transport: members are sorted, and a number is written as its
/// digits where a path or a query can only carry text.
fn digest(input: &Input) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for (name, value) in input.as_object().into_iter().flatten() {
        let value = match value {
            Value::Number(_) | Value::Bool(_) => Value::String(value.to_string()),
            other => other.clone(),
        };
        hasher.update(Value::from(name.as_str()).to_string());
        hasher.update(b":");
        hasher.update(value.to_string());
        hasher.update(b",");
    }
    hasher.finalize().into()
}

/// The first byte of a stored success; the reply follows.
const SUCCESS: u8 = b'+';
/// The first byte of a stored error; [`StoredError`] follows as JSON.
const REFUSAL: u8 = b'-';

/// A reply as it is stored; `None` for a temporary error.
fn encode_reply(ran: &Result<Bytes>) -> Option<Vec<u8>> {
    match ran {
        Ok(answer) => Some([&[SUCCESS], &answer[..]].concat()),
        Err(error) => {
            let json = serde_json::to_vec(&error.to_stored()?).ok()?;
            Some([&[REFUSAL], &json[..]].concat())
        }
    }
}

/// A stored reply.
fn decode_reply(kept: &Bytes) -> Result<Bytes> {
    match kept.split_first() {
        Some((&SUCCESS, _)) => Ok(kept.slice(1..)),
        Some((&REFUSAL, json)) => Err(match serde_json::from_slice::<StoredError>(json) {
            Ok(error) => FeedError::Stored(Box::new(error)),
            Err(_) => FeedError::Internal,
        }),
        _ => Err(FeedError::Internal),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn inputs_are_equal_by_path_query_and_body() {
        let one = json!({ "id": "12", "deep": { "a": 1, "b": [true] }, "flag": true });
        let other = json!({ "flag": "true", "deep": { "b": [true], "a": 1 }, "id": 12 });
        assert_eq!(digest(&one), digest(&other));
        for different in [
            json!({ "id": 13, "deep": { "a": 1, "b": [true] }, "flag": true }),
            json!({ "id": 12, "deep": { "a": "1", "b": [true] }, "flag": true }),
            json!({ "id": 12, "deep": { "a": 1, "b": [true] } }),
            json!({ "id": 12, "deep": { "a": 1, "b": [true] }, "flag": null }),
            json!({}),
        ] {
            assert_ne!(digest(&one), digest(&different), "{different}");
        }
        assert_ne!(digest(&json!({ "a": "1\",\"b\":\"2" })), digest(&json!({ "a": "1", "b": "2" })));
    }

    #[test]
    fn writes_with_secrets_take_no_idempotency_key() {
        let operations = super::super::operations::Operations::new();
        for (name, takes_key) in [("accounts.password", false), ("posts.create", true), ("posts.get", false)] {
            let operation = operations.by_rpc(name, false).expect(name);
            let mut request = Request {
                caller: Caller::User(crate::model::UserId::parse("ann").unwrap()),
                credential: crate::feed::Credential::Nothing,
                origin: crate::feed::Origin::Backend,
                client: None,
                key: Some("k".to_owned()),
                input: json!({ "old": "correct horse", "new": "battery staple" }),
                trace: None,
            };
            assert_eq!(take_key(operation, &mut request).unwrap().is_some(), takes_key, "{name}");
        }
    }

    #[test]
    fn successes_and_permanent_errors_are_replayed() {
        let text = |error: &FeedError| {
            (error.code(), error.status(), error.to_string(), error.field().map(str::to_owned), error.is_temporary())
        };
        assert_eq!(decode_reply(&encode_reply(&Ok("{}".into())).unwrap().into()).unwrap(), "{}");
        for error in [
            FeedError::invalid("text", "wrong"),
            FeedError::Invalid { field: None, message: "wrong".into() },
            FeedError::Forbidden("no"),
            FeedError::NotFound("no such post"),
            FeedError::Conflict { field: "user", message: "taken" },
            FeedError::LimitExceeded { field: "text", what: "characters", most: 3 },
        ] {
            let before = text(&error);
            let kept = encode_reply(&Err(error)).expect("it lasts");
            assert_eq!(text(&decode_reply(&kept.into()).unwrap_err()), before);
        }
        let limited = FeedError::RateLimited { what: "posts", retry_after: Duration::from_millis(1_500) };
        for error in [FeedError::Unavailable, FeedError::Internal, FeedError::TooMany("busy"), limited] {
            assert!(encode_reply(&Err(error)).is_none());
        }
    }
}
