//! The outlet: events of each type, the long poll, webhooks.

use std::collections::{BTreeMap, HashSet};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::client::Client;
use crate::postgres_server::shared;
use crate::server::{API_KEY, Answer, PATIENCE, Server, unix};
use crate::webhook::WebhookReceiver;

const SECRET: &str = "a secret of the outlet with 32 characters or more";

/// The webhook of these tests, as configuration.
fn webhook(receiver: &WebhookReceiver, types: &[&str]) -> String {
    json!([{ "name": "hook", "url": receiver.url(), "secrets": [SECRET], "types": types }]).to_string()
}

/// A server with this webhook.
async fn hooked(receiver: &WebhookReceiver, types: &[&str], keys: &[(&str, &str)]) -> Server {
    let webhooks = webhook(receiver, types);
    let mut all = vec![("outlet.webhooks", webhooks.as_str()), ("outlet.allow_networks", "127.0.0.0/8")];
    all.extend(keys);
    Server::start_with(&all).await
}

/// A poll with a query.
async fn poll(server: &Server, query: &str) -> Answer {
    server.http("GET", &format!("/api/events?{query}"), &[("x-api-key", API_KEY)], "").await
}

/// Events and cursor of a poll that must succeed.
async fn events(server: &Server, query: &str) -> (Vec<Value>, String) {
    let answer = poll(server, query).await;
    assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
    assert_eq!(answer.body["missed"], 0, "{answer:?}");
    let cursor = answer.body["cursor"].as_str().expect("a cursor").to_owned();
    (answer.body["events"].as_array().expect("events").clone(), cursor)
}

/// Polls until this many events arrived.
async fn all_events(server: &Server, number: usize) -> Vec<Value> {
    let (begun, mut all, mut cursor) = (Instant::now(), Vec::new(), String::new());
    while all.len() < number {
        assert!(begun.elapsed() < PATIENCE, "{number} events are expected: {all:#?}");
        let after = if cursor.is_empty() { String::new() } else { format!("&cursor={cursor}") };
        let (events, next) = events(server, &format!("consumer=app&wait=2{after}")).await;
        all.extend(events);
        cursor = next;
    }
    all
}

/// Causes an event of each type.
async fn live(server: &Server) -> (u64, u64) {
    server.follow("bo", "ann").await;
    let first = server.post("ann", "a post").await;
    server.done("ann", "PATCH", &format!("/posts/{first}"), &json!({ "text": "a better post" })).await;
    server.done("ann", "DELETE", &format!("/posts/{first}"), &Value::Null).await;
    let second = server.post("ann", "hello @bo").await;
    server.done("bo", "DELETE", "/users/ann/follow", &Value::Null).await;
    let socket = Client::connect(server, "ann").await;
    drop(socket);
    (first, second)
}

/// The types of the events of a user, in order.
fn types<'a>(events: &'a [Value], user: &str) -> Vec<&'a str> {
    events.iter().filter(|event| event["user"] == user).filter_map(|event| event["type"].as_str()).collect()
}

async fn check_every_event(keys: &[(&str, &str)]) {
    let mut all = vec![("outlet.consumers", "app"), ("outlet.activity", "true"), ("outlet.away_after", "100ms")];
    all.extend(keys);
    let server = Server::start_with(&all).await;
    let (first, second) = live(&server).await;
    let events = all_events(&server, 10).await;
    let of_ann: Vec<&str> = types(&events, "ann").into_iter().filter(|kind| *kind != "notification").collect();
    let expected = ["post.created", "post.edited", "post.deleted", "post.created", "user.connected", "user.away"];
    assert_eq!(of_ann, expected, "{events:#?}");
    let of_bo: Vec<&str> = types(&events, "bo").into_iter().filter(|kind| *kind != "notification").collect();
    assert_eq!(of_bo, ["follow.created", "follow.deleted"], "{events:#?}");
    let find = |kind: &str, user: &str| {
        let found = events.iter().filter(|event| event["type"] == kind && event["user"] == user);
        found.cloned().collect::<Vec<_>>()
    };
    let created = find("post.created", "ann");
    assert_eq!((&created[0]["post"], &created[0]["mentions"]), (&json!(first), &json!([])));
    assert_eq!((&created[1]["post"], &created[1]["mentions"]), (&json!(second), &json!(["bo"])));
    assert_eq!(find("follow.created", "bo")[0]["followee"], "ann");
    let followed = &find("notification", "ann")[0]["notification"];
    assert_eq!((&followed["kind"], &followed["by"], &followed["count"]), (&json!("follow"), &json!(["bo"]), &json!(1)));
    let mention = &find("notification", "bo")[0]["notification"];
    assert_eq!((&mention["kind"], &mention["object"]), (&json!("mention"), &json!({ "type": "post", "id": second })));
    let ids: Vec<u64> = events.iter().filter_map(|event| event["id"].as_str()?.parse().ok()).collect();
    assert_eq!(ids, (1..=10).collect::<Vec<u64>>());
    let now = unix() * 1000;
    assert!(events.iter().all(|event| event["at"].as_u64().is_some_and(|at| at + 60_000 > now)), "{events:#?}");
    server.metric_is("feedline_outlet_events_total{type=\"post.created\"}", 2.0).await;
}

