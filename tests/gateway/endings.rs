//! Causes of notifications that end: nothing is pushed that was not sent yet, what was sent is cleared, and the list
//! and its counts follow at once. A table of causes and endings, on both ledgers and brokers.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream;
use serde_json::{Value, json};

use crate::client::Client;
use crate::postgres_server::PostgresServer;
use crate::push_receiver::{Receiver, register, server_with};
use crate::redis_server::RedisServer;
use crate::server::{PATIENCE, Server};

/// What notifies the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Like,
    LikeOfComment,
    Comment,
    Reply,
    Follow,
    Mention,
    MentionInComment,
    Repost,
    Quote,
    /// A request to follow the owner, whose account is locked.
    Request,
    /// The acceptance of a request of the owner.
    Accepted,
    /// A post of somebody whose posts the owner asked to be alerted of: in no list.
    Alert,
}

/// What ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Unlike, unfollow, the end of a repost or a request; the actor removes the owner, whose request was accepted.
    TakenBack,
    /// The comment, reply or post that caused it, or the liked comment.
    Deleted,
    /// The post under which it happened, or that quotes.
    PostDeleted,
    /// The mention is taken out.
    Edited,
    /// The post is not for the owner any more.
    Narrowed,
    /// The request is answered.
    Granted,
    Rejected,
    Hidden,
    Blocked,
    BlockedByActor,
    Erased,
}

/// All causes, each with the endings that it has besides those of every cause.
const TABLE: &[(Cause, &[Ending])] = &[
    (Cause::Like, &[Ending::TakenBack, Ending::PostDeleted]),
    (Cause::LikeOfComment, &[Ending::TakenBack, Ending::Deleted, Ending::PostDeleted, Ending::Narrowed]),
    (Cause::Comment, &[Ending::Deleted, Ending::PostDeleted]),
    (Cause::Reply, &[Ending::Deleted, Ending::PostDeleted, Ending::Narrowed]),
    (Cause::Follow, &[Ending::TakenBack]),
    (Cause::Mention, &[Ending::Edited, Ending::PostDeleted, Ending::Narrowed]),
    (Cause::MentionInComment, &[Ending::Edited, Ending::Deleted, Ending::PostDeleted, Ending::Narrowed]),
    (Cause::Repost, &[Ending::TakenBack, Ending::PostDeleted]),
    (Cause::Quote, &[Ending::PostDeleted]),
    (Cause::Request, &[Ending::TakenBack, Ending::Granted, Ending::Rejected]),
    (Cause::Accepted, &[Ending::TakenBack]),
    (Cause::Alert, &[Ending::PostDeleted, Ending::Narrowed]),
];

const OF_EVERY_CAUSE: &[Ending] = &[Ending::Hidden, Ending::Blocked, Ending::BlockedByActor, Ending::Erased];

/// The cases that run concurrently.
const CONCURRENT: usize = 8;

/// How long notifications wait on a server where endings come first.
const LONG_GRACE: Duration = Duration::from_secs(6);

/// A case: its users, and the objects that its cause made.
struct Case<'a> {
    server: &'a Server,
    name: String,
    cause: Cause,
    receiver: Receiver,
    owner: String,
    actor: String,
    /// The author of the post.
    author: String,
    post: u64,
    /// The comment that is liked or replied to, or the one that caused it.
    comment: Option<u64>,
}

impl<'a> Case<'a> {
    async fn begin(server: &'a Server, cause: Cause, ending: Ending, is_sent: bool) -> Self {
        let name = format!("{cause:?}-{ending:?}-{}", if is_sent { "sent" } else { "waiting" }).to_lowercase();
        let [owner, actor, other] = ["ann", "bo", "cy"].map(|user| format!("{user}-{name}"));
        let receiver = Receiver::start(&[]).await;
        let author = match cause {
            Cause::Like | Cause::Comment | Cause::Follow | Cause::Repost | Cause::Request | Cause::Accepted => {
                owner.clone()
            }
            Cause::Mention | Cause::Quote | Cause::Alert => actor.clone(),
            Cause::LikeOfComment | Cause::Reply | Cause::MentionInComment => other.clone(),
        };
        for user in [&owner, &actor, &other] {
            server.post(user, "hello").await;
        }
        register(server, &owner, "hook", &receiver.url).await;
        let mut case = Self { server, name, cause, receiver, owner, actor, author, post: 0, comment: None };
        case.happen().await;
        case
    }

