//! What reposts, muted words, followed topics and lists cost, beside timelines without them on the same server.
//!
//! The users of a group see posts of that group's authors only, so that two groups differ in nothing but what is
//! measured. Topics and lists come last: until somebody uses them, no post asks for them.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use feedline::model::{PostId, UserId};
use hyper::Method;
use serde_json::{Value, json};

use super::context::BenchContext;
use super::feed_system::{AUTHORS, FeedContent, FeedSystem, followees};
use super::http_load::{HttpClient, HttpLoad, LoadPace, quantile};
use super::process::ServerProcess;
use super::report::{Goal, Report, each, middle};
use super::seed;
use super::stores::Stores;

/// Users of a group.
const GROUP_SIZE: usize = 1_000;
/// The group of users who follow 10 of 100 authors each, and use nothing else.
const PLAIN: usize = 0;
/// The same with reposts and muted words.
const COMPOSED: usize = 1;
/// A group of followers of one author.
const FOLLOWERS: usize = 2;
/// A group of followers of a topic, in which one author writes.
const TOPIC_FOLLOWERS: usize = 3;
/// The number of groups.
const GROUPS: usize = 4;
/// The followed topic.
const TOPIC: &str = "rust";
/// The number of posts for reposts. Their author has no followers.
const ORIGINALS: usize = 5_000;
/// Words that a user mutes.
const MUTED_WORDS: usize = 50;
/// Every n-th user of the composed group mutes words.
const MUTING: usize = 10;
/// HTTP clients that create posts.
const WRITERS: usize = 8;
/// The part of the maximum rate at which latencies are measured.
const LOAD: f64 = 0.5;
/// Posts a second to a whole group.
const TOPIC_RATE: f64 = 10.0;
/// Users of the plain group with a list; it has the authors that the user follows.
const LIST_OWNERS: usize = 100;
/// Posts on a page.
const PAGE: usize = 20;
/// Pages that a run reads.
const PAGES: usize = 1_000;

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext) -> Result<Report> {
    let mut report = Report::new("composed");
    let stores = Stores::start(bench, None).await?;
    let originals = fill(&stores).await?;
    let server = stores.start_feedline(bench).await?;
    let measurement = Measurement {
        bench,
        stores: &stores,
        server: &server,
        backend: HttpClient::open(server.addr),
        key: seed::api_key(&stores.secret),
    };
    measurement.reposts_and_words(&mut report, originals).await?;
    measurement.topics(&mut report).await?;
    measurement.lists(&mut report).await?;
    server.stop().await?;
    report.notes.push(format!("{GROUP_SIZE} connected users a group; {}", stores.note()));
    Ok(report)
}

/// The numbers of the users of a group.
fn users(group: usize) -> Range<usize> {
    group * GROUP_SIZE..(group + 1) * GROUP_SIZE
}

/// The numbers of the authors of a group.
fn authors(group: usize) -> Range<usize> {
    let first = group * AUTHORS;
    first..first + if group <= COMPOSED { AUTHORS } else { 1 }
}

/// Fills the ledger before the server starts. Returns the posts for reposts.
async fn fill(stores: &Stores) -> Result<Vec<PostId>> {
    let people = seed::ids(seed::user, GROUPS * GROUP_SIZE)?;
    let writers = seed::ids(seed::author, GROUPS * AUTHORS)?;
    let mut edges: Vec<(UserId, UserId)> = Vec::new();
    for group in [PLAIN, COMPOSED] {
        for (n, user) in people[users(group)].iter().enumerate() {
            edges.extend(followees(n).map(|author| (user.clone(), writers[group * AUTHORS + author].clone())));
        }
    }
    let followed = &writers[authors(FOLLOWERS).start];
    edges.extend(people[users(FOLLOWERS)].iter().map(|user| (user.clone(), followed.clone())));
    let begin = feedline::feed::now() - 60_000;
    let originals: Vec<PostId> = (0..ORIGINALS as u64).map(|n| PostId::from_parts(begin + n, 0, 0)).collect();
    let source = writers.last().context("an author")?;
    let posts: Vec<_> = originals.iter().map(|id| seed::post(*id, source)).collect();
    seed::fill(&stores.ledger, &[people, writers].concat(), &edges, &posts).await?;
    Ok(originals)
}

/// The measured server, and the calls that prepare it.
struct Measurement<'a> {
    bench: &'a BenchContext,
    stores: &'a Stores,
    server: &'a ServerProcess,
    backend: HttpClient,
    key: String,
}

