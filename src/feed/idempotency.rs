//! Runs an operation: who may, how often, and a write that its caller named once.
//!
//! A caller that names a write (`Idempotency-Key`, or `idempotency_key` in the input) may repeat it for 24 hours: it is
//! done once, and every repeat is answered as the first was. What happened is written to the ledger at both ends:
//!
//! 1. `begin` notes the key, a digest of the input and an id for what the operation creates, before it runs.
//! 2. The operation runs. One that creates something gives it that id.
//! 3. `finish` notes the answer: success, or an error that will not pass. Other errors give the turn back.
//!
//! A process that dies between 1 and 3 leaves a key without an answer. A repeat runs the operation again, with the id of
//! the first attempt: what was created then is found, and not created twice. Operations that create nothing set or
//! take away, and may be repeated by their nature; to a deletion that is repeated so, nothing there is success.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::error::Remembered;
use super::operations::{Input, Operation, Request};
use super::{Call, Caller, Feed, FeedError, NewUser, Result, heavy, now};
use crate::broker::Attempt;
use crate::ledger::{Begun, Keyed, Turn};
use crate::model::{Millis, PostId};

/// The member of an input that names a write.
const MEMBER: &str = "idempotency_key";

/// How long an answer is kept, in milliseconds.
const KEPT: u64 = 24 * 3600 * 1000;

/// How long a write is its process's without a sign of life, in milliseconds; while it runs, the turn is renewed twice
/// as often. A repeat after a crash waits for that.
const TURN: u64 = 2_000;

/// How long a repeat waits for the first to end before it is told that that is still running. Longer than a turn, so
/// that whoever repeats after a crash is not told so.
const PATIENCE: Duration = Duration::from_secs(3);

/// How often old answers are removed, and how many at once: the writer of the ledger has others to serve.
const FORGET_EVERY: Duration = Duration::from_secs(60);
const FORGET_AT_ONCE: usize = 500;

impl Feed {
    /// Runs an operation for whoever asks. The answer is JSON.
    pub(super) async fn run(self: &Arc<Self>, operation: &Operation, mut asked: Request) -> Result<Bytes> {
        let new = if operation.is_queued { NewUser::Settled } else { NewUser::Recorded };
        self.identity.authorize(asked.caller.reader(), &asked.credential, new).await?;
        let write = keyed(operation, &mut asked)?;
        if let Err(limited) = self.rates.take(operation, &asked).await {
            // A repeat does nothing, and is told what came of the first. To look for that is a read.
            let known = match &write {
                Some(write) if self.rates.take_user_reads(&write.user, 1).is_ok() => {
                    self.ledger.recall(write, now().saturating_sub(KEPT)).await?
                }
                _ => None,
            };
            return known.map_or(Err(limited), |answer| told(&answer));
        }
        let _turn = match operation.page_cost {
            heavy::HEAVY_COST.. => Some(self.heavy.turn(&asked).await?),
            _ => None,
        };
        let Request { caller, credential, origin, client, input, .. } = asked;
        let body = operation.body();
        let Some(write) = write else {
            let reader = caller.reader().cloned();
            let call = Call { caller, credential, origin, client, reserved: None, attempt: Attempt::First };
            let answer = body(Arc::clone(self), call, input).await?;
            self.rates.take_answer(reader.as_ref(), origin, answer.len())?;
            return Ok(answer);
        };
        let run = move |feed: &Arc<Self>, reserved, attempt| {
            let reserved = Some(reserved);
            body(Arc::clone(feed), Call { caller, credential, origin, client, reserved, attempt }, input)
        };
        let feed = Arc::clone(self);
        // A client that goes away while it waits must not leave a key behind that seems to be in use.
        let running = self.runtime.spawn(async move { feed.once(&write, run).await });
        running.await.unwrap_or(Err(FeedError::Internal))
    }

