//! Delivery and recovery over every transport, in each encoding, while nodes and Redis fail. Unidirectional clients are
//! among them: they recover by the positions in `connect`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, UNI_TRANSPORTS, Wire};
use crate::cluster::{Cluster, done, pause, post, resume};
use crate::server::{Server, signed, token, unix};

/// The longest time until a revocation applies everywhere.
const SOON: Duration = Duration::from_secs(1);

/// A client of ann, who follows bo, with the position of her timeline.
struct Reader {
    wire: Wire,
    client: Client,
    offset: u64,
    epoch: Value,
}

impl Reader {
    /// Connects, from a position if there is one. Returns the posts that were missed, too.
    async fn connect(node: &Server, wire: Wire, from: Option<&Self>) -> (Self, Vec<u64>) {
        let mut client = Client::open_over(node, wire).await;
        let recover = |from: &Self| json!({ "recover": true, "offset": from.offset, "epoch": from.epoch });
        let subs = from.map_or(json!({}), |from| json!({ "timeline:ann": recover(from) }));
        let connected = client.done(json!({ "connect": { "token": token("ann"), "subs": subs } })).await;
        let timeline = &connected["connect"]["subs"]["timeline:ann"];
        assert_eq!(timeline["recovered"] == true, from.is_some(), "{wire:?}: {timeline}");
        let missed = timeline["publications"].as_array().map(Vec::as_slice).unwrap_or_default();
        let last = missed.last().map_or(&timeline["offset"], |last| &last["offset"]);
        let (offset, epoch) = (last.as_u64().unwrap_or(0), timeline["epoch"].clone());
        let missed = missed.iter().map(post_of).collect();
        (Self { wire, client, offset, epoch }, missed)
    }

    async fn connect_all(node: &Server) -> Vec<Self> {
        let mut all = Vec::new();
        for wire in Wire::all() {
            all.push(Self::connect(node, wire, None).await.0);
        }
        all
    }

    /// The next posts are these, without a gap.
    async fn receives(&mut self, posts: &[u64]) {
        for post in posts {
            let publication = self.client.publication("timeline:ann").await;
            self.offset += 1;
            assert_eq!(
                (post_of(&publication), &publication["offset"]),
                (*post, &json!(self.offset)),
                "{:?}",
                self.wire
            );
        }
    }
}

fn post_of(publication: &Value) -> u64 {
    publication["data"]["post"]["id"].as_u64().expect("a post")
}

async fn cluster() -> Cluster {
    let cluster = Cluster::start_with(2, &UNI_TRANSPORTS).await;
    done(&cluster.nodes[0], "bo", "GET", "/users/bo").await;
    done(&cluster.nodes[0], "ann", "PUT", "/users/bo/follow").await;
    cluster
}

/// Posts of bo at a node.
async fn posts(node: &Server) -> Vec<u64> {
    let mut posts = Vec::new();
    for n in 0..5 {
        posts.push(post(node, "bo", &n.to_string()).await);
    }
    posts
}

#[tokio::test]
async fn clients_of_a_killed_node_recover_at_another() {
    let mut cluster = cluster().await;
    let mut readers = Reader::connect_all(&cluster.nodes[0]).await;
    let seen = posts(&cluster.nodes[1]).await;
    for reader in &mut readers {
        reader.receives(&seen).await;
    }
    cluster.nodes[0].kill();
    let missed = posts(&cluster.nodes[1]).await;
    cluster.carried(crate::server::PATIENCE).await;
    for reader in &mut readers {
        assert_eq!(reader.client.closed().await.0, 1006, "{:?}", reader.wire);
        let (again, recovered) = Reader::connect(&cluster.nodes[1], reader.wire, Some(reader)).await;
        assert_eq!(recovered, missed, "{:?}", reader.wire);
        *reader = again;
    }
    let live = posts(&cluster.nodes[1]).await;
    for reader in &mut readers {
        reader.receives(&live).await;
    }
}

#[tokio::test]
async fn clients_of_a_paused_node_miss_nothing() {
    let cluster = cluster().await;
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    let mut readers = Reader::connect_all(b).await;
    for _ in 0..2 {
        pause(b);
        let written = posts(a).await;
        resume(b);
        for reader in &mut readers {
            reader.receives(&written).await;
        }
    }
}

#[tokio::test]
async fn clients_receive_what_was_written_without_redis() {
    let cluster = cluster().await;
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    let mut readers = Reader::connect_all(b).await;
    cluster.redis.pause();
    let written = post(a, "bo", "meanwhile").await;
    cluster.redis.resume();
    a.ready().await;
    b.ready().await;
    for reader in &mut readers {
        reader.receives(&[written]).await;
    }
}

#[tokio::test]
async fn revocations_close_every_client_at_the_other_node() {
    let cluster = cluster().await;
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    let token = signed(&json!({ "sub": "ann", "jti": "1", "iat": unix() - 5, "exp": unix() + 600 }));
    let mut clients = Vec::new();
    for wire in Wire::all() {
        let mut client = Client::open_over(b, wire).await;
        client.done(json!({ "connect": { "token": token } })).await;
        clients.push((wire, client));
    }
    a.backend("revoke_token", &json!({ "uid": "1" })).await;
    let answered = Instant::now();
    for (wire, client) in &mut clients {
        assert_eq!(client.closed().await, (3500, "invalid token".to_owned()), "{wire:?}");
        assert!(answered.elapsed() < SOON, "{wire:?} after {:?}", answered.elapsed());
    }
}
