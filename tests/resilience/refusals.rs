//! A store that refuses to work, or does not answer, counts against no item: all work waits, and arrives once it works.
//!
//! Each refusal meets all kinds of durable work at once: posts that are written to inboxes and posts that are pulled,
//! likes, notifications, alerts to devices, webhooks, the Redis Stream, and an erasure.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use feedline::model::{PostId, PushPreferences};
use futures::future::join_all;
use serde_json::{Value, json};

use crate::api::attempt_named;
use crate::cluster::{attempt, done, post, timeline, until};
use crate::likers::{Field, PULLED, RECOVERY};
use crate::reader::Reader;
use crate::refusal_table::{OF_POSTGRES, OF_REDIS, OF_SQLITE, Refusal};
use crate::server::{API_KEY, PATIENCE, Server};
use crate::webhook::WebhookReceiver;

/// The times from the begin of a refusal to the requests within it, and from the last of them to its end. The first
/// items fail for longer than an item that fails alone is retried before it is set aside.
const REQUESTS_AFTER: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(5)];
const LASTING: Duration = Duration::from_secs(13);

/// What the node says about its stores and its work.
async fn health(node: &Server) -> Value {
    let answer = node.http("GET", "/ready", &[], "").await;
    assert_eq!(answer.status, 200, "a node that waits for a store stays in the load balancer: {}", answer.body);
    answer.body
}

/// A request for durable work.
#[derive(Clone, Debug)]
struct Request {
    kind: Kind,
    user: String,
    key: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Of an author with one follower: written to an inbox. It mentions a user.
    Pushed,
    /// Of an author with several followers: pulled. A user has alerts about these posts.
    Pulled,
    Like,
    Erasure,
}

/// The accounts that are erased, and the users who like the first post: one right before the refusal, the others in the
/// waves within it.
const ERASED: [&str; 3] = ["gone0", "gone1", "gone2"];
const LIKERS: [&str; 3] = ["cy", "fan", "fan2"];

/// All kinds of requests.
fn wave(n: usize) -> Vec<Request> {
    [(Kind::Pushed, "ann"), (Kind::Pulled, "bo"), (Kind::Like, LIKERS[n]), (Kind::Erasure, ERASED[n])]
        .map(|(kind, user)| Request { kind, user: user.to_owned(), key: format!("{kind:?} {n}") })
        .to_vec()
}

/// A deployment that meets a refusal.
struct Scene {
    field: Field,
    refusal: Refusal,
    webhook: WebhookReceiver,
    device: WebhookReceiver,
    reader: Reader,
    /// The posts that are erased.
    erased: Vec<PostId>,
    /// The post that is liked.
    liked: u64,
    /// The posts that the reader is to see, those with alerts, and the mentions.
    posts: BTreeSet<u64>,
    alerts: BTreeSet<u64>,
    mentions: usize,
}

/// The post ids of all bodies: numbers, or texts.
fn post_ids<'a>(bodies: impl IntoIterator<Item = &'a Value>) -> BTreeSet<u64> {
    let id = |post: &Value| post.as_u64().or_else(|| post.as_str()?.parse().ok());
    bodies.into_iter().filter_map(id).collect()
}

/// The configuration of a deployment with all kinds of work.
fn keys(webhook: &WebhookReceiver, has_stream: bool) -> Vec<(&'static str, String)> {
    let secret = "a secret of webhooks with 32 characters or more";
    let webhooks = json!([{ "name": "hook", "url": webhook.url(), "secrets": [secret], "types": ["post.created"] }]);
    let keys = [
        ("outlet.webhooks", webhooks.to_string()),
        ("outlet.allow_networks", "127.0.0.0/8".to_owned()),
        ("outlet.stream", has_stream.to_string()),
        ("push.enabled", "true".to_owned()),
        ("push.grace", "300ms".to_owned()),
        // The lease of pushes that are under way when the ledger is lost is a multiple of it.
        ("push.timeout", "500ms".to_owned()),
        ("push.allow_networks", "127.0.0.0/8".to_owned()),
        ("push.webhook_secrets", secret.to_owned()),
    ];
    keys.into_iter().chain(PULLED.map(|(key, value)| (key, value.to_owned()))).collect()
}