    async fn once<F>(self: &Arc<Self>, write: &Keyed, run: F) -> Result<Bytes>
    where
        F: FnOnce(&Arc<Self>, PostId, Attempt) -> BoxFuture<'static, Result<Bytes>>,
    {
        let (reserved, turn, attempt) = match self.take_turn(write).await? {
            Due::Run(reserved, turn, attempt) => (reserved, turn, attempt),
            Due::Tell(answer) => return told(&answer),
        };
        let mut until = turn.until;
        let mut running = run(self, reserved, attempt);
        let ran = loop {
            tokio::select! {
                ran = &mut running => break ran,
                () = tokio::time::sleep(Duration::from_millis(TURN / 2)) => until = self.renew_turn(write, until).await,
            }
        };
        let noted = match to_keep(&ran) {
            Some(answer) => self.ledger.finish(&write.user, &write.key, &answer).await,
            None => self.ledger.move_turn(&write.user, &write.key, until, 0).await,
        };
        if let Err(error) = noted {
            // The answer is true all the same. A repeat will find the key without one, and run again.
            tracing::warn!(%error, operation = write.operation, "what came of a write could not be kept");
        }
        ran
    }

    /// Goes on with a turn; when it ends.
    async fn renew_turn(&self, write: &Keyed, until: Millis) -> Millis {
        let later = now().saturating_add(TURN);
        match self.ledger.move_turn(&write.user, &write.key, until, later).await {
            Ok(()) => later,
            Err(error) => {
                tracing::warn!(%error, operation = write.operation, "a repeat of a slow write may run beside it");
                until
            }
        }
    }

    /// Has this caller do the write, or tells what came of it. Waits a little for somebody else who is at it.
    async fn take_turn(&self, write: &Keyed) -> Result<Due> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let mut pause = Duration::from_millis(20);
        loop {
            let now = now();
            let new = self.ids.next(now)?;
            let turn = Turn { now, until: now.saturating_add(TURN), since: now.saturating_sub(KEPT) };
            match self.ledger.begin(write, new, turn).await? {
                Begun::Fresh => return Ok(Due::Run(new, turn, Attempt::First)),
                Begun::Again(reserved) => return Ok(Due::Run(reserved, turn, Attempt::Repeated)),
                Begun::Answered(answer) => return Ok(Due::Tell(answer)),
                Begun::Reused => return Err(FeedError::KeyReused),
                Begun::Running if tokio::time::Instant::now() >= deadline => return Err(FeedError::InProgress),
                Begun::Running => tokio::time::sleep(pause).await,
            }
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }

    /// Removes what is too old to be asked for, bit by bit, until the feed stops.
    pub(super) fn start_forgetting(self: &Arc<Self>) {
        let feed = Arc::clone(self);
        self.runtime.spawn(async move {
            while feed.runtime.sleep(FORGET_EVERY.mul_f64(rand::random_range(0.8..1.2))).await {
                loop {
                    match feed.ledger.forget_begun(now().saturating_sub(KEPT), FORGET_AT_ONCE).await {
                        Ok(FORGET_AT_ONCE) => {}
                        Ok(_) => break,
                        Err(error) => {
                            tracing::warn!(%error, "old answers could not be removed");
                            break;
                        }
                    }
                    // Others write in between.
                    if !feed.runtime.sleep(Duration::from_millis(50)).await {
                        return;
                    }
                }
            }
        });
    }
}

/// What a caller is to do about a write.
enum Due {
    /// Do it, with this id for what it creates.
    Run(PostId, Turn, Attempt),
    /// Nothing: this came of it.
    Tell(Bytes),
}

