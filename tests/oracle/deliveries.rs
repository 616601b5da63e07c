//! What the server delivers, for the matrix: to sockets, as pushes to devices, and in the outlet.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::api::{attempt, done};
use crate::check::{Verdict, listed, same};
use crate::client::Client;
use crate::model::{Model, Post, User, ViewContext};
use crate::server::{API_KEY, PATIENCE, Server};
use crate::webhook::WebhookReceiver;

/// The configuration of a server with pushes and an outlet.
pub(crate) const KEYS: [(&str, &str); 6] = [
    // A watcher answers pings only while it compares.
    ("client.ping_interval", "1h"),
    ("push.enabled", "true"),
    ("push.grace", "300ms"),
    ("push.allow_networks", "127.0.0.0/8"),
    ("push.webhook_secrets", "a secret of webhooks with 32 characters or more"),
    ("outlet.consumers", "app"),
];

/// The time after which something that has not arrived does not arrive any more: longer than `push.grace`.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);

/// The interval of comparisons of what takes time to arrive.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The ids that arrived on each channel; of notifications, in each kind.
type Arrivals = BTreeMap<String, BTreeSet<u64>>;

/// New posts, reposts and quotes, and the users that the texts of the posts mention.
pub(crate) struct Batch {
    pub(crate) ids: BTreeSet<u64>,
    pub(crate) mentioned: BTreeSet<User>,
}

impl Batch {
    fn posts<'a>(&'a self, model: &'a Model) -> impl Iterator<Item = (u64, &'a Post)> {
        self.ids.iter().map(|id| (*id, &model.posts[id]))
    }

    /// The posts of the batch that are in a list.
    fn among(&self, list: &[u64]) -> BTreeSet<u64> {
        list.iter().copied().filter(|id| self.ids.contains(id)).collect()
    }

    /// Whether a post of the batch mentions a user. Only posts that name no other mention anybody.
    fn mentions(&self, post: &Post, user: User) -> bool {
        post.repost.is_none() && post.quote.is_none() && self.mentioned.contains(user)
    }

    /// The posts that a user is notified of, by kind.
    fn notified(&self, model: &Model, user: User) -> Arrivals {
        let mut notified = Arrivals::new();
        for (id, post) in self.posts(model) {
            let owner = post.repost.or(post.quote).map(|named| model.posts[&named].author);
            let (kind, object) = match post.repost {
                Some(reposted) if owner == Some(user) => ("repost", reposted),
                None if owner == Some(user) => ("quote", id),
                None if self.mentions(post, user) => ("mention", id),
                _ => continue,
            };
            if post.author != user && model.may_see(user, post, ViewContext::Listed) {
                notified.entry(kind.to_owned()).or_default().insert(object);
            }
        }
        notified
    }

    /// The posts that a user is alerted about: those of `authors` that do not mention the user.
    fn alerted(&self, model: &Model, user: User, authors: &[User]) -> BTreeSet<u64> {
        let is_alert = |(_, post): &(u64, &Post)| {
            let is_asked_for = authors.contains(&post.author) && post.author != user && post.repost.is_none();
            is_asked_for && !self.mentions(post, user) && model.may_see(user, post, ViewContext::Listed)
        };
        self.posts(model).filter(is_alert).map(|(id, _)| id).collect()
    }

    /// Checks that what a user received has no text of a post that the user may not see.
    fn keeps_secrets(&self, model: &Model, user: User, received: &[Value]) -> Verdict {
        let received = unescaped(received);
        let is_secret = |post: &Post| !model.may_see(user, post, ViewContext::Direct);
        let leaked = self.posts(model).filter(|(_, post)| is_secret(post) && !post.text.is_empty());
        let leaked: Vec<&str> = leaked.map(|(_, post)| post.text.as_str()).filter(|it| received.contains(it)).collect();
        same(&format!("the texts that {user} must not get"), &leaked, &Vec::new())
    }
}

/// JSON with the quotation marks of its texts as they were written.
fn unescaped(values: &[Value]) -> String {
    serde_json::to_string(values).expect("JSON").replace("\\\"", "\"")
}