impl Scene {
    /// Starts a deployment in which everything arrives, and a reader.
    async fn start(refusal: Refusal, start: impl AsyncFn(&[(&str, &str)]) -> Field, has_stream: bool) -> Self {
        let (webhook, device) = (WebhookReceiver::start(|_| 200).await, WebhookReceiver::start(|_| 200).await);
        let keys = keys(&webhook, has_stream);
        let keys: Vec<_> = keys.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let field = start(&keys).await;
        let node = &field.nodes[0];
        for (fan, author) in [("fan", "ann"), ("fan", "bo"), ("fan2", "bo")] {
            node.follow(fan, author).await;
        }
        done(node, "cy", "GET", "/users/cy").await;
        let body = json!({ "platform": "webhook", "endpoint": device.url() }).to_string();
        let headers = [("x-api-key", API_KEY), ("x-user", "dee")];
        assert_eq!(node.http("PUT", "/api/v1/devices/hook", &headers, &body).await.status, 200);
        let preferences = json!({ "daily_cap": PushPreferences::MAX_DAILY_CAP });
        node.done("dee", "PUT", "/push/preferences", &preferences).await;
        done(node, "dee", "PUT", "/users/bo/notify").await;
        let mut erased = Vec::new();
        for user in ERASED {
            erased.push(PostId(post(node, user, "soon erased").await));
        }
        let reader = Reader::new("fan");
        reader.go(Some(node.port()));
        let posts = [post(node, "ann", "@cy before").await, post(node, "bo", "before").await];
        let (liked, posts, alerts) = (posts[0], BTreeSet::from(posts), BTreeSet::from([posts[1]]));
        let scene = Self { field, refusal, webhook, device, reader, erased, liked, posts, alerts, mentions: 1 };
        scene.everything_has_arrived(0, 0).await;
        scene
    }

    fn node(&self) -> &Server {
        &self.field.nodes[0]
    }

    /// Sends a request. Repeated posts have the same idempotency key.
    async fn request(&self, request: &Request) -> (u16, Value) {
        let Request { kind, user, key } = request;
        let (method, path, body) = match kind {
            Kind::Pushed => ("POST", "/posts".to_owned(), json!({ "text": format!("@cy {key}") })),
            Kind::Pulled => ("POST", "/posts".to_owned(), json!({ "text": key })),
            Kind::Like => ("PUT", format!("/posts/{}/like", self.liked), Value::Null),
            Kind::Erasure => ("DELETE", "/accounts".to_owned(), Value::Null),
        };
        let key = (*kind != Kind::Erasure).then_some(key.as_str());
        attempt_named(self.node().port(), user, key, method, &path, &body).await
    }

    /// Notes the effect of an accepted request.
    fn note(&mut self, request: &Request, body: &Value) {
        if matches!(request.kind, Kind::Pushed | Kind::Pulled) {
            let id = body["id"].as_u64().unwrap_or_else(|| panic!("{:?}: {request:?}: {body}", self.refusal));
            self.posts.insert(id);
            if request.kind == Kind::Pulled {
                self.alerts.insert(id);
            } else {
                self.mentions += 1;
            }
        }
    }

    /// Sends a wave at once. Returns the requests that were refused.
    async fn requests(&mut self, n: usize) -> Vec<Request> {
        let all = wave(n);
        let answers = join_all(all.iter().map(|request| self.request(request))).await;
        let mut refused = Vec::new();
        for (request, (status, body)) in all.into_iter().zip(answers) {
            if (200..300).contains(&status) {
                self.note(&request, &body);
                continue;
            }
            assert!(
                status == 503 && ["unavailable", "busy"].contains(&body["error"]["code"].as_str().unwrap_or_default()),
                "{:?}: {request:?}: {status} {body}\n{}",
                self.refusal,
                self.node().log()
            );
            let needs_store = self.refusal.shown.1 == "ledger" || request.kind == Kind::Like;
            assert!(needs_store, "{:?}: {request:?} waits for no store: {body}", self.refusal);
            refused.push(request);
        }
        refused
    }