    async fn say(&self, user: &str, text: &str, reply_to: Option<u64>) -> u64 {
        let mut body = json!({ "text": text });
        if let Some(id) = reply_to {
            body["reply_to"] = json!(id);
        }
        let said = self.server.done(user, "POST", &format!("/posts/{}/comments", self.post), &body).await;
        said["id"].as_u64().expect("an id")
    }

    /// Makes the cause.
    async fn happen(&mut self) {
        let server = self.server;
        let owner = self.owner.clone();
        let actor = self.actor.clone();
        let put = async |path: String| drop(server.done(&actor, "PUT", &path, &Value::Null).await);
        let mention = format!("look, @{owner}");
        if self.cause == Cause::Alert {
            server.done(&owner, "PUT", &format!("/users/{actor}/notify"), &Value::Null).await;
        }
        let text = if self.cause == Cause::Mention { &*mention } else { "the post" };
        self.post = if self.cause == Cause::Quote {
            let quoted = server.post(&owner, "mine").await;
            let quote = json!({ "text": text, "quote": quoted });
            server.done(&actor, "POST", "/posts", &quote).await["id"].as_u64().expect("an id")
        } else {
            server.post(&self.author, text).await
        };
        let post = self.post;
        let locked = match self.cause {
            Cause::Request => Some(&owner),
            Cause::Accepted => Some(&actor),
            _ => None,
        };
        if let Some(user) = locked {
            server.done(user, "PATCH", "/users/me", &json!({ "locked": true })).await;
        }
        self.comment = match self.cause {
            Cause::LikeOfComment | Cause::Reply => Some(self.say(&owner, "my comment", None).await),
            Cause::Comment => Some(self.say(&actor, "a comment", None).await),
            Cause::MentionInComment => Some(self.say(&actor, &mention, None).await),
            _ => None,
        };
        match (self.cause, self.comment) {
            (Cause::Like, _) => put(format!("/posts/{post}/like")).await,
            (Cause::LikeOfComment, Some(comment)) => put(format!("/comments/{comment}/like")).await,
            (Cause::Reply, comment) => self.comment = Some(self.say(&actor, "a reply", comment).await),
            (Cause::Follow | Cause::Request, _) => put(format!("/users/{owner}/follow")).await,
            (Cause::Repost, _) => put(format!("/posts/{post}/repost")).await,
            (Cause::Accepted, _) => {
                server.done(&owner, "PUT", &format!("/users/{actor}/follow"), &Value::Null).await;
                put(format!("/users/me/requests/{owner}")).await;
            }
            _ => {}
        }
    }

    async fn end(&self, ending: Ending) {
        let Self { server, owner, actor, post, .. } = self;
        let call = async |user: &str, method: &str, path: String, body: Value| {
            server.done(user, method, &path, &body).await;
        };
        let comment = self.comment.unwrap_or_default();
        match (ending, self.cause) {
            (Ending::TakenBack, Cause::Like) => call(actor, "DELETE", format!("/posts/{post}/like"), Value::Null).await,
            (Ending::TakenBack, Cause::LikeOfComment) => {
                call(actor, "DELETE", format!("/comments/{comment}/like"), Value::Null).await;
            }
            (Ending::TakenBack, Cause::Repost) => {
                call(actor, "DELETE", format!("/posts/{post}/repost"), Value::Null).await;
            }
            (Ending::TakenBack, Cause::Accepted) => {
                call(actor, "DELETE", format!("/users/me/followers/{owner}"), Value::Null).await;
            }
            (Ending::TakenBack, _) => call(actor, "DELETE", format!("/users/{owner}/follow"), Value::Null).await,
            (Ending::Granted, _) => call(owner, "PUT", format!("/users/me/requests/{actor}"), Value::Null).await,
            (Ending::Rejected, _) => call(owner, "DELETE", format!("/users/me/requests/{actor}"), Value::Null).await,
            (Ending::Deleted, Cause::LikeOfComment) => {
                call(owner, "DELETE", format!("/comments/{comment}"), Value::Null).await;
            }
            (Ending::Deleted, _) => call(actor, "DELETE", format!("/comments/{comment}"), Value::Null).await,
            (Ending::PostDeleted, _) => call(&self.author, "DELETE", format!("/posts/{post}"), Value::Null).await,
            (Ending::Edited, Cause::MentionInComment) => {
                call(actor, "PATCH", format!("/comments/{comment}"), json!({ "text": "nobody" })).await;
            }
            (Ending::Edited, _) => call(actor, "PATCH", format!("/posts/{post}"), json!({ "text": "nobody" })).await,
            (Ending::Narrowed, _) => {
                let narrow = json!({ "visibility": { "not_to": [owner] } });
                call(&self.author, "PATCH", format!("/posts/{post}"), narrow).await;
            }
            (Ending::Hidden, _) => call(actor, "PUT", format!("/users/{owner}/hide"), Value::Null).await,
            (Ending::Blocked, _) => call(owner, "PUT", format!("/users/{actor}/block"), Value::Null).await,
            (Ending::BlockedByActor, _) => call(actor, "PUT", format!("/users/{owner}/block"), Value::Null).await,
            (Ending::Erased, _) => drop(server.backend("delete_user", &json!({ "user": actor })).await),
        }
    }

