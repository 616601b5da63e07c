//! Pushes while nodes, a process for pushes, Redis and PostgreSQL are killed at random moments: each notification is
//! pushed, alone or in a digest, and none again whose acceptance was recorded.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use feedline::model::{ContentId, PushPreferences, UserId};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::api::attempt_named;
use crate::chaos;
use crate::client::Client;
use crate::cluster::{Cluster, until};
use crate::likers::Field;
use crate::push_process::PushProcess;
use crate::random::SeededRandom;
use crate::server::{API_KEY, Server};

/// The users with a device. Each has fewer notifications than a ledger keeps, also in the long form.
const USERS: usize = 48;

/// Longer than the lease of a push with the time-out of this test. Afterwards, nothing is left to be repeated.
const LEASE: Duration = Duration::from_secs(6);

/// What is killed.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Node,
    PushProcess,
    Redis,
    Postgres,
}

const VICTIMS: [Victim; 4] = [Victim::Node, Victim::PushProcess, Victim::Redis, Victim::Postgres];

/// A push: the user, and the id of the notification.
type Item = (String, i64);

/// The time limit for the last pushes: longer than leases, and the delays between attempts.
const RECOVERY: Duration = Duration::from_secs(90);

/// The times at which each push was received.
type Received = Arc<Mutex<HashMap<Item, Vec<Instant>>>>;

/// A receiver of webhooks that accepts everything. The path names the user.
async fn receiver() -> (String, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let received = Received::default();
    let all = Arc::clone(&received);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket, Arc::clone(&all)));
        }
    });
    (url, received)
}

async fn serve(mut socket: TcpStream, received: Received) {
    let mut buffer = Vec::new();
    loop {
        let (head, length, user) = loop {
            let text = String::from_utf8_lossy(&buffer).to_lowercase();
            if let Some(head) = text.find("\r\n\r\n") {
                let length = text.split("content-length:").nth(1).and_then(|rest| rest.lines().next());
                let user = text.split(['/', ' ']).nth(2).unwrap_or_default().to_owned();
                break (head + 4, length.and_then(|length| length.trim().parse().ok()).unwrap_or(0), user);
            }
            if socket.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
                return;
            }
        };
        while buffer.len() < head + length {
            if socket.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let body: Value = serde_json::from_slice(&buffer[head..head + length]).expect("JSON");
        buffer.drain(..head + length);
        let item = body["data"]["notification"].as_str().and_then(|id| id.parse().ok()).expect("an id");
        received.lock().entry((user, item)).or_default().push(Instant::now());
        if socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.is_err() {
            return;
        }
    }
}

fn user(n: usize) -> String {
    format!("user{n}")
}

async fn register(server: &Server, user: &str, url: &str) {
    let headers = [("x-api-key", API_KEY), ("x-user", user)];
    let body = json!({ "platform": "webhook", "endpoint": format!("{url}/{user}") }).to_string();
    let answer = server.http("PUT", "/api/v1/devices/hook", &headers, &body).await;
    assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
    let preferences = json!({ "daily_cap": PushPreferences::MAX_DAILY_CAP });
    server.done(user, "PUT", "/push/preferences", &preferences).await;
}

/// Mentions users until it is over. Returns the acknowledged posts.
async fn load(port: u16, over: Arc<AtomicBool>) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    for n in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let post = json!({ "text": format!("@{} look at {port}.{n}", user(n % USERS)) });
        let author = format!("author{}", n % 20);
        let (status, body) = attempt_named(port, &author, None, "POST", "/posts", &post).await;
        if status == 201 {
            acknowledged.push(body["id"].as_u64().expect("an id"));
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    acknowledged
}

/// The victims of all rounds: each as often as the others, in random order.
fn victims(random: &mut SeededRandom, rounds: usize) -> Vec<Victim> {
    let mut victims: Vec<Victim> = (0..rounds).map(|n| VICTIMS[n % VICTIMS.len()]).collect();
    for n in (1..rounds).rev() {
        victims.swap(n, random.below(n + 1));
    }
    victims
}

/// The processes that can be killed.
struct PushField {
    field: Field,
    pushes: PushProcess,
    /// The pushes that were accepted of the process for pushes before it was killed.
    accepted: u64,
}

impl PushField {
    /// Kills something, and starts it again after a moment.
    async fn kill(&mut self, victim: Victim, random: &mut SeededRandom) {
        let pause = Duration::from_millis(random.below(300) as u64);
        match victim {
            Victim::Node => {
                let node = &mut self.field.nodes[random.below(2)];
                node.kill();
                tokio::time::sleep(pause).await;
                node.start_again().await;
            }
            Victim::PushProcess => {
                self.accepted += self.pushes.accepted().await;
                self.pushes.kill();
                tokio::time::sleep(pause).await;
                self.pushes.start_again().await;
            }
            Victim::Redis => {
                let redis = self.field.redis.as_mut().expect("a Redis");
                redis.kill();
                tokio::time::sleep(pause).await;
                redis.start_again();
            }
            Victim::Postgres => {
                let postgres = self.field.postgres.as_mut().expect("a server");
                postgres.kill();
                tokio::time::sleep(pause).await;
                postgres.start_again();
            }
        }
        self.field.answers().await;
    }