    /// Waits until the node says why it waits.
    async fn is_explained(&self) {
        let (begun, (group, member, why)) = (Instant::now(), self.refusal.shown);
        loop {
            let health = health(self.node()).await;
            if health[group][member].as_str().is_some_and(|text| text != "ok" && text.contains(why)) {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "not {:?}: {health}\n{}", self.refusal.shown, self.node().log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let of_stores = self.node().http("GET", "/health/stores", &[], "").await;
        assert_eq!(of_stores.status, 503, "{:?}: {of_stores:?}", self.refusal);
    }

    /// Compares until both sides are equal.
    async fn equal<T: PartialEq + Debug>(&self, what: &str, expected: &T, found: impl AsyncFn() -> Option<T>) {
        let begun = Instant::now();
        loop {
            let found = found().await;
            if found.as_ref() == Some(expected) {
                return;
            }
            assert!(
                begun.elapsed() < RECOVERY,
                "{:?}: {what}: {found:?} instead of {expected:?}\n{}\n{}",
                self.refusal,
                self.quarantine(),
                self.node().log()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The list that an operator sees.
    fn quarantine(&self) -> String {
        let listed = self.node().command(&["quarantine", "list"]);
        format!("{}{}", String::from_utf8_lossy(&listed.stdout), String::from_utf8_lossy(&listed.stderr))
    }

    /// The body of a list, unless it fails for the moment.
    async fn list(&self, user: &str, path: &str) -> Option<Vec<Value>> {
        let (status, body) = attempt(self.node(), user, "GET", &format!("{path}?limit=100"), &Value::Null).await;
        (status == 200).then(|| body["items"].as_array().expect("items").clone())
    }

    /// Checks that all that was accepted arrives: the posts, this many likes, and this many erasures.
    async fn everything_has_arrived(&self, likes: usize, erasures: usize) {
        let name = format!("{:?}", self.refusal);
        let seen = self.reader.sees(&self.posts, RECOVERY).await;
        seen.unwrap_or_else(|error| panic!("{name}: {error}\n{}\n{}", self.quarantine(), self.node().log()));
        let page = timeline(self.node(), "fan").await;
        assert_eq!((page.len(), &BTreeSet::from_iter(page)), (self.posts.len(), &self.posts), "{name}: the page");
        let path = format!("/posts/{}/likes", self.liked);
        self.equal("likes", &likes, async || Some(self.list("ann", &path).await?.len())).await;
        let shown = async || done(self.node(), "ann", "GET", &format!("/posts/{}", self.liked)).await["likes"].as_u64();
        self.equal("the count", &(likes as u64), shown).await;
        self.equal("mentions", &self.mentions, async || Some(self.list("cy", "/notifications").await?.len())).await;
        let alerts = async || Some(post_ids(self.device.accepted().iter().map(|body| &body["data"]["post"])));
        self.equal("alerts", &self.alerts, alerts).await;
        let all: BTreeSet<u64> = self.posts.iter().copied().chain(self.erased.iter().map(|post| post.0)).collect();
        let events = async || Some(post_ids(self.webhook.accepted().iter().map(|body| &body["post"])));
        self.equal("webhooks", &all, events).await;
        let left = ERASED.len() - erasures;
        let posts = async || Some(self.field.ledger.posts(&self.erased).await.ok()?.len());
        self.equal("posts of erased users", &left, posts).await;
        if let Some(redis) = self.field.redis.as_ref() {
            let stream = async || {
                let entries = redis.ask_all("XRANGE feedline:outlet - +");
                let bodies: Vec<Value> = entries.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
                Some(post_ids(bodies.iter().filter(|body| body["type"] == "post.created").map(|body| &body["post"])))
            };
            self.equal("the stream", &all, stream).await;
        }
    }
}

/// Runs a refusal from its begin to the end of its consequences.
async fn check(mut scene: Scene) {
    let (begun, refusal) = (Instant::now(), scene.refusal);
    // Their work may be under way when the refusal begins.
    assert!(scene.requests(0).await.is_empty(), "{refusal:?}");
    for step in refusal.begin {
        step.run(&mut scene.field).await;
    }
    let mut refused = Vec::new();
    for (n, after) in REQUESTS_AFTER.into_iter().enumerate() {
        tokio::time::sleep(after).await;
        refused.append(&mut scene.requests(n + 1).await);
        scene.is_explained().await;
    }
    tokio::time::sleep(LASTING).await;
    for step in refusal.end {
        step.run(&mut scene.field).await;
    }
    for request in refused {
        let mut body = Value::Null;
        until("a refused request succeeds later", async || {
            let (status, answer) = scene.request(&request).await;
            body = answer;
            // An account whose erasure began in the refused request is gone.
            (200..300).contains(&status) || request.kind == Kind::Erasure && ![0, 409, 503].contains(&status)
        })
        .await;
        scene.note(&request, &body);
    }
    scene.everything_has_arrived(LIKERS.len(), ERASED.len()).await;
    let is_well = async || {
        let health = health(scene.node()).await;
        let all = ["stores", "work"].map(|group| health[group].as_object().expect("members").clone());
        Some(all.iter().flatten().all(|(_, state)| state == "ok"))
    };
    scene.equal("the node says that all goes on", &true, is_well).await;
    assert_eq!(scene.quarantine(), "the quarantine is empty\n", "{refusal:?}");
    scene.node().metric_is("feedline_quarantine", 0.0).await;
    assert!(scene.reader.look(|view| std::mem::take(&mut view.wrong)).is_empty(), "{refusal:?}");
    eprintln!("{:?} took {:?}", refusal.shown, begun.elapsed());
}

#[tokio::test]
async fn refusals_of_redis_set_nothing_aside() {
    let start = async |keys: &[(&str, &str)]| Field::redis(1, keys).await;
    join_all(OF_REDIS.map(async |refusal| check(Scene::start(refusal, start, true).await).await)).await;
}

#[tokio::test]
async fn refusals_of_postgres_set_nothing_aside() {
    let start = async |keys: &[(&str, &str)]| Field::postgres(1, keys).await;
    join_all(OF_POSTGRES.map(async |refusal| check(Scene::start(refusal, start, true).await).await)).await;
}

#[tokio::test]
async fn refusals_of_sqlite_set_nothing_aside() {
    let start = async |keys: &[(&str, &str)]| Field::embedded(keys).await;
    join_all(OF_SQLITE.map(async |refusal| check(Scene::start(refusal, start, false).await).await)).await;
}
