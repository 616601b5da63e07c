//! Accounts with many open requests are unlocked, and the node that accepts the requests is killed meanwhile. Every
//! requester becomes a follower, once and in the order of the requests, and gets the earlier posts of the account.

use std::time::{Duration, Instant};

use feedline::ledger::fanout_partition;
use feedline::model::UserId;
use futures::stream::{self, StreamExt};
use serde_json::{Value, json};

use crate::api::everything;
use crate::chaos;
use crate::cluster::{attempt, done, log_since, post, timeline, until};
use crate::crashes::positions;
use crate::likers::Field;
use crate::locks::lock;
use crate::server::{PATIENCE, Server};

/// The open requests to an account.
const REQUESTS: usize = 60;

/// The same for two pages of the job, which reads 100 requests at a time.
const TWO_PAGES_OF_REQUESTS: usize = 150;

/// Leases end soon.
const KEYS: [(&str, &str); 1] = [("fanout.lease", "1s")];

/// When the node that accepts the requests is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// This long after the answer to the unlock.
    After(Duration),
    /// After some requests were accepted, and before all are.
    BetweenRequests,
}

/// The node that answers the unlock.
#[derive(Clone, Copy, Debug)]
enum AnsweredBy {
    /// The node that runs the job.
    Owner,
    /// The other one.
    OtherNode,
}

/// A locked account with posts, and the requests to follow it.
struct LockedAccount {
    author: &'static str,
    /// Oldest first. One of them is for followers, the others are public and have the author's name as a topic.
    posts: Vec<u64>,
    /// The requesters in the order of their requests, each with the position of their timeline before.
    requests: Vec<(String, Value)>,
}

impl LockedAccount {
    /// Writes posts before and after the lock. Then sends the requests, one after the other, to all nodes in turn.
    async fn prepare(nodes: &[Server], author: &'static str, requests: usize) -> Self {
        let node = &nodes[0];
        let mut posts = vec![post(node, author, &format!("before the lock #{author}")).await];
        let for_followers = json!({ "text": "for followers", "visibility": "followers" });
        let (status, body) = attempt(node, author, "POST", "/posts", &for_followers).await;
        assert_eq!(status, 201, "{body}\n{}", node.log());
        posts.push(body["id"].as_u64().expect("an id"));
        lock(node, author, true).await;
        posts.push(post(node, author, &format!("after the lock #{author}")).await);
        let users: Vec<String> = (0..requests).map(|n| format!("{author}-{n}")).collect();
        let positions = positions(node, &users).await;
        for (n, user) in users.iter().enumerate() {
            let path = format!("/users/{author}/follow");
            let (status, body) = attempt(&nodes[n % nodes.len()], user, "PUT", &path, &Value::Null).await;
            assert_eq!((status, &body["state"]), (200, &json!("requested")), "{user}: {body}");
        }
        Self { author, posts, requests: users.into_iter().zip(positions).collect() }
    }

    fn id(&self) -> UserId {
        UserId::parse(self.author).expect("an id")
    }

    /// The node that runs the jobs of the account.
    async fn owner(&self, field: &Field) -> usize {
        let partition = format!("fanout/{}", fanout_partition(&self.id()));
        let mut owner = None;
        until(&format!("somebody owns {partition}"), async || {
            owner = field.owner(&partition).await;
            owner.is_some()
        })
        .await;
        owner.expect("somebody owns it")
    }

    /// The number of open requests in the ledger, shown or not.
    async fn open(&self, field: &Field) -> usize {
        let most = self.requests.len() + 1;
        field.ledger.oldest_requests(&self.id(), u64::MAX, most).await.expect("the requests").len()
    }

    /// Unlocks the account at a node. Then kills the owner of its jobs.
    async fn unlock_and_kill(&self, field: &mut Field, node: usize, owner: usize, moment: Moment) {
        lock(&field.nodes[node], self.author, false).await;
        match moment {
            Moment::After(delay) => tokio::time::sleep(delay).await,
            Moment::BetweenRequests => {
                let begun = Instant::now();
                while self.open(field).await == self.requests.len() {
                    assert!(begun.elapsed() < PATIENCE, "no request is accepted\n{}", field.nodes[owner].log());
                }
            }
        }
        field.nodes[owner].kill();
        let open = self.open(field).await;
        eprintln!("{}, {moment:?}: {open} of {} requests were left by the kill", self.author, self.requests.len());
    }

