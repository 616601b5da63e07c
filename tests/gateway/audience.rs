//! The visibility table: every relation between users, checked on every way to read.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::NAMESPACES;
use crate::client::{Client, Encoding, UNI_TRANSPORTS, Wire};
use crate::server::{API_KEY, Answer, Server, signed};

/// The author of the posts under test.
pub(crate) const AUTHOR: &str = "bo";

/// A channel of the application whose publications mark the end of what clients have received.
pub(crate) const END: &str = "plain:end";

/// The text of each post under test, which names its audience.
pub(crate) const POSTS: [&str; 5] = ["<everyone>", "<followers>", "<friends>", "<only-nat>", "<all-but-nat>"];

/// Readers, and which of [`POSTS`] they see: when opened directly, when delivered to them, and in their timeline.
pub(crate) const TABLE: [(&str, &str, &str, &str); 11] = [
    (AUTHOR, "+++++", "+++++", "+++++"),
    ("stranger", "+---+", "+---+", "-----"),
    // A stranger target all posts mention, like all readers below: a mention grants no access.
    ("mentioned", "+---+", "+---+", "-----"),
    ("follower", "++--+", "++--+", "++--+"),
    ("friend", "+++-+", "+++-+", "+++-+"),
    // Listed in `only_to` and in `not_to`, and a follower.
    ("nat", "++-+-", "++-+-", "++-+-"),
    // All of them are friends, apart from the named restriction.
    ("muting", "+++-+", "-----", "-----"),
    ("hidden", "-----", "-----", "-----"),
    ("blocked", "-----", "-----", "-----"),
    ("blocking", "-----", "-----", "-----"),
    // An anonymous reader, who has no timeline.
    ("", "+---+", "+---+", "-----"),
];

fn visibility(n: usize) -> Value {
    let all = [
        json!("public"),
        json!("followers"),
        json!("friends"),
        json!({ "only_to": ["nat"] }),
        json!({ "not_to": ["nat"] }),
    ];
    all[n].clone()
}

/// Those of the posts that mention this reader and notify them.
pub(crate) fn mentioned_in(who: &str, unrequested: &'static str) -> &'static str {
    if [AUTHOR, "stranger", ""].contains(&who) { "-----" } else { unrequested }
}

/// Readers with a user id.
pub(crate) fn people() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|row| row.0).filter(|name| !name.is_empty())
}

/// A server with the author, the readers, and the follows of the table.
pub(crate) async fn server() -> Server {
    let keys = [("auth.anonymous", "true"), ("client.commands_per_second", "0"), ("namespaces", NAMESPACES)];
    let server = Server::start_with(&[&keys[..], &UNI_TRANSPORTS].concat()).await;
    for person in people() {
        done(&server, person, "GET", &format!("/users/{person}")).await;
    }
    for reader in ["follower", "friend", "nat", "muting", "hidden", "blocked", "blocking"] {
        done(&server, reader, "PUT", "/users/bo/follow").await;
    }
    for friend in ["friend", "muting", "hidden", "blocked", "blocking"] {
        done(&server, AUTHOR, "PUT", &format!("/users/{friend}/follow")).await;
    }
    server
}

/// Creates the restrictions between the author and some readers.
pub(crate) async fn divide(server: &Server) {
    done(server, "muting", "PUT", "/users/bo/mute").await;
    done(server, AUTHOR, "PUT", "/users/hidden/hide").await;
    done(server, AUTHOR, "PUT", "/users/blocked/block").await;
    done(server, "blocking", "PUT", "/users/bo/block").await;
}

/// A backend call on behalf of a user (anonymous if the name is empty).
pub(crate) async fn call(server: &Server, user: &str, method: &str, path: &str) -> Answer {
    let named = [("x-api-key", API_KEY), ("x-user", user)];
    let headers = if user.is_empty() { &named[..1] } else { &named[..] };
    server.http(method, &format!("/api/v1{path}"), headers, "").await
}

pub(crate) async fn done(server: &Server, user: &str, method: &str, path: &str) -> Value {
    let answer = call(server, user, method, path).await;
    assert!(answer.status.is_success(), "{user}: {method} {path}: {answer:?}\n{}", server.log());
    answer.body
}

pub(crate) async fn connect(server: &Server, user: &str) -> Client {
    connect_over(server, user, Wire::WebSocket(Encoding::Json)).await
}

async fn connect_over(server: &Server, user: &str, wire: Wire) -> Client {
    subscribed_over(server, user, wire, &[]).await.0
}