    /// Waits until the list of the owner has this many notifications, all of them unread.
    async fn has(&self, number: usize) {
        let begun = Instant::now();
        loop {
            let page = self.server.done(&self.owner, "GET", "/notifications", &Value::Null).await;
            let listed = page["items"].as_array().map_or(0, Vec::len);
            if (listed, page["unread"].as_u64(), page["unseen"].as_u64())
                == (number, Some(number as u64), Some(number as u64))
            {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{}: {number} notifications are expected: {page}", self.name);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn cases() -> impl Iterator<Item = (Cause, Ending)> {
    TABLE.iter().flat_map(|(cause, endings)| endings.iter().chain(OF_EVERY_CAUSE).map(|ending| (*cause, *ending)))
}

async fn what_was_not_sent_is_not_sent(keys: &[(&str, &str)]) {
    let grace = format!("{}s", LONG_GRACE.as_secs());
    let keys: Vec<_> = keys.iter().copied().chain([("push.grace", grace.as_str())]).collect();
    let server = server_with(&keys).await;
    let run = |(cause, ending)| ends_before_the_push(&server, cause, ending);
    let are_tested: Vec<bool> = stream::iter(cases()).map(run).buffer_unordered(CONCURRENT).collect().await;
    let tested = are_tested.iter().filter(|is_tested| **is_tested).count();
    assert!(2 * tested > are_tested.len(), "only {tested} of {} cases ended before their pushes", are_tested.len());
}

/// Returns whether the cause ended within the grace: a slow machine may take longer, and then the push is right.
async fn ends_before_the_push(server: &Server, cause: Cause, ending: Ending) -> bool {
    let begun = Instant::now();
    let case = Case::begin(server, cause, ending, false).await;
    case.has(usize::from(cause != Cause::Alert)).await;
    case.end(ending).await;
    if begun.elapsed() > LONG_GRACE {
        return false;
    }
    case.has(0).await;
    tokio::time::sleep(LONG_GRACE + Duration::from_secs(1)).await;
    let received = case.receiver.received.lock().clone();
    assert!(received.is_empty(), "{}: {received:?}", case.name);
    true
}

async fn what_was_sent_is_cleared(keys: &[(&str, &str)]) {
    let keys: Vec<_> = keys.iter().copied().chain([("push.grace", "50ms")]).collect();
    let server = server_with(&keys).await;
    let run = |(cause, ending)| ends_after_the_push(&server, cause, ending);
    stream::iter(cases()).for_each_concurrent(CONCURRENT, run).await;
}

async fn ends_after_the_push(server: &Server, cause: Cause, ending: Ending) {
    let case = Case::begin(server, cause, ending, true).await;
    let alert = case.receiver.wait_for(1).await.remove(0);
    assert_eq!(alert["push"], "alert", "{}: {alert}", case.name);
    case.end(ending).await;
    case.has(0).await;
    let clear = case.receiver.wait_for(2).await.remove(1);
    assert_eq!((&clear["push"], &clear["badge"]), (&json!("clear"), &json!(0)), "{}: {clear}", case.name);
    let data = &clear["data"];
    if cause == Cause::Alert {
        assert_eq!(data["gone_posts"], json!(case.post.to_string()), "{}: {clear}", case.name);
        return;
    }
    let number = |value: &Value| value.as_str().and_then(|id| id.parse::<u64>().ok());
    assert_eq!(data["unread"], "", "{}: {clear}", case.name);
    assert!(number(&data["upto"]) >= number(&alert["data"]["notification"]), "{}: {clear}", case.name);
}

#[tokio::test]
async fn causes_end_before_the_push() {
    what_was_not_sent_is_not_sent(&[]).await;
}

#[tokio::test]
async fn causes_end_after_the_push() {
    what_was_sent_is_cleared(&[]).await;
}

#[tokio::test]
async fn causes_end_with_postgresql_and_redis() {
    let (redis, postgres) = (RedisServer::start(), PostgresServer::start());
    let (broker, ledger) = (redis.url(), postgres.url("postgres"));
    let keys = [("broker.url", broker.as_str()), ("ledger.url", ledger.as_str())];
    what_was_sent_is_cleared(&keys).await;
    what_was_not_sent_is_not_sent(&keys).await;
}

#[tokio::test]
async fn a_quote_that_its_author_narrows_is_cleared() {
    let server = server_with(&[("push.grace", "50ms")]).await;
    ends_after_the_push(&server, Cause::Quote, Ending::Narrowed).await;
}

/// Waits until the notifications of a user fulfil a condition, and returns the page.
async fn list(server: &Server, user: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let page = server.done(user, "GET", "/notifications", &Value::Null).await;
        if is_so(&page) {
            return page;
        }
        assert!(begun.elapsed() < PATIENCE, "the list stays {page}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn event(socket: &mut Client) -> Value {
    socket.publication("notifications:ann").await["data"].clone()
}

#[tokio::test]
async fn a_group_loses_the_person_and_goes_when_it_is_empty() {
    let server = Server::start().await;
    let mut socket = Client::connect(&server, "ann").await;
    let post = server.post("ann", "mine").await;
    let like = async |by: &str, method: &str| {
        drop(server.done(by, method, &format!("/posts/{post}/like"), &Value::Null).await);
    };
    let mut id = Value::Null;
    for (by, count) in [("bo", 1), ("cy", 2)] {
        like(by, "PUT").await;
        let grown = event(&mut socket).await;
        assert_eq!((&grown["type"], &grown["notification"]["count"]), (&json!("notification"), &json!(count)));
        id = grown["notification"]["id"].clone();
    }
    like("cy", "DELETE").await;
    let smaller = event(&mut socket).await["notification"].clone();
    assert_eq!((&smaller["id"], &smaller["count"], &smaller["people"][0]["id"]), (&id, &json!(1), &json!("bo")));
    like("bo", "DELETE").await;
    assert_eq!(event(&mut socket).await, json!({ "type": "notification.gone", "id": id }));
    let page = server.done("ann", "GET", "/notifications", &Value::Null).await;
    assert_eq!((&page["items"], &page["unread"], &page["unseen"]), (&json!([]), &json!(0), &json!(0)));
    // Those who like it again are back in their group, and others join it.
    like("cy", "PUT").await;
    assert_eq!(event(&mut socket).await["notification"]["id"], id);
    like("dee", "PUT").await;
    assert_eq!(event(&mut socket).await["notification"]["count"], 2);
}

#[tokio::test]
async fn what_is_done_again_is_not_pushed_again() {
    let server = server_with(&[("push.grace", "50ms"), ("push.digest", "0s")]).await;
    let receiver = Receiver::start(&[]).await;
    register(&server, "ann", "hook", &receiver.url).await;
    let post = server.post("ann", "mine").await;
    let theirs = server.post("bo", "hello").await;
    let edit = |text: &str| ("PATCH", format!("/posts/{theirs}"), json!({ "text": text }));
    let call = |method: &'static str, path: &str| (method, path.to_owned(), Value::Null);
    let like = format!("/posts/{post}/like");
    let pairs = [
        [call("PUT", &like), call("DELETE", &like)],
        [call("PUT", "/users/ann/follow"), call("DELETE", "/users/ann/follow")],
        [edit("hello @ann"), edit("hello")],
    ];
    // One after the other, so that they are no digest.
    for (number, [(method, path, body), back]) in pairs.iter().enumerate() {
        for _ in 0..2 {
            server.done("bo", method, path, body).await;
            list(&server, "ann", |page| page["unread"] == 1).await;
            let begun = Instant::now();
            while receiver.alerts().len() <= number {
                assert!(begun.elapsed() < PATIENCE, "{:?}", receiver.alerts());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            server.done("bo", back.0, &back.1, &back.2).await;
            list(&server, "ann", |page| page["unread"] == 0).await;
        }
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(receiver.alerts().len(), 3, "{:?}", receiver.alerts());
}

#[tokio::test]
async fn another_comment_of_the_same_person_renews_the_group() {
    let server = server_with(&[("push.grace", "300ms")]).await;
    let receiver = Receiver::start(&[]).await;
    register(&server, "ann", "hook", &receiver.url).await;
    let post = server.post("ann", "mine").await;
    let say = async |text: &str, reply_to: Option<u64>| {
        let mut body = json!({ "text": text });
        if let Some(id) = reply_to {
            body["reply_to"] = json!(id);
        }
        let by = if text == "my comment" { "ann" } else { "bo" };
        server.done(by, "POST", &format!("/posts/{post}/comments"), &body).await["id"].as_u64().expect("an id")
    };
    let mine = say("my comment", None).await;
    let mut expected: Vec<String> = Vec::new();
    for (kind, parent) in [("comment", None), ("reply", Some(mine))] {
        let [first, second] = ["first", "second"].map(|number| format!("the {number} {kind}"));
        let one = say(&first, parent).await;
        expected.push(first);
        alerted(&receiver, &expected).await;
        let before = list(&server, "ann", |page| page["items"][0]["kind"] == kind).await["items"][0].clone();
        server.done("ann", "PUT", "/notifications/read", &json!({ "seen": true })).await;
        list(&server, "ann", |page| page["unseen"] == 0).await;
        let two = say(&second, parent).await;
        // The list and the number of unseen ones are read one after the other.
        let is_renewed = |page: &Value| page["unseen"] == 1 && page["items"][0]["seen"] == false;
        let renewed = list(&server, "ann", is_renewed).await["items"][0].clone();
        assert_eq!((&renewed["id"], &renewed["count"], &renewed["seen"]), (&before["id"], &json!(1), &json!(false)));
        assert!(renewed["updated_at"].as_u64() > before["updated_at"].as_u64());
        expected.push(second);
        alerted(&receiver, &expected).await;
        // The group stays as long as one of the comments does.
        server.done("bo", "DELETE", &format!("/comments/{two}"), &Value::Null).await;
        let page = list(&server, "ann", |_| true).await;
        assert_eq!((&page["items"][0]["id"], &page["items"][0]["count"]), (&before["id"], &json!(1)));
        server.done("bo", "DELETE", &format!("/comments/{one}"), &Value::Null).await;
        list(&server, "ann", |page| page["items"].as_array().is_some_and(Vec::is_empty)).await;
    }
}

/// Waits for alerts with these bodies.
async fn alerted(receiver: &Receiver, bodies: &[String]) {
    let begun = Instant::now();
    while receiver.alerts().len() < bodies.len() {
        assert!(begun.elapsed() < PATIENCE, "{bodies:?} are expected: {:?}", receiver.alerts());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let alerts = receiver.alerts();
    let shown: Vec<&str> = alerts.iter().map(|push| push["body"].as_str().unwrap_or_default()).collect();
    assert_eq!(shown, bodies);
}

#[tokio::test]
async fn a_post_that_more_may_see_notifies_those_it_mentions() {
    let server = server_with(&[("push.grace", "300ms")]).await;
    let (of_ann, of_cy) = (Receiver::start(&[]).await, Receiver::start(&[]).await);
    for (user, receiver) in [("ann", &of_ann), ("cy", &of_cy)] {
        server.post(user, "hello").await;
        register(&server, user, "hook", &receiver.url).await;
    }
    server.follow("cy", "bo").await;
    let draft = json!({ "text": "for @ann and @cy", "visibility": "followers" });
    let post = server.done("bo", "POST", "/posts", &draft).await["id"].as_u64().expect("an id");
    of_cy.wait_for(1).await;
    assert_eq!(list(&server, "ann", |_| true).await["items"], json!([]), "she may not see it");
    let see = async |visibility: Value| {
        server.done("bo", "PATCH", &format!("/posts/{post}"), &json!({ "visibility": visibility })).await;
    };
    see(json!("public")).await;
    // The list and the number of unread ones are read one after the other.
    let page = list(&server, "ann", |page| page["unread"] == 1 && page["items"] != json!([])).await;
    assert_eq!((&page["items"][0]["kind"], &page["items"][0]["object"]["id"]), (&json!("mention"), &json!(post)));
    assert_eq!(of_ann.wait_for(1).await[0]["body"], "for @ann and @cy");
    for _ in 0..2 {
        see(json!({ "not_to": ["ann"] })).await;
        list(&server, "ann", |page| page["unread"] == 0).await;
        see(json!("public")).await;
        list(&server, "ann", |page| page["unread"] == 1).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((of_ann.alerts().len(), of_cy.alerts().len()), (1, 1), "nobody is notified twice");
}