    /// Waits until the jobs of the unlock are done. Then checks the lists and counts of the account at a node.
    async fn assert_requesters_follow(&self, field: &Field, node: &Server) {
        let author = self.author;
        until(&format!("the unlock of {author} is done"), async || field.backlog().await == 0).await;
        assert_eq!(self.open(field).await, 0, "requests to {author} are left\n{}", node.log());
        assert_eq!(everything(node, author, "/users/me/requests?limit=100").await, [] as [Value; 0]);
        let followers = everything(node, author, &format!("/users/{author}/followers?limit=100")).await;
        let oldest_first: Vec<&str> = followers.iter().rev().filter_map(|user| user["id"].as_str()).collect();
        let asked: Vec<&str> = self.requests.iter().map(|(user, _)| user.as_str()).collect();
        assert_eq!(oldest_first, asked, "the followers of {author}, in the order of their requests");
        let profile = done(node, author, "GET", &format!("/users/{author}")).await;
        assert_eq!(profile["followers"], asked.len(), "{profile}");
        // The other part of the job.
        let topics = done(node, author, "GET", "/topics").await;
        let topic = topics["items"].as_array().expect("items").iter().find(|topic| topic["name"] == author);
        let public = self.posts.len() - 1;
        assert_eq!(topic.map(|topic| &topic["posts"]), Some(&json!(public)), "{topics}");
        until(&format!("{author} has no notification of a request"), async || {
            people(node, author, "request").await.is_empty()
        })
        .await;
    }

    /// Writes another post. Then checks that each requester has all posts, each once, and was notified.
    async fn assert_requesters_have_the_posts(&mut self, field: &Field, node: &Server) {
        self.posts.push(post(node, self.author, &format!("after the unlock #{}", self.author)).await);
        until("the post is delivered", async || field.backlog().await == 0).await;
        let Self { author, posts, requests } = &*self;
        let each = stream::iter(requests).map(|(user, since)| async move {
            let page = timeline(node, user).await;
            assert_eq!(sorted(page), *posts, "the page of {user}\n{}", node.log());
            let log = log_since(node, user, since).await;
            let logged = log.iter().filter(|(_, kind, _)| kind == "post").map(|(.., post)| *post);
            assert_eq!(sorted(logged), *posts, "the log of {user}: {log:?}\n{}", node.log());
            let asked = done(node, user, "GET", "/users/me/requested").await;
            assert_eq!(asked["items"], json!([]), "{user} still asks");
            until(&format!("{user} is notified"), async || people(node, user, "accepted").await == [*author]).await;
        });
        each.buffer_unordered(8).collect::<()>().await;
    }
}

/// The people in a user's notifications of a kind.
async fn people(node: &Server, user: &str, kind: &str) -> Vec<Value> {
    let page = done(node, user, "GET", "/notifications").await;
    let groups = page["items"].as_array().expect("items").iter().filter(|group| group["kind"] == kind);
    groups.flat_map(|group| group["people"].as_array().expect("people")).map(|person| person["id"].clone()).collect()
}

fn sorted(posts: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut posts: Vec<u64> = posts.into_iter().collect();
    posts.sort_unstable();
    posts
}

/// Kills each of two nodes while it accepts the requests to an account. The second node takes over from the first one.
/// Then it is alone, and is started again after its kill.
async fn requesters_become_followers(mut field: Field, requests: usize, moment: Moment, answered_by: AnsweredBy) {
    let mut ann = LockedAccount::prepare(&field.nodes, "ann", requests).await;
    let mut bea = LockedAccount::prepare(&field.nodes, "bea", requests).await;
    let first = ann.owner(&field).await;
    let second = 1 - first;
    let node = match answered_by {
        AnsweredBy::Owner => first,
        AnsweredBy::OtherNode => second,
    };
    ann.unlock_and_kill(&mut field, node, first, moment).await;
    ann.assert_requesters_follow(&field, &field.nodes[second]).await;
    ann.assert_requesters_have_the_posts(&field, &field.nodes[second]).await;

    until("the second node owns the jobs of both", async || bea.owner(&field).await == second).await;
    bea.unlock_and_kill(&mut field, second, second, moment).await;
    field.nodes[second].start_again().await;
    bea.assert_requesters_follow(&field, &field.nodes[second]).await;
    bea.assert_requesters_have_the_posts(&field, &field.nodes[second]).await;

    field.nodes[first].start_again().await;
    for account in [&ann, &bea] {
        account.assert_requesters_follow(&field, &field.nodes[first]).await;
    }
}

#[tokio::test]
async fn requests_are_accepted_whenever_the_node_is_killed_on_sqlite() {
    let moments =
        [(20, AnsweredBy::Owner), (5, AnsweredBy::OtherNode), (0, AnsweredBy::Owner), (80, AnsweredBy::OtherNode)];
    for (delay, answered_by) in moments.into_iter().take(chaos::rounds(2, 4)) {
        let moment = Moment::After(Duration::from_millis(delay));
        requesters_become_followers(Field::redis(2, &KEYS).await, REQUESTS, moment, answered_by).await;
    }
}

#[tokio::test]
async fn requests_are_accepted_if_the_node_is_killed_between_them_on_sqlite() {
    let field = Field::redis(2, &KEYS).await;
    requesters_become_followers(field, TWO_PAGES_OF_REQUESTS, Moment::BetweenRequests, AnsweredBy::Owner).await;
}

#[tokio::test]
async fn requests_are_accepted_if_the_node_is_killed_between_them_on_postgres() {
    let field = Field::postgres(2, &KEYS).await;
    requesters_become_followers(field, TWO_PAGES_OF_REQUESTS, Moment::BetweenRequests, AnsweredBy::OtherNode).await;
}