/// The write, if the operation is one that takes a name and it has one. Takes the name out of the input.
fn keyed(operation: &Operation, asked: &mut Request) -> Result<Option<Keyed>> {
    let Caller::User(user) = &asked.caller else { return Ok(None) };
    if !operation.takes_key() {
        return Ok(None);
    }
    let wrong = |why: &'static str| FeedError::invalid(MEMBER, why);
    let within = match asked.input.as_object_mut().and_then(|input| input.remove(MEMBER)) {
        None => None,
        Some(Value::String(key)) => Some(key),
        Some(_) => return Err(wrong("an idempotency key is text")),
    };
    let key = match (asked.key.take(), within) {
        (Some(one), Some(other)) if one != other => return Err(wrong("two different idempotency keys")),
        (Some(key), _) | (None, Some(key)) => key,
        (None, None) => return Ok(None),
    };
    if !(1..=255).contains(&key.len()) || !key.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        return Err(wrong("an idempotency key is 1 to 255 printable ASCII characters"));
    }
    Ok(Some(Keyed { user: user.clone(), key, operation: operation.name, input: digest(&asked.input) }))
}

/// A digest of an input, the same over every transport: members are in order, and where a path or a query can only
/// write text, a number is its digits.
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

/// How a kept answer begins that was a success; the answer itself follows.
const SUCCESS: u8 = b'+';
/// How one begins that was an error; [`Remembered`] follows as JSON.
const REFUSAL: u8 = b'-';

/// An answer as it is kept; `None` of one that is not.
fn to_keep(ran: &Result<Bytes>) -> Option<Vec<u8>> {
    match ran {
        Ok(answer) => Some([&[SUCCESS], &answer[..]].concat()),
        Err(error) => {
            let json = serde_json::to_vec(&error.to_remember()?).ok()?;
            Some([&[REFUSAL], &json[..]].concat())
        }
    }
}

/// What a kept answer says.
fn told(kept: &Bytes) -> Result<Bytes> {
    match kept.split_first() {
        Some((&SUCCESS, _)) => Ok(kept.slice(1..)),
        Some((&REFUSAL, json)) => Err(match serde_json::from_slice::<Remembered>(json) {
            Ok(error) => FeedError::Remembered(Box::new(error)),
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
    fn an_input_is_the_same_by_path_query_and_body_and_in_any_order() {
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
    fn a_write_whose_input_holds_secrets_takes_no_key() {
        let operations = super::super::operations::Operations::new();
        for (name, takes_key) in [("accounts.password", false), ("posts.create", true), ("posts.get", false)] {
            let operation = operations.by_rpc(name).expect(name);
            let mut asked = Request {
                caller: Caller::User(crate::model::UserId::parse("ann").unwrap()),
                credential: super::super::Credential::Nothing,
                origin: super::super::Origin::Backend,
                client: None,
                key: Some("k".to_owned()),
                input: json!({ "old": "correct horse", "new": "battery staple" }),
            };
            assert_eq!(keyed(operation, &mut asked).unwrap().is_some(), takes_key, "{name}");
        }
    }

    #[test]
    fn success_and_lasting_errors_are_kept_and_told_as_they_were() {
        let said = |error: &FeedError| {
            (error.code(), error.status(), error.to_string(), error.field().map(str::to_owned), error.is_temporary())
        };
        assert_eq!(told(&to_keep(&Ok("{}".into())).unwrap().into()).unwrap(), "{}");
        for error in [
            FeedError::invalid("text", "wrong"),
            FeedError::Invalid { field: None, message: "wrong".into() },
            FeedError::Forbidden("no"),
            FeedError::NotFound("no such post"),
            FeedError::Conflict { field: "user", message: "taken" },
            FeedError::LimitExceeded { field: "text", what: "characters", most: 3 },
        ] {
            let before = said(&error);
            let kept = to_keep(&Err(error)).expect("it lasts");
            assert_eq!(said(&told(&kept.into()).unwrap_err()), before);
        }
        let limited = FeedError::RateLimited { what: "posts", retry_after: Duration::from_millis(1_500) };
        for error in [FeedError::Unavailable, FeedError::Internal, FeedError::TooMany("busy"), limited] {
            assert!(to_keep(&Err(error)).is_none());
        }
    }
}
