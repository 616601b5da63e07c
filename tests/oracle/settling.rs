//! Waits for what a request causes after its answer, and repeats requests without an answer.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::actions::Act;
use crate::api::done;
use crate::check::{self, get, is_passing};
use crate::comments;
use crate::model::{Edge, Mark, USERS, User};
use crate::reports::{Report, Reported};
use crate::requests::Call;
use crate::server::{PATIENCE, Server};
use crate::steps::{Run, SETTLING};
use crate::world::WITNESS;

impl Run {
    /// If another node may have made changes that the home node has not applied, waits until the actor sees the current
    /// state of the post and comment.
    pub(crate) async fn wait_for_update(&self, act: &Act) {
        if let (Act::Report(Report { by, target: Reported::User(user), .. }), true) = (act, self.world.is_blurred) {
            return self.wait_for_person(self.world.home(), by, user, SETTLING).await;
        }
        let (Some(id), true) = (act.post(), self.world.is_blurred) else { return };
        let (node, model, by) = (self.world.home(), &self.model, act.by());
        if by.is_empty() {
            // The backend does not see less than all.
            return;
        }
        let until = Instant::now() + SETTLING;
        loop {
            let mut seen = check::post(node, model, by, id).await;
            if let (Ok(()), Some(comment)) = (&seen, act.comment()) {
                seen = comments::around(node, model, by, comment).await;
            }
            let Err(difference) = seen else { return };
            assert!(Instant::now() < until, "before {act:?}: {difference}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a node shows a user the current state of another one.
    pub(crate) async fn wait_for_person(&self, node: &Server, by: User, user: User, patience: Duration) {
        let until = Instant::now() + patience;
        while let Err(difference) = check::person(node, &self.model, by, user).await {
            assert!(Instant::now() < until, "after {patience:?}: {difference}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until an acknowledged like is settled, and until notifications are recorded. Otherwise the next step could
    /// change whether they are valid.
    pub(crate) async fn settle(&self, act: &Act) {
        if let Act::Lock { user, on: false } = act {
            return self.settle_unlock(user).await;
        }
        if act.notifies() {
            // Users of one batch are notified concurrently. The second one is of a later batch than the act.
            self.notify_witness(1).await;
            return self.notify_witness(2).await;
        }
        let Act::Mark { mark, by, id, on, .. } = act else { return };
        let until = Instant::now() + PATIENCE;
        loop {
            let seen = match mark {
                Mark::Favourite => return,
                Mark::Like => {
                    let (status, post) = get(self.world.home(), by, &format!("/posts/{id}")).await;
                    if post["liked"] == *on { Ok(()) } else { Err(format!("{status} {post}")) }
                }
                // The actor may not see the comment, so the check uses a user who does.
                Mark::CommentLike => {
                    let onlooker = self.model.onlooker(*id).expect("somebody who sees the comment");
                    comments::around(self.world.home(), &self.model, onlooker, *id).await
                }
            };
            let Err(difference) = seen else { return };
            assert!(Instant::now() < until, "{act:?} is not settled: {difference}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until all who asked a user follow them: an unlock accepts them after its answer.
    async fn settle_unlock(&self, user: User) {
        let followers = self.model.those_to(Edge::Follow, user);
        let until = Instant::now() + PATIENCE;
        for node in &self.world.nodes {
            loop {
                let items = check::pages(node, user, &format!("/users/{user}/followers"), 50).await.expect("a list");
                let mut expected = self.model.without_blocked(user, followers.clone());
                expected.retain(|follower| !check::names(&items).contains(follower));
                if expected.is_empty() {
                    break;
                }
                assert!(Instant::now() < until, "{user} is unlocked, and {expected:?} do not follow");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }

    /// Notifies the witness, and waits until that is listed: requests of earlier batches are recorded before it.
    async fn notify_witness(&self, time: usize) {
        let title = format!("step {}, {time}", self.story.len());
        let body = json!({ "to": [WITNESS], "kind": "app.step", "key": "step", "title": title, "body": "" });
        let call = Call { user: "", method: "POST", path: "/notifications".into(), body, key: None };
        let until = Instant::now() + PATIENCE;
        loop {
            let (status, body) = self.world.ask(&call).await;
            if !is_passing(status, &body) {
                assert_eq!(status, 202, "{call:?}: {body}");
                break;
            }
            assert!(Instant::now() < until, "{call:?}: {status} {body} for {PATIENCE:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        loop {
            let (_, page) = get(self.world.home(), WITNESS, "/notifications?limit=1").await;
            if page["items"][0]["title"] == *title {
                return;
            }
            assert!(Instant::now() < until, "{WITNESS} is not notified of {title}: {page}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Lets all users read their notifications, so that later ones are unread.
    pub(crate) async fn read_notifications(&mut self) {
        let suspended = self.model.suspended.clone();
        for user in USERS.into_iter().filter(|user| !suspended.contains(user)) {
            done(self.world.home(), user, "PUT", "/notifications/read").await;
            self.model.read_notifications(user);
        }
    }

    /// Repeats a request until it is answered. A creation without an idempotency key may already have succeeded; then
    /// the created object is looked up.
    pub(crate) async fn ask_again(&mut self, act: &Act, call: &Call, expected: u16) -> (u16, Value) {
        if let (Some(path), Some(text), None, true) = (act.list(), act.makes(), &call.key, expected < 300) {
            let until = Instant::now() + self.world.stores.aftermath();
            loop {
                let theirs = self.made_by(act, &path).await;
                let is_made =
                    |item: &Value| [&item["text"], &item["words"][0], &item["name"]].iter().any(|made| **made == *text);
                if let Some(found) = theirs.into_iter().find(is_made) {
                    self.story.push(format!("    it happened: {}", found["id"]));
                    return (expected, found);
                }
                if Instant::now() >= until {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        let until = Instant::now() + PATIENCE;
        loop {
            // The end of a change may be over.
            let call = if act.has_end() { &act.call(None) } else { call };
            let (status, body) = self.world.ask(call).await;
            if !is_passing(status, &body) {
                self.story.push(format!("    asked again: {status} {}", body["id"]));
                return (status, body);
            }
            assert!(Instant::now() < until, "{act:?}: {status} {body} for {PATIENCE:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The objects in the list of those that the actor made.
    async fn made_by(&self, act: &Act, path: &str) -> Vec<Value> {
        let node = self.world.home();
        if act.is_of_filter() || act.is_of_list() {
            // A single page.
            let (_, mut page) = get(node, act.by(), path).await;
            return page["items"].as_array_mut().map(std::mem::take).expect("what one made oneself");
        }
        check::pages(node, act.by(), path, 50).await.expect("what one made oneself")
    }
}