/// Connects a reader (anonymous if the name is empty) whose token names these channels. Also returns the subscriptions.
pub(crate) async fn subscribed_over(server: &Server, user: &str, wire: Wire, channels: &[&str]) -> (Client, Value) {
    let mut client = Client::open_over(server, wire).await;
    let token = signed(&json!({ "sub": user, "channels": channels }));
    let connected = client.done(json!({ "connect": { "token": token } })).await;
    (client, connected["connect"]["subs"].clone())
}

/// Publishes the posts of the table, all on the topic, and a final public post. Returns their ids.
pub(crate) async fn publish(server: &Server) -> Vec<u64> {
    let mut ids = Vec::new();
    let mentioned: Vec<String> =
        people().filter(|who| mentioned_in(who, "all") == "all").map(|who| format!("@{who}")).collect();
    let mentioned = mentioned.join(" ");
    for (n, text) in POSTS.iter().enumerate() {
        let post = json!({ "text": format!("{text} #t {mentioned}"), "visibility": visibility(n) });
        ids.push(server.done(AUTHOR, "POST", "/posts", &post).await["id"].as_u64().expect("an id"));
    }
    server.post(AUTHOR, "<end> #t").await;
    ids
}

/// Which of the posts appear in a value, by their texts or their ids.
fn seen(received: &Value, ids: &[u64]) -> String {
    let text = received.to_string();
    let received = |n: usize| text.contains(POSTS[n]) || text.contains(&format!("\"id\":{}", ids[n]));
    (0..POSTS.len()).map(|n| if received(n) { '+' } else { '-' }).collect()
}

/// Which of the posts a value shows, by their texts.
fn shown(received: &Value) -> String {
    let text = received.to_string();
    POSTS.iter().map(|post| if text.contains(post) { '+' } else { '-' }).collect()
}

/// The differences from the table; each row is `reader: way to read: actual, not expected`.
#[derive(Default)]
pub(crate) struct Differences(Vec<String>);

impl Differences {
    pub(crate) fn note(&mut self, who: &str, way: &str, saw: &str, should: &str) {
        if saw != should {
            self.0.push(format!("{who:?} {way}: {saw}, not {should}"));
        }
    }

    pub(crate) fn none(self) {
        assert!(self.0.is_empty(), "{} ways are wrong:\n{}", self.0.len(), self.0.join("\n"));
    }
}

/// All pages of a list, two posts each.
async fn pages(server: &Server, user: &str, path: &str) -> Value {
    let mut items = Vec::new();
    let mut cursor = String::new();
    loop {
        let answer = call(server, user, "GET", &format!("{path}?limit=2&cursor={cursor}")).await;
        if answer.status.as_u16() == 404 {
            assert!(items.is_empty(), "{user} {path}: it went away on the way");
            return json!([]);
        }
        assert!(answer.status.is_success(), "{user} {path}: {answer:?}");
        let page = answer.body["items"].as_array().expect("items").clone();
        let next = answer.body["next"].as_str().map(str::to_owned);
        assert!(page.len() == 2 || next.is_none(), "{user} {path}: a page that is not full is the last: {page:?}");
        items.extend(page);
        let Some(next) = next else { break };
        cursor = next;
    }
    let ids: BTreeSet<u64> = items.iter().map(|item| item["id"].as_u64().expect("an id")).collect();
    assert_eq!(ids.len(), items.len(), "{user} {path}: each once");
    items.into()
}

/// Every way to read the posts.
async fn check_reads(server: &Server, ids: &[u64], differences: &mut Differences) {
    for (who, direct, unrequested, timeline) in TABLE {
        if !who.is_empty() {
            let read = pages(server, who, "/timeline").await;
            differences.note(who, "timeline.read", &seen(&read, ids), timeline);
        }
        let profile = pages(server, who, "/users/bo/posts").await;
        differences.note(who, "users.posts", &seen(&profile, ids), direct);
        // The number equals the length of the list, for every reader who can see the author.
        let counted = call(server, who, "GET", "/users/bo").await.body["posts"].as_u64().unwrap_or(0);
        let listed = profile.as_array().expect("items").len();
        differences.note(who, "the count of users.get", &counted.to_string(), &listed.to_string());
        let topic = pages(server, who, "/topics/t/posts").await;
        differences.note(who, "topics.read", &seen(&topic, ids), unrequested);
        let everybody = pages(server, who, "/posts/explore").await;
        differences.note(who, "posts.explore", &seen(&everybody, ids), &format!("{}----", &unrequested[..1]));
        let (mut by_id, mut subscribed) = (String::new(), String::new());
        let mut client = connect(server, who).await;
        for id in ids {
            let answer = call(server, who, "GET", &format!("/posts/{id}")).await;
            assert!([200, 404].contains(&answer.status.as_u16()), "{who} {id}: {answer:?}");
            by_id.push(if answer.status.as_u16() == 200 { '+' } else { '-' });
            let reply = client.call(json!({ "subscribe": { "channel": format!("post:{id}") } })).await;
            assert!(reply.get("subscribe").is_some() || reply["error"]["code"] == 102, "{reply}");
            subscribed.push(if reply.get("subscribe").is_some() { '+' } else { '-' });
        }
        differences.note(who, "posts.get", &by_id, direct);
        let asked: Vec<String> = ids.iter().map(u64::to_string).collect();
        let many = done(server, who, "GET", &format!("/posts?ids={}", asked.join(","))).await;
        differences.note(who, "posts.many", &seen(&many, ids), direct);
        differences.note(who, "subscribe post:", &subscribed, direct);
    }
}