    /// The pushes that are expected, by the post that mentions the user; `None` while the ledger is down.
    async fn notified(&self) -> Option<HashMap<u64, Item>> {
        let mut all = HashMap::new();
        for user in (0..USERS).map(user) {
            let id = UserId::parse(&user).expect("an id");
            for group in self.field.ledger.notifications(&id, None, 10_000).await.ok()? {
                let Some(ContentId::Post(post)) = group.kind.object() else { panic!("a mention: {group:?}") };
                all.insert(post.0, (user.clone(), group.id.0.cast_signed()));
            }
        }
        Some(all)
    }

    /// Adds the pushes whose acceptance is recorded, with a time after which it was recorded.
    async fn recorded(&self, found: &mut HashMap<Item, Instant>) {
        let server = self.field.postgres.as_ref().expect("a server");
        let client = server.client("postgres").await;
        let sql = "SELECT owner, item FROM push_queue WHERE state = 1 AND sent_at > 0";
        let rows = client.query(sql, &[]).await.expect("the queue");
        for row in rows {
            found.entry((row.get(0), row.get(1))).or_insert_with(Instant::now);
        }
    }
}

#[tokio::test]
async fn pushes_survive_kills_at_random_moments() {
    let seed = SeededRandom::seed();
    let mut random = SeededRandom::new(seed);
    let (url, received) = receiver().await;
    let keys = [
        ("push.enabled", "true"),
        ("push.grace", "300ms"),
        ("push.timeout", "500ms"),
        ("push.allow_networks", "127.0.0.0/8"),
        ("push.webhook_secrets", "a secret of webhooks with 32 characters or more"),
        ("rates.mentions", "100000"),
        ("rates.posts", "100000"),
    ];
    let field = Field::postgres(2, &keys).await;
    for n in 0..USERS {
        register(&field.nodes[0], &user(n), &url).await;
    }
    let pushes = PushProcess::start(&field.nodes[0]);
    pushes.ready().await;
    let mut field = PushField { field, pushes, accepted: 0 };
    let (mut accepted, over) = (HashMap::new(), Arc::new(AtomicBool::new(false)));
    let load: Vec<_> =
        field.field.ports().into_iter().map(|port| tokio::spawn(load(port, Arc::clone(&over)))).collect();
    for victim in victims(&mut random, chaos::rounds(VICTIMS.len(), 100)) {
        tokio::time::sleep(Duration::from_millis(random.below(700) as u64)).await;
        field.recorded(&mut accepted).await;
        field.kill(victim, &mut random).await;
    }
    over.store(true, Ordering::Relaxed);
    let mut acknowledged = Vec::new();
    for load in load {
        acknowledged.extend(load.await.expect("the posts"));
    }
    let ends = Instant::now() + RECOVERY;
    loop {
        let notified = field.notified().await.unwrap_or_default();
        let unnotified = acknowledged.iter().filter(|post| !notified.contains_key(post)).count();
        // A digest has the id of its newest notification. Its acceptance is recorded for all.
        field.recorded(&mut accepted).await;
        let is_sent = |item: &Item| received.lock().contains_key(item) || accepted.contains_key(item);
        let unsent = notified.values().filter(|item| !is_sent(item)).count();
        if unnotified + unsent == 0 {
            break;
        }
        let lost = (unnotified, unsent);
        assert!(
            Instant::now() < ends,
            "seed {seed}: of {} posts {lost:?} not notified, not pushed",
            acknowledged.len()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    field.recorded(&mut accepted).await;
    if chaos::is_asked_for() {
        tokio::time::sleep(LEASE).await;
    }
    let (received, mut repeated) = (received.lock().clone(), 0);
    for (item, times) in &received {
        repeated += times.len() - 1;
        let recorded = accepted.get(item).copied();
        let again = times.iter().filter(|at| recorded.is_some_and(|recorded| **at > recorded)).count();
        assert_eq!(again, 0, "seed {seed}: {item:?} was sent again after its acceptance was recorded");
    }
    let by_process = field.accepted + field.pushes.accepted().await;
    // In the few rounds of the short form, the nodes may be quicker each time.
    assert!(by_process > 0 || !chaos::is_asked_for(), "seed {seed}: the process for pushes took no part");
    let (posts, pushes) = (acknowledged.len(), received.len());
    eprintln!("seed {seed}: {posts} posts, {pushes} pushes, {repeated} repeated; {by_process} by the other process");
}

#[tokio::test]
async fn sockets_of_every_node_are_asked() {
    let (url, received) = receiver().await;
    let keys = [
        ("push.enabled", "true"),
        ("push.grace", "300ms"),
        ("push.allow_networks", "127.0.0.0/8"),
        ("push.webhook_secrets", "a secret of webhooks with 32 characters or more"),
    ];
    let cluster = Cluster::start_with(2, &keys).await;
    let [first, second] = &cluster.nodes[..] else { panic!("two nodes") };
    for user in ["ann", "away"] {
        register(first, user, &url).await;
    }
    let mut ann = Client::connect(second, "ann").await;
    let reading = tokio::spawn(async move {
        loop {
            ann.hear().await;
        }
    });
    // Either node may send a push. The sockets of a user who is away are waited for at no node.
    for n in 0..6 {
        first.post("bo", &format!("@ann @away look at {n}")).await;
        until("the push of who is away", async || received.lock().len() > n).await;
        let times = received.lock().keys().map(|(user, _)| user.clone()).collect::<Vec<_>>();
        assert!(times.iter().all(|user| user == "away"), "her socket at the other node answered: {times:?}");
    }
    assert!(!reading.is_finished(), "she is still there");
    reading.abort();
}