#[tokio::test]
async fn every_event_reaches_a_consumer_on_sqlite() {
    check_every_event(&[]).await;
}

#[tokio::test]
async fn every_event_reaches_a_consumer_on_postgres() {
    let url = shared().url(&shared().migrated().await);
    check_every_event(&[("ledger.url", &url), ("ledger.connections", "4")]).await;
}

#[tokio::test]
async fn a_server_that_stops_reports_its_users_away() {
    let keys = [("outlet.consumers", "app"), ("outlet.activity", "true"), ("outlet.away_after", "10m")];
    let mut server = Server::start_with(&keys).await;
    let (left, _stays) = (Client::connect(&server, "ann").await, Client::connect(&server, "bo").await);
    all_events(&server, 2).await;
    drop(left);
    server.metric_is("feedline_connections", 1.0).await;
    server.stop().await;
    server.start_again().await;
    let begun = Instant::now();
    let events = loop {
        let (events, _) = events(&server, "consumer=app&cursor=0&wait=1").await;
        if events.len() == 4 {
            break events;
        }
        assert!(begun.elapsed() < PATIENCE, "four events are expected: {events:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    for user in ["ann", "bo"] {
        assert_eq!(types(&events, user), ["user.connected", "user.away"], "{events:#?}");
    }
}

#[tokio::test]
async fn channels_of_a_namespace_with_events_are_subscribed_and_vacated() {
    let namespaces = r#"[{"name":"chat","events":true},{"name":"quiet"}]"#;
    let server = Server::start_with(&[
        ("outlet.consumers", "app"),
        ("outlet.away_after", "100ms"),
        ("auth.anonymous", "true"),
        ("namespaces", namespaces),
    ])
    .await;
    let mut ann = Client::connect(&server, "ann").await;
    ann.subscribe("quiet:1").await;
    ann.subscribe("chat:1").await;
    let mut anonymous = Client::open(&server).await;
    anonymous.done(json!({ "connect": {} })).await;
    anonymous.subscribe("chat:1").await;
    drop(ann);
    server.metric_is("feedline_connections", 1.0).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    anonymous.done(json!({ "unsubscribe": { "channel": "chat:1" } })).await;
    let mut events = all_events(&server, 3).await;
    for event in &mut events {
        let event = event.as_object_mut().expect("an object");
        event.retain(|member, _| member != "at" && member != "id");
    }
    let expected = json!([
        { "type": "channel.subscribed", "channel": "chat:1", "user": "ann" },
        { "type": "channel.subscribed", "channel": "chat:1" },
        { "type": "channel.vacated", "channel": "chat:1" },
    ]);
    assert_eq!(json!(events), expected);
}

#[tokio::test]
async fn polls_wait_and_acknowledge_with_a_cursor() {
    // A poll may wait for longer than a transfer that makes no progress.
    let keys = [("outlet.consumers", "app,other"), ("server.stall_timeout", "1s"), ("server.header_timeout", "1s")];
    let server = Server::start_with(&keys).await;
    let begun = Instant::now();
    assert_eq!(events(&server, "consumer=app&wait=3").await, (vec![], "0".into()));
    assert!(begun.elapsed() >= Duration::from_millis(2_900), "{:?}", begun.elapsed());
    let begun = Instant::now();
    let (polled, first) = tokio::join!(events(&server, "consumer=app&wait=20"), server.post("ann", "one"));
    assert!(begun.elapsed() < Duration::from_secs(10), "a poll ends with an event: {:?}", begun.elapsed());
    assert_eq!((polled.0.len(), &polled.0[0]["post"], &*polled.1), (1, &json!(first), "1"));
    // Without an acknowledgement, the event is read again, also after a restart.
    assert_eq!(events(&server, "consumer=app").await, polled);
    server.post("ann", "two").await;
    server.post("ann", "three").await;
    assert_eq!(all_events(&server, 3).await.len(), 3);
    let (limited, cursor) = events(&server, "consumer=app&cursor=1&limit=1").await;
    assert_eq!((limited.len(), &*cursor), (1, "2"));
    let (rest, _) = events(&server, "consumer=app&cursor=2").await;
    assert_eq!(rest.len(), 1);
    assert_eq!(events(&server, "consumer=app").await.0, rest, "the second one is acknowledged");
    assert_eq!(events(&server, "consumer=app&cursor=0").await.0.len(), 3, "events are kept");
    assert_eq!(events(&server, "consumer=app").await.0, rest, "the acknowledgement does not move back");
    assert_eq!(events(&server, "consumer=other").await.0.len(), 3, "each consumer has its own");
    for (query, status) in
        [("consumer=none", 404), ("consumer=app&cursor=99", 400), ("consumer=app&limit=0", 400), ("cursor=x", 400)]
    {
        assert_eq!(poll(&server, query).await.status.as_u16(), status, "{query}");
    }
    let answer = server.http("GET", "/api/events?consumer=app", &[("x-api-key", "wrong")], "").await;
    assert_eq!(answer.status.as_u16(), 401);
}

#[tokio::test]
async fn a_stopping_server_answers_polls() {
    let mut server = Server::start_with(&[("outlet.consumers", "app")]).await;
    let port = server.port();
    let begun = Instant::now();
    let waiting = tokio::spawn(async move {
        Server::request_at(port, "GET", "/api/events?consumer=app&wait=60", &[("x-api-key", API_KEY)], "").await
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.stop().await;
    let answer = waiting.await.expect("an end").expect("an answer");
    assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn backlogs_are_measured() {
    let server = Server::start_with(&[("outlet.consumers", "app")]).await;
    server.post("ann", "one").await;
    server.post("ann", "two").await;
    server.metric_is("feedline_outlet_waiting{consumer=\"app\"}", 2.0).await;
    for (acknowledged, waiting) in [(1, 1.0), (2, 0.0)] {
        events(&server, &format!("consumer=app&cursor={acknowledged}")).await;
        server.metric_is("feedline_outlet_waiting{consumer=\"app\"}", waiting).await;
    }
}

#[tokio::test]
async fn events_that_are_too_old_are_missed() {
    let keys = [("outlet.consumers", "app"), ("outlet.retention", "8s"), ("outlet.give_up", "1s")];
    let server = Server::start_with(&keys).await;
    server.post("ann", "one").await;
    server.post("ann", "two").await;
    all_events(&server, 2).await;
    assert_eq!(events(&server, "consumer=app&cursor=1").await.0.len(), 1);
    let begun = Instant::now();
    loop {
        let answer = poll(&server, "consumer=app").await;
        if answer.body["missed"] == 1 {
            assert_eq!((&answer.body["events"], &answer.body["cursor"]), (&json!([]), &json!("1")), "{answer:?}");
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{answer:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    server.post("ann", "three").await;
    let answer = poll(&server, "consumer=app&wait=5").await;
    assert_eq!((&answer.body["missed"], &answer.body["cursor"]), (&json!(1), &json!("3")), "{answer:?}");
    assert_eq!(
        events(&server, "consumer=app&cursor=3").await.0.len(),
        0,
        "missed events are reported until the cursor passes"
    );
}

#[tokio::test]
async fn webhooks_are_signed_and_filtered() {
    let receiver = WebhookReceiver::start(|_| 200).await;
    let server = hooked(&receiver, &["post.created", "post.deleted"], &[]).await;
    let post = server.post("ann", "hello").await;
    server.follow("bo", "ann").await;
    server.done("ann", "DELETE", &format!("/posts/{post}"), &Value::Null).await;
    let accepted = receiver.wait(PATIENCE, |accepted| accepted.len() == 2).await;
    assert_eq!(types(&accepted, "ann"), ["post.created", "post.deleted"]);
    for delivery in receiver.deliveries() {
        assert_eq!(delivery.headers["content-type"], "application/json");
        assert_eq!(delivery.headers["feedline-delivery"], delivery.json["id"].as_str().expect("an id"));
        let signature = &delivery.headers["feedline-signature"];
        let (time, given) = signature.split_once(",v1=").expect("a signature");
        let time = time.strip_prefix("t=").expect("a time");
        assert!(time.parse::<u64>().expect("seconds").abs_diff(unix()) < 60);
        let signed = [time.as_bytes(), b".", &delivery.body].concat();
        let expected = sign(&Key::new(HMAC_SHA256, SECRET.as_bytes()), &signed);
        let expected: String = expected.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(given, expected);
    }
    server.metric_is("feedline_outlet_delivered_total{consumer=\"webhook:hook\"}", 2.0).await;
    assert!(!server.log().contains("key=secret") && !server.log().contains(SECRET), "{}", server.log());
}

/// Fails unless the accepted events of each user are those in the log, in order. Repeats are allowed.
fn check_order(accepted: &[Value]) {
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    let mut seen = HashSet::new();
    for event in accepted {
        let id: u64 = event["id"].as_str().expect("an id").parse().expect("a number");
        if !seen.insert(id) {
            continue;
        }
        let user = event["user"].as_str().expect("a user").to_owned();
        let before = last.insert(user.clone(), id);
        assert!(before.is_none_or(|before| before < id), "{user}: {id} after {before:?}");
    }
}

#[tokio::test]
async fn failures_keep_the_order_of_each_user() {
    let attempts: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let counted = Arc::clone(&attempts);
    let receiver = WebhookReceiver::start(move |event| {
        let id = event["id"].as_str().expect("an id").to_owned();
        let attempt = *counted.lock().entry(id.clone()).and_modify(|attempts| *attempts += 1).or_insert(1);
        match (id.parse::<u64>().expect("a number") % 7, attempt) {
            (1, 1) => 409,
            (3, 1) => 503,
            (5, 1) => 0,
            (6, 1 | 2) => 409,
            _ => 204,
        }
    });
    let receiver = receiver.await;
    let server = hooked(&receiver, &["post.created"], &[]).await;
    for n in 0..30 {
        server.post(["ann", "bo", "cy"][n % 3], &format!("post {n}")).await;
    }
    let accepted = receiver.wait(4 * PATIENCE, |accepted| accepted.len() == 30).await;
    check_order(&accepted);
    let ids: HashSet<&str> = accepted.iter().filter_map(|event| event["id"].as_str()).collect();
    assert_eq!(ids.len(), 30, "nothing is lost, and nothing accepted is repeated");
}

#[tokio::test]
async fn refused_events_are_set_aside_and_replayed() {
    let refusing = Arc::new(Mutex::new(true));
    let refuses = Arc::clone(&refusing);
    let receiver = WebhookReceiver::start(move |event| {
        let is_bad = event["type"] == "post.edited" && *refuses.lock();
        if is_bad { 422 } else { 200 }
    });
    let receiver = receiver.await;
    let server = hooked(&receiver, &[], &[("outlet.give_up", "3s")]).await;
    let post = server.post("ann", "one").await;
    server.done("ann", "PATCH", &format!("/posts/{post}"), &json!({ "text": "two" })).await;
    server.done("ann", "DELETE", &format!("/posts/{post}"), &Value::Null).await;
    let accepted = receiver.wait(PATIENCE, |accepted| accepted.len() == 2).await;
    assert_eq!(types(&accepted, "ann"), ["post.created", "post.deleted"], "the next one is not held up for ever");
    let refused: Vec<_> = receiver.deliveries().into_iter().filter(|delivery| delivery.status == 422).collect();
    assert!(refused.len() > 1, "a refusal is not final: {refused:?}");
    server.metric_is("feedline_outlet_given_up_total{consumer=\"webhook:hook\"}", 1.0).await;
    server.metric_is("feedline_outlet_set_aside{consumer=\"webhook:hook\"}", 1.0).await;
    let failed = server.command(&["quarantine", "list", "--kind", "webhook"]);
    let listed = String::from_utf8_lossy(&failed.stdout).into_owned();
    assert!(listed.starts_with("webhook hook/2 since ") && listed.contains("refused: 422"), "{failed:?}");
    let shown = server.command(&["quarantine", "show", "webhook", "hook/2"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("post.edited"), "{shown:?}");
    assert!(!server.command(&["quarantine", "retry", "webhook", "hook/1"]).status.success());
    *refusing.lock() = false;
    let replayed = server.command(&["quarantine", "retry", "webhook", "hook/2"]);
    assert!(replayed.status.success(), "{replayed:?}");
    let accepted = receiver.wait(PATIENCE, |accepted| accepted.len() == 3).await;
    assert_eq!(accepted[2]["type"], "post.edited");
    let failed = server.command(&["quarantine", "list"]);
    assert_eq!(String::from_utf8_lossy(&failed.stdout), "the quarantine is empty\n");
    server.metric_is("feedline_outlet_set_aside{consumer=\"webhook:hook\"}", 0.0).await;
}

#[tokio::test]
async fn events_refused_for_too_long_do_not_hold_up_their_user() {
    // 409 concerns the event alone: the receiver counts as working.
    let receiver = WebhookReceiver::start(|event| if event["id"] == "1" { 409 } else { 200 }).await;
    let server = hooked(&receiver, &[], &[("outlet.give_up", "3s")]).await;
    server.post("ann", "one").await;
    server.post("ann", "two").await;
    server.post("bo", "three").await;
    let accepted = receiver.wait(PATIENCE, |accepted| !accepted.is_empty()).await;
    assert_eq!(accepted[0]["user"], "bo", "other users do not wait");
    let accepted = receiver.wait(PATIENCE, |accepted| accepted.len() == 2).await;
    assert_eq!(accepted[1]["id"], "2");
    let listed = server.command(&["quarantine", "list"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.starts_with("webhook hook/1 ") && listed.contains("given up after"), "{listed}");
}

/// The bridge of the documentation.
const BRIDGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/outlet-bridge.py");

/// A process that is killed when the test ends.
struct Bridge {
    child: Child,
    output: Option<BufReader<ChildStdout>>,
}

impl Bridge {
    fn start(server: &Server) -> Self {
        let child = Command::new("python3")
            .args([BRIDGE, "app"])
            .env("FEEDLINE_URL", format!("http://127.0.0.1:{}", server.port()))
            .env("FEEDLINE_API_KEY", API_KEY)
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.expect("python3");
        let output = child.stdout.take().map(BufReader::new);
        Self { child, output }
    }

    /// The next lines of its output.
    async fn lines(&mut self, number: usize) -> Vec<String> {
        let mut reader = self.output.take().expect("its output");
        let reading = tokio::task::spawn_blocking(move || {
            let lines = (0..number).map(|_| {
                let mut line = String::new();
                reader.read_line(&mut line).expect("a line");
                line.trim_end().to_owned()
            });
            (lines.collect::<Vec<_>>(), reader)
        });
        let (lines, output) = tokio::time::timeout(PATIENCE, reading).await.expect("lines in time").expect("lines");
        self.output = Some(output);
        lines
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn the_documented_bridge_works() {
    let text = std::fs::read_to_string(BRIDGE).expect("the bridge");
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/outlet.md")).expect("the page");
    assert!(page.contains(&format!("```python\n{text}```\n")), "docs/outlet.md has another bridge");
    assert!(text.lines().count() <= 32);
    let mut server = Server::start_with(&[("outlet.consumers", "app")]).await;
    let mut bridge = Bridge::start(&server);
    server.post("ann", "one").await;
    assert_eq!(bridge.lines(1).await, ["1 post.created ann"]);
    server.post("bo", "two").await;
    assert_eq!(bridge.lines(1).await, ["2 post.created bo"]);
    // It survives a restart of the server, and repeats at most what it did not acknowledge.
    server.kill();
    server.start_again().await;
    server.follow("bo", "ann").await;
    let lines = bridge.lines(2).await;
    assert_eq!(lines[0], "3 follow.created bo", "{lines:?}");
    drop(bridge);
    server.post("cy", "while it is away").await;
    let mut bridge = Bridge::start(&server);
    let mut all = Vec::new();
    while !all.iter().any(|line: &String| line.ends_with("post.created cy")) {
        all.extend(bridge.lines(1).await);
    }
    assert!(all.iter().all(|line| !line.starts_with("1 ") && !line.starts_with("2 ")), "acknowledged: {all:?}");
}
