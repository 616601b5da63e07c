//! Every combination of visibility, account, standing and relation, for a post as such, reposted, quoted, in a list and
//! by a topic: on pages, by id, on profiles, in topics, in explore, live, in recovered updates, in notifications and
//! counts, as pushes, and in the outlet.

use std::collections::BTreeSet;
use std::time::Instant;

use futures::future::join_all;
use tokio::time::sleep;

use crate::actions::Act;
use crate::api::{attempt, done};
use crate::check::{Exactness, Verdict, discovery, person, post, profile, timeline};
use crate::deliveries::{self, Batch, Device, POLL_INTERVAL, SILENCE, Watcher};
use crate::lists::{List, Member, lists};
use crate::model::{Edge, Model, Post, TOPICS, User, Visibility};
use crate::muted::updates;
use crate::notified::notifications;
use crate::postgres_server;
use crate::redis_server::RedisServer;
use crate::server::{PATIENCE, Server};

/// A reader's relation to all authors: edges from the reader, and edges to the reader.
struct Relation {
    reader: User,
    to_authors: &'static [Edge],
    from_authors: &'static [Edge],
}

const fn relation(reader: User, to_authors: &'static [Edge], from_authors: &'static [Edge]) -> Relation {
    Relation { reader, to_authors, from_authors }
}

const RELATIONS: [Relation; 8] = [
    relation("stranger", &[], &[]),
    relation("follower", &[Edge::Follow], &[]),
    relation("followed", &[], &[Edge::Follow]),
    relation("friend", &[Edge::Follow], &[Edge::Follow]),
    relation("muting", &[Edge::Follow, Edge::Mute], &[]),
    relation("hidden", &[Edge::Follow], &[Edge::Hide]),
    relation("blocking", &[Edge::Follow, Edge::Block], &[]),
    relation("blocked", &[Edge::Follow], &[Edge::Block]),
];

/// The standing of an author.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Active,
    Limited,
    Suspended,
}

/// The authors: whether the account is locked, and its standing.
const AUTHORS: [(User, bool, Standing); 6] = [
    ("open", false, Standing::Active),
    ("limited", false, Standing::Limited),
    ("suspended", false, Standing::Suspended),
    ("locked", true, Standing::Active),
    ("locked-limited", true, Standing::Limited),
    ("locked-suspended", true, Standing::Suspended),
];

/// Reposts and quotes all posts. All readers follow it.
const RELAY: User = "relay";
/// The topic of all posts. All readers follow it.
const TOPIC: &str = TOPICS[0];

fn authors() -> impl Iterator<Item = User> + Clone {
    AUTHORS.iter().map(|(author, ..)| *author)
}

fn readers() -> impl Iterator<Item = User> + Clone {
    RELATIONS.iter().map(|relation| relation.reader)
}

struct Matrix {
    node: Server,
    model: Model,
}

impl Matrix {
    /// Performs an action on the server and on the model. Returns the id of what it created.
    async fn act(&mut self, act: Act) -> Option<u64> {
        let call = act.call(None);
        let (status, body) = attempt(&self.node, call.user, call.method, &call.path, &call.body).await;
        assert_eq!(status, act.expected(&self.model), "{act:?}: {body}");
        if status >= 300 {
            return None;
        }
        let made = act.creates(&self.model).then(|| body["id"].as_u64().expect("an id"));
        act.apply(&mut self.model, made, true);
        made
    }

    async fn set(&mut self, edge: Edge, from: User, to: User, on: bool) {
        self.act(Act::Set { edge, from, to, on }).await;
    }

    /// Sets the edges of all readers and authors that are follows, or those that are not.
    async fn relate(&mut self, are_follows: bool, on: bool) {
        for Relation { reader, to_authors, from_authors } in &RELATIONS {
            for author in authors() {
                for edge in to_authors.iter().filter(|edge| (**edge == Edge::Follow) == are_follows) {
                    self.set(*edge, reader, author, on).await;
                }
                for edge in from_authors.iter().filter(|edge| (**edge == Edge::Follow) == are_follows) {
                    self.set(*edge, author, reader, on).await;
                }
            }
        }
    }

    /// Users, follows, lists and alerts.
    async fn set_up(&mut self) {
        for user in readers().chain(authors()).chain([RELAY]) {
            done(&self.node, user, "GET", &format!("/users/{user}")).await;
        }
        self.relate(true, true).await;
        for author in authors() {
            self.set(Edge::Follow, RELAY, author, true).await;
            self.set(Edge::Follow, author, RELAY, true).await;
        }
        for reader in readers() {
            self.set(Edge::Follow, reader, RELAY, true).await;
            self.act(Act::FollowTopic { by: reader, topic: TOPIC, on: true }).await;
            let list = self.act(Act::CreateList(List::new(reader, format!("list of {reader}"), false))).await;
            for member in authors().chain([RELAY]).map(Member::User) {
                self.act(Act::SetMember { by: reader, id: list.expect("a list"), member, on: true }).await;
            }
        }
        for user in readers().chain(authors()) {
            for author in authors().filter(|author| *author != user) {
                done(&self.node, user, "PUT", &format!("/users/{author}/notify")).await;
            }
        }
    }