/// Repeats a comparison until it agrees, and once more when nothing can arrive any more.
async fn eventually(mut agree: impl AsyncFnMut() -> Verdict) -> Verdict {
    let begun = Instant::now();
    loop {
        let agreed = agree().await;
        if agreed.is_ok() {
            break;
        }
        if begun.elapsed() > PATIENCE {
            return agreed;
        }
        sleep(POLL_INTERVAL).await;
    }
    sleep(SILENCE).await;
    agree().await
}

/// The socket of a user, subscribed to everything that may bring posts.
pub(crate) struct Watcher {
    user: User,
    client: Client,
    topic: &'static str,
    /// The authors whose posts it is subscribed to.
    authors: Vec<User>,
    pushes: Vec<Value>,
}

impl Watcher {
    /// Subscribes to the timeline, the notifications, a topic, the lists of the user, and the posts of authors.
    pub(crate) async fn start(
        node: &Server,
        model: &Model,
        user: User,
        topic: &'static str,
        authors: impl Iterator<Item = User>,
    ) -> Self {
        let mut client = Client::connect(node, user).await;
        client.subscribe(&format!("topic:{topic}")).await;
        for id in model.lists_of(user) {
            client.subscribe(&format!("list:{id}")).await;
        }
        let mut admitted = Vec::new();
        for author in authors {
            let reply = client.call(json!({ "subscribe": { "channel": format!("user:{author}") } })).await;
            let is_admitted = model.may_read_user(user, author) && !model.is_locked_for(user, author);
            assert_eq!(reply.get("subscribe").is_some(), is_admitted, "{user} subscribes to {author}: {reply}");
            admitted.extend(is_admitted.then_some(author));
        }
        Self { user, client, topic, authors: admitted, pushes: Vec::new() }
    }

    /// Compares what arrived with the model.
    pub(crate) async fn compare(mut self, model: &Model, batch: &Batch) -> Verdict {
        let expected = self.expected(model, batch);
        eventually(async || {
            let pushes = self.client.pushed().await;
            self.pushes.extend(pushes);
            arrived(self.user, &arrivals(&self.pushes, batch), &expected)?;
            batch.keeps_secrets(model, self.user, &self.pushes)
        })
        .await
    }

    fn expected(&self, model: &Model, batch: &Batch) -> Arrivals {
        let Self { user, topic, .. } = *self;
        let mut expected = batch.notified(model, user);
        expected.insert(format!("timeline:{user}"), batch.among(&model.timeline(user)));
        expected.insert(format!("topic:{topic}"), batch.among(&model.topic(user, topic)));
        for id in model.lists_of(user) {
            expected.insert(format!("list:{id}"), batch.among(&model.posts_of_list(&model.lists[&id])));
        }
        for author in &self.authors {
            expected.insert(format!("user:{author}"), batch.among(&model.profile(user, author)));
        }
        expected
    }
}

/// Compares what arrived at a user.
fn arrived(user: User, real: &Arrivals, expected: &Arrivals) -> Verdict {
    let ids = |all: &Arrivals, place: &String| -> Vec<u64> { all.get(place).into_iter().flatten().copied().collect() };
    let places: BTreeSet<&String> = real.keys().chain(expected.keys()).collect();
    let differs = |place| listed(&format!("{place} live for {user}"), &ids(real, place), &ids(expected, place)).err();
    let differences: Vec<String> = places.into_iter().filter_map(differs).collect();
    if differences.is_empty() { Ok(()) } else { Err(differences.join("; ")) }
}

/// The posts of a batch that pushes on a socket show.
fn arrivals(pushes: &[Value], batch: &Batch) -> Arrivals {
    let mut arrivals = Arrivals::new();
    let mut reposted = BTreeSet::new();
    let mut wrong = Vec::new();
    for push in pushes {
        let data = &push["pub"]["data"];
        let (place, id) = match data.get("notification") {
            Some(notification) => (&notification["kind"], &notification["object"]["id"]),
            None => (&push["channel"], data["post"].get("id").unwrap_or(&data["id"])),
        };
        let (Some(place), Some(id)) = (place.as_str(), id.as_u64()) else { continue };
        if !batch.ids.contains(&id) {
            continue;
        }
        let shown = arrivals.entry(place.to_owned()).or_default();
        match data["type"].as_str() {
            Some("post") if shown.insert(id) => {}
            // A group that changed is sent again.
            Some("notification") => {
                shown.insert(id);
            }
            Some("gone") => {
                shown.remove(&id);
            }
            Some("reposted") => {
                reposted.insert((place, id));
            }
            other => wrong.push((format!("{other:?}, or twice, at {place}"), id)),
        }
    }
    arrivals.extend(wrong.into_iter().map(|(place, id)| (place, [id].into())));
    // They name posts that the list shows. Posts of other authors than the repost may arrive after it.
    reposted.retain(|(place, id)| !arrivals[*place].contains(id));
    arrivals.extend(reposted.into_iter().map(|(place, id)| (format!("a repost of {id} at {place}"), [id].into())));
    arrivals
}