/// A reader's connection, subscribed to the author's profile (if allowed) and to the topic.
struct Watcher {
    who: &'static str,
    wire: Wire,
    client: Client,
    timeline: Value,
    profile: Option<Value>,
    topic: Value,
    /// Received in the reader's timeline, in the author's profile, in the topic and as notifications.
    heard: [Vec<Value>; 4],
}

impl Watcher {
    /// Receives the entries of a channel up to the one that contains this text; `place` is the channel's in `heard`.
    async fn hear(&mut self, place: usize, channel: &str, text: &str) {
        let heard = up_to(&mut self.client, channel, text).await;
        self.heard[place].extend(heard);
    }
}

/// Connects every reader over every one of these transports.
async fn watch(server: &Server, wires: impl IntoIterator<Item = Wire>) -> Vec<Watcher> {
    let mut watchers = Vec::new();
    for wire in wires {
        for (who, ..) in TABLE {
            watchers.push(watcher(server, who, wire).await);
        }
    }
    watchers
}

async fn watcher(server: &Server, who: &'static str, wire: Wire) -> Watcher {
    let heard = Default::default();
    if wire.is_unidirectional() {
        let (client, subs) = subscribed_over(server, who, wire, &["user:bo", "topic:t", END]).await;
        let (profile, topic) = (subs.get("user:bo").cloned(), subs["topic:t"].clone());
        return Watcher { who, wire, client, timeline: Value::Null, profile, topic, heard };
    }
    let mut client = connect_over(server, who, wire).await;
    let timeline = match who {
        "" => Value::Null,
        _ => client.rpc("timeline.read", &json!({})).await["position"].clone(),
    };
    let profile = client.call(json!({ "subscribe": { "channel": "user:bo" } })).await.get("subscribe").cloned();
    let topic = client.subscribe("topic:t").await;
    Watcher { who, wire, client, timeline, profile, topic, heard }
}

/// Everything on a channel up to the entry that contains this text.
async fn up_to(client: &mut Client, channel: &str, text: &str) -> Vec<Value> {
    let mut heard = Vec::new();
    loop {
        let publication = client.publication(channel).await;
        let last = publication.to_string().contains(text);
        heard.push(publication);
        if last {
            return heard;
        }
    }
}

/// Waits until all publications have arrived at every watcher, so that later writes are ordered after them.
async fn settle(server: &Server, watchers: &mut [Watcher]) {
    for watcher in watchers.iter_mut().filter(|watcher| ["bo", "follower"].contains(&watcher.who)) {
        // One page of followers and one room: the others' entries are written and pushed together with these.
        watcher.hear(0, &format!("timeline:{}", watcher.who), "<end>").await;
        watcher.hear(1, "user:bo", "<end>").await;
    }
    for person in people().filter(|person| *person != AUTHOR) {
        server.post(person, &format!("<by-{person}> #t")).await;
    }
    for watcher in watchers.iter_mut() {
        let who = watcher.who;
        if !["", AUTHOR].contains(&who) {
            watcher.hear(0, &format!("timeline:{who}"), &format!("<by-{who}>")).await;
        }
        // The author sees no posts of users on either side of a block; the last post that everyone sees is at least the
        // stranger's.
        watcher.hear(2, "topic:t", if who == AUTHOR { "<by-hidden>" } else { "<by-blocking>" }).await;
    }
    let everybody: Vec<String> = people().map(|person| format!("@{person}")).collect();
    let last = server.post("herald", &everybody.join(" ")).await.to_string();
    for watcher in watchers.iter_mut().filter(|watcher| !watcher.who.is_empty()) {
        watcher.hear(3, &format!("notifications:{}", watcher.who), &last).await;
    }
    server.backend("publish", &json!({ "channel": END, "data": 1 })).await;
    for watcher in watchers.iter_mut() {
        let rest = match watcher.wire.is_unidirectional() {
            true => watcher.client.pushed_before(END).await,
            false => watcher.client.pushed().await,
        };
        for push in rest {
            let channel = push["channel"].as_str().unwrap_or_default();
            let place = ["timeline", "user", "topic", "notifications"];
            let place = place.iter().position(|place| channel.starts_with(place)).expect("one of them");
            watcher.heard[place].push(push["pub"].clone());
        }
    }
}