impl Measurement<'_> {
    async fn group(&self, group: usize, content: FeedContent) -> Result<FeedSystem> {
        FeedSystem::group(self.bench, self.server, self.stores, users(group), authors(group), content).await
    }

    /// Calls the API on behalf of a user.
    async fn ask(&self, method: Method, path: &str, user: usize, body: impl Into<Bytes>) -> Result<Bytes> {
        self.backend.ask(method, path, &self.key, &seed::user(user), body.into()).await
    }

    /// Every tenth post is a repost, and every tenth reader mutes words, beside a group without either.
    async fn reposts_and_words(&self, report: &mut Report, originals: Vec<PostId>) -> Result<()> {
        let words: Vec<String> = (0..MUTED_WORDS).map(|n| format!("word{n}")).collect();
        let filter = json!({ "words": words, "action": "hide", "in": ["home"] }).to_string();
        for user in users(COMPOSED).step_by(MUTING) {
            self.ask(Method::POST, "/api/v1/filters", user, filter.clone()).await?;
        }
        let plain = self.group(PLAIN, FeedContent::Posts).await?;
        let mut systems = [self.group(COMPOSED, FeedContent::WithReposts(originals)).await?, plain];
        let length = self.bench.length();
        let top = async |system: &mut FeedSystem| system.measure(WRITERS, LoadPace::FlatOut, length).await;
        let tops = self.bench.alternate("reposts and muted words", &mut systems, top).await?;
        let pace = LoadPace::Rate(LOAD * middle(&tops[1], |run| run.posts));
        let paced = async |system: &mut FeedSystem| system.measure(WRITERS, pace, length).await;
        let paced = self.bench.alternate("reposts and muted words, latency", &mut systems, paced).await?;
        let name = "1 of 10 posts a repost, 1 of 10 readers with 50 words";
        report
            .row(name, "posts/s", each(&tops[0], |run| run.posts))
            .against(("without", each(&tops[1], |run| run.posts)))
            .goal(Goal::RatioAtLeast(0.7));
        report
            .row(format!("  at {LOAD} of that, publish to socket, p99"), "ms", each(&paced[0], |run| run.latency[1]))
            .against(("without", each(&paced[1], |run| run.latency[1])))
            .goal(Goal::RatioAtMost(1.3));
        Ok(())
    }

    /// A post reaches a group by a topic that its members follow, beside one that reaches a group by a follow.
    async fn topics(&self, report: &mut Report) -> Result<()> {
        for user in users(TOPIC_FOLLOWERS) {
            self.ask(Method::PUT, &format!("/api/v1/topics/{TOPIC}/follow"), user, "").await?;
        }
        let follow = self.group(FOLLOWERS, FeedContent::Posts).await?;
        let mut systems = [self.group(TOPIC_FOLLOWERS, FeedContent::Topic(TOPIC)).await?, follow];
        let pace = LoadPace::Rate(TOPIC_RATE);
        let measure = async |system: &mut FeedSystem| system.measure(1, pace, self.bench.length()).await;
        let runs = self.bench.alternate("a followed topic", &mut systems, measure).await?;
        report
            .row(format!("a followed topic, {GROUP_SIZE} connected: p99"), "ms", each(&runs[0], |run| run.latency[1]))
            .against(("follow", each(&runs[1], |run| run.latency[1])))
            .goal(Goal::AtMost(100.0));
        Ok(())
    }

    /// Pages of lists beside those of home, with the same authors.
    async fn lists(&self, report: &mut Report) -> Result<()> {
        let home = format!("/api/v1/timeline?limit={PAGE}");
        let (mut of_lists, mut of_home) = (Vec::new(), Vec::new());
        for user in users(PLAIN).take(LIST_OWNERS) {
            let created = self.ask(Method::POST, "/api/v1/lists", user, r#"{"name":"near"}"#).await?;
            let created: Value = serde_json::from_slice(&created)?;
            let list = created["id"].as_u64().context("the id of a list")?;
            for author in followees(user) {
                let member = seed::author(author);
                self.ask(Method::PUT, &format!("/api/v1/lists/{list}/users/{member}"), user, "").await?;
            }
            let token = seed::token(&self.stores.secret, &seed::user(user))?;
            of_lists.push((format!("/api/v1/lists/{list}/posts?limit={PAGE}"), token.clone()));
            of_home.push((home.clone(), token));
        }
        let mut sides = [of_lists, of_home];
        let measure = async |pages: &mut Vec<(String, String)>| self.read(pages).await;
        let runs = self.bench.alternate("pages of lists", &mut sides, measure).await?;
        report
            .row(format!("a page of {PAGE} of a list, p50"), "ms", runs[0].clone())
            .against(("home", runs[1].clone()))
            .goal(Goal::RatioAtMost(2.0));
        Ok(())
    }

    /// Reads pages, one at a time: paths and tokens. Returns the median of the latencies, in milliseconds.
    async fn read(&self, pages: &[(String, String)]) -> Result<f64> {
        let load = HttpLoad { pace: LoadPace::FlatOut, length: Duration::from_secs(60), count: PAGES, is_exact: false };
        let call = async |client: &HttpClient, n: usize, _due| {
            let (path, token) = &pages[n % pages.len()];
            client.call(Method::GET, path, token).await.map(drop)
        };
        Ok(quantile(&load.run(std::slice::from_ref(&self.backend), call).await?, 0.5))
    }
}