    /// Posts of all authors who may write, of each visibility, with reposts and quotes.
    async fn publish(&mut self, mentioned: BTreeSet<User>) -> Batch {
        let names: Vec<String> = mentioned.iter().map(|user| format!("@{user}")).collect();
        let mut ids = BTreeSet::new();
        for author in authors().filter(|author| !self.model.suspended.contains(author)).collect::<Vec<User>>() {
            for visibility in [
                Visibility::Public,
                Visibility::Followers,
                Visibility::Friends,
                Visibility::OnlyTo(vec![RELAY, "stranger", "follower", "friend", "muting"]),
                Visibility::NotTo(vec!["followed", "friend", "blocked"]),
            ] {
                let text = format!("{} by {author}: {visibility:?} {}", self.model.posts.len(), names.join(" "));
                let draft = Post { topic: Some(TOPIC), ..Post::new(author, text, visibility) };
                let id = self.act(Act::Publish(draft)).await.expect("a post");
                let repost = self.act(Act::Repost { by: RELAY, id, on: true, is_narrow: false }).await;
                let quote = Post::new(RELAY, format!("quote of {id}"), Visibility::Public);
                let quote = self.act(Act::Publish(Post { quote: Some(id), ..quote })).await;
                ids.extend([Some(id), repost, quote].into_iter().flatten());
            }
        }
        Batch { ids, mentioned }
    }

    async fn lock(&mut self, on: bool) {
        for (user, is_locked, _) in AUTHORS {
            if is_locked {
                self.act(Act::Lock { user, on }).await;
            }
        }
    }

    async fn stand(&mut self, on: bool) {
        for (user, _, standing) in AUTHORS {
            match standing {
                Standing::Active => continue,
                _ if !on => self.act(Act::Suspend { user, on }).await,
                Standing::Limited => self.act(Act::Limit { user }).await,
                Standing::Suspended => self.act(Act::Suspend { user, on }).await,
            };
        }
    }

    /// Compares everything that a reader may ask for; of the others, their timelines and notifications.
    async fn look(&self, reader: User) -> Verdict {
        let (node, model) = (&self.node, &self.model);
        timeline(node, model, reader, 50, Exactness::All).await?;
        notifications(node, model, reader).await?;
        if !readers().any(|user| user == reader) {
            return Ok(());
        }
        for author in authors().chain([RELAY]) {
            profile(node, model, reader, author, 50).await?;
            person(node, model, reader, author).await?;
        }
        for id in model.posts.keys() {
            post(node, model, reader, *id).await?;
        }
        discovery(node, model, reader, Some(TOPIC), 50).await?;
        discovery(node, model, reader, None, 50).await?;
        lists(node, model, reader, 50).await?;
        updates(node, model, reader).await
    }

    /// Compares all readers. `settles`: whether what returns may take time to arrive; what is hidden may not.
    async fn compare(&self, what: &str, settles: bool) {
        let begun = Instant::now();
        let everybody = readers().chain(authors()).chain([RELAY]);
        let verdicts = everybody.map(async |reader| {
            loop {
                match self.look(reader).await {
                    Err(_) if settles && begun.elapsed() < PATIENCE => sleep(POLL_INTERVAL).await,
                    verdict => return verdict,
                }
            }
        });
        none_of(what, join_all(verdicts).await);
    }

    /// Compares what is delivered: to sockets, and, when they are closed, to devices.
    async fn compare_deliveries(&mut self, what: &str) {
        let users = readers().chain(authors()).filter(|user| !self.model.suspended.contains(user));
        let users: Vec<User> = users.collect();
        let followed = || authors().chain([RELAY]);
        let watchers = users.iter().map(|user| Watcher::start(&self.node, &self.model, user, TOPIC, followed()));
        let watchers = join_all(watchers).await;
        let batch = self.publish(readers().collect()).await;
        let verdicts = join_all(watchers.into_iter().map(|watcher| watcher.compare(&self.model, &batch))).await;
        none_of(what, verdicts);
        self.compare(what, true).await;

        // Notifications of the first batch are not pushed to new devices.
        sleep(SILENCE).await;
        let devices = join_all(users.iter().map(|user| Device::register(&self.node, user))).await;
        let batch = self.publish(readers().step_by(2).collect()).await;
        let authors: Vec<User> = authors().collect();
        let verdicts = devices.into_iter().map(|device| device.compare(&self.node, &self.model, &authors, &batch));
        none_of(what, join_all(verdicts).await);
    }

    async fn run(node: Server) {
        let mut matrix = Self { node, model: Model::default() };
        matrix.set_up().await;
        matrix.publish(BTreeSet::new()).await;
        matrix.compare("open accounts", true).await;
        matrix.relate(false, true).await;
        matrix.compare("relations", false).await;
        matrix.compare_deliveries("deliveries with relations").await;
        matrix.lock(true).await;
        matrix.stand(true).await;
        matrix.compare("locked accounts and standings", false).await;
        matrix.compare_deliveries("deliveries of locked accounts, with standings").await;
        matrix.stand(false).await;
        matrix.lock(false).await;
        matrix.relate(false, false).await;
        matrix.compare("all of it has ended", true).await;
        none_of("the outlet", [deliveries::outlet(&matrix.node, &matrix.model).await]);
    }
}

/// Checks that no comparison failed.
fn none_of(what: &str, verdicts: impl IntoIterator<Item = Verdict>) {
    let wrong: Vec<String> = verdicts.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{what}: {wrong:#?}");
}

#[tokio::test]
async fn every_combination_agrees_with_the_model() {
    Matrix::run(Server::start_with(&deliveries::KEYS).await).await;
}

#[tokio::test]
async fn every_combination_agrees_with_the_model_on_postgres_and_redis() {
    let redis = RedisServer::start();
    let postgres = postgres_server::PostgresServer::start();
    let stores = [("broker.url", redis.url()), ("ledger.url", postgres.url("postgres"))];
    let stores = stores.iter().map(|(key, value)| (*key, value.as_str()));
    let settings: Vec<(&str, &str)> = deliveries::KEYS.into_iter().chain(stores).collect();
    Matrix::run(Server::start_with(&settings).await).await;
}