#[tokio::test]
async fn visibility_holds_for_every_read_and_every_push_over_every_transport() {
    let server = server().await;
    divide(&server).await;
    let mut watchers = watch(&server, Wire::all()).await;
    let ids = publish(&server).await;
    settle(&server, &mut watchers).await;
    let mut differences = Differences::default();
    for Watcher { who, wire, profile, heard, .. } in watchers {
        let [timeline, of_author, topic, notified] = heard.map(|heard| seen(&heard.into(), &ids));
        let (_, direct, unrequested, in_timeline) = *TABLE.iter().find(|row| row.0 == who).expect("a row");
        // A reader without access also receives no id that reveals a post.
        differences.note(who, &format!("live timeline: over {wire:?}"), &timeline, in_timeline);
        differences.note(who, &format!("live user: over {wire:?}"), &of_author, direct);
        differences.note(who, &format!("live topic: over {wire:?}"), &topic, unrequested);
        differences.note(who, &format!("live notifications: over {wire:?}"), &notified, mentioned_in(who, unrequested));
        let is_refused = profile.is_none();
        assert_eq!(is_refused, who == "blocked", "{who} {wire:?}: only who is blocked cannot subscribe to user:");
    }
    check_reads(&server, &ids, &mut differences).await;
    differences.none();
}

#[tokio::test]
async fn later_restrictions_hide_earlier_content() {
    let server = server().await;
    // Each reader receives all posts visible to them, and has them in their timeline; then the relations change.
    done(&server, "stranger", "PUT", "/users/bo/follow").await;
    let mut watchers = watch(&server, [Wire::WebSocket(Encoding::Json)]).await;
    let ids = publish(&server).await;
    settle(&server, &mut watchers).await;
    let before: Vec<(&str, Value, Option<Value>, Value)> =
        watchers.into_iter().map(|it| (it.who, it.timeline, it.profile, it.topic)).collect();
    divide(&server).await;
    done(&server, "stranger", "DELETE", "/users/bo/follow").await;

    let mut differences = Differences::default();
    for (who, timeline_at, profile_at, topic_at) in before {
        let (_, direct, unrequested, in_timeline) = *TABLE.iter().find(|row| row.0 == who).expect("a row");
        let from = |channel: &str, at: &Value| {
            let epoch = at["epoch"].clone();
            let offset = at["offset"].as_u64().unwrap_or(0);
            json!({ "subscribe": { "channel": channel, "recover": true, "offset": offset, "epoch": epoch } })
        };
        let mut client = connect(&server, who).await;
        if !who.is_empty() {
            let (mut again, recovered) = Client::recover(&server, who, &timeline_at).await;
            assert_eq!(recovered["recovered"], true, "{who}");
            differences.note(who, "recovery of timeline:", &shown(&recovered["publications"]), in_timeline);
            let history = again.done(json!({ "history": { "channel": format!("timeline:{who}"), "limit": -1 } })).await;
            differences.note(who, "history of timeline:", &shown(&history), in_timeline);
            let (offset, epoch) = (&timeline_at["offset"], timeline_at["epoch"].as_str().expect("an epoch"));
            let updates = done(&server, who, "GET", &format!("/timeline/updates?offset={offset}&epoch={epoch}")).await;
            assert_eq!(updates["recovered"], true, "{who}");
            differences.note(who, "timeline.updates", &shown(&updates["items"]), in_timeline);
            let received =
                again.done(json!({ "history": { "channel": format!("notifications:{who}"), "limit": -1 } })).await;
            differences.note(who, "history of notifications:", &seen(&received, &ids), mentioned_in(who, unrequested));
        }
        for (channel, at, should) in [("user:bo", profile_at, direct), ("topic:t", Some(topic_at), unrequested)] {
            let reply = client.call(from(channel, &at.expect("everybody was there"))).await;
            if who == "blocked" && channel == "user:bo" {
                assert_eq!(reply["error"]["code"], 102, "{reply}");
                continue;
            }
            assert_eq!(reply["subscribe"]["recovered"], true, "{who} {channel}: {reply}");
            let publications = &reply["subscribe"]["publications"];
            differences.note(who, &format!("recovery of {channel}"), &seen(publications, &ids), should);
            let history = client.done(json!({ "history": { "channel": channel, "limit": -1 } })).await;
            differences.note(who, &format!("history of {channel}"), &seen(&history, &ids), should);
        }
    }
    check_reads(&server, &ids, &mut differences).await;
    differences.none();
}