/// A device of a user.
pub(crate) struct Device {
    user: User,
    receiver: WebhookReceiver,
}

impl Device {
    pub(crate) async fn register(node: &Server, user: User) -> Self {
        let receiver = WebhookReceiver::start(|_| 200).await;
        let body = json!({ "platform": "webhook", "endpoint": receiver.url() });
        let (status, body) = attempt(node, user, "PUT", "/devices/device", &body).await;
        assert_eq!(status, 200, "{body}");
        Self { user, receiver }
    }

    /// Compares the pushes with the model, and removes the device. Notifications may be joined in digests, which have
    /// only their number.
    pub(crate) async fn compare(self, node: &Server, model: &Model, authors: &[User], batch: &Batch) -> Verdict {
        let Self { user, receiver } = self;
        let notified = batch.notified(model, user).values().map(BTreeSet::len).sum();
        let expected = (batch.alerted(model, user, authors).into_iter().collect(), notified);
        let agreed = eventually(async || {
            let pushes = receiver.accepted();
            same(&format!("what was pushed to {user}"), &pushed(&pushes), &expected)?;
            batch.keeps_secrets(model, user, &pushes)
        });
        let agreed = agreed.await;
        done(node, user, "DELETE", "/devices/device").await;
        agreed
    }
}

/// The posts that messages alert about, and the number of notifications that they show.
fn pushed(messages: &[Value]) -> (Vec<u64>, usize) {
    let mut alerts = Vec::new();
    let mut notified = 0;
    for message in messages.iter().filter(|message| message["push"] == "alert") {
        let data = &message["data"];
        match data["type"].as_str() {
            Some("post") => alerts.push(data["post"].as_str().and_then(|id| id.parse().ok()).expect("an id")),
            Some("digest") => notified += number_in(message["title"].as_str().expect("a title")),
            Some("mention" | "repost" | "quote") => notified += 1,
            other => panic!("a push of {other:?}: {message}"),
        }
    }
    alerts.sort_unstable();
    (alerts, notified)
}

/// The number of notifications in the title of a digest.
fn number_in(title: &str) -> usize {
    title.split(' ').find_map(|word| word.parse().ok()).expect("a number")
}

/// Compares the outlet with the posts of the model: their ids, and what they name, each once.
pub(crate) async fn outlet(node: &Server, model: &Model) -> Verdict {
    let expected: Vec<_> = model.posts.iter().map(|(id, post)| (*id, post.repost, post.quote)).collect();
    let mut created = Vec::new();
    let mut cursor = String::new();
    let begun = Instant::now();
    loop {
        let path = format!("/api/events?consumer=app&wait=1{cursor}");
        let page = node.http("GET", &path, &[("x-api-key", API_KEY)], "").await.body;
        cursor = format!("&cursor={}", page["cursor"].as_str().expect("a cursor"));
        let events = page["events"].as_array().expect("events");
        let is_late = created.len() >= expected.len() || begun.elapsed() > PATIENCE;
        if events.is_empty() && is_late {
            break;
        }
        let all = unescaped(events);
        let texts = model.posts.values().map(|post| post.text.as_str()).filter(|text| !text.is_empty());
        let leaked: Vec<&str> = texts.filter(|text| all.contains(text)).collect();
        same("the texts in the outlet", &leaked, &Vec::new())?;
        for event in events.iter().filter(|event| event["type"] == "post.created") {
            let id = event["post"].as_u64().expect("an id");
            created.push((id, event["repost"].as_u64(), event["quote"].as_u64()));
        }
    }
    created.sort_unstable();
    same("the posts of the outlet", &created, &expected)
}
