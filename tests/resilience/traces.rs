//! Traces: a post from HTTP to the sockets of all nodes, and collectors that fail.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::client::Client;
use crate::cluster::{Cluster, done, post};
use crate::redis_server::RedisServer;
use crate::server::{API_KEY, PATIENCE, Server, token};
use crate::webhook::WebhookReceiver;

/// A `traceparent` with the flag *sampled*, its trace and its span.
const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// Users whose posts are traced: of so many, each node fans out some.
const AUTHORS: usize = 16;

/// A span as the collector received it.
#[derive(Clone, Debug)]
struct Span {
    /// The node that made it.
    node: String,
    trace: String,
    id: String,
    parent: Option<String>,
    name: String,
    attributes: BTreeMap<String, String>,
}

impl Span {
    /// The spans of a request.
    fn all_of(body: &Value) -> Vec<Self> {
        let resource = &body["resourceSpans"][0];
        let node = attributes(&resource["resource"])["service.instance.id"].clone();
        let text = |span: &Value, key: &str| span[key].as_str().map(str::to_owned);
        let spans = resource["scopeSpans"][0]["spans"].as_array().expect("spans");
        let span = |span: &Value| Self {
            node: node.clone(),
            trace: text(span, "traceId").expect("a trace"),
            id: text(span, "spanId").expect("an id"),
            parent: text(span, "parentSpanId"),
            name: text(span, "name").expect("a name"),
            attributes: attributes(span),
        };
        spans.iter().map(span).collect()
    }
}

fn attributes(of: &Value) -> BTreeMap<String, String> {
    let list = of["attributes"].as_array().expect("attributes").iter();
    list.map(|attribute| {
        let value = &attribute["value"];
        let text = value["stringValue"].as_str().or(value["intValue"].as_str()).expect("a value");
        (attribute["key"].as_str().expect("a key").to_owned(), text.to_owned())
    })
    .collect()
}

/// A collector that accepts everything.
async fn collector() -> WebhookReceiver {
    WebhookReceiver::start(|_| 200).await
}

/// All spans that the collector has.
fn received(collector: &WebhookReceiver) -> Vec<Span> {
    collector.accepted().iter().flat_map(Span::all_of).collect()
}

/// Waits until the collector has spans that satisfy a condition. Returns all.
async fn until_received(collector: &WebhookReceiver, enough: impl Fn(&[Span]) -> bool) -> Vec<Span> {
    let bodies = collector.wait(PATIENCE, |bodies| {
        let spans: Vec<Span> = bodies.iter().flat_map(Span::all_of).collect();
        enough(&spans)
    });
    bodies.await.iter().flat_map(Span::all_of).collect()
}

/// The path from a span to the root of its trace, by name.
fn path_of(span: &Span, all: &[Span]) -> Vec<String> {
    let mut path = vec![span.name.clone()];
    let mut at = span;
    while let Some(parent) = &at.parent {
        at = all.iter().find(|other| other.id == *parent).unwrap_or_else(|| panic!("{at:?} has no parent in {all:#?}"));
        assert_eq!(at.trace, span.trace);
        path.push(at.name.clone());
        assert!(path.len() < 9, "a circle");
    }
    path
}

async fn a_post_is_one_trace(start: impl AsyncFn(&[(&str, &str)]) -> Cluster) {
    let collector = collector().await;
    let url = collector.root();
    let cluster = start(&[("telemetry.otlp_url", &url), ("telemetry.sample", "1")]).await;
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    let name_of = |node: &Server| format!("_{}", node.port());
    let mut bo = Client::connect(b, "bo").await;
    let authors: Vec<String> = (0..AUTHORS).map(|number| format!("author{number}")).collect();
    for author in &authors {
        done(a, author, "GET", &format!("/users/{author}")).await;
        post(a, author, "before").await;
    }
    let fanned_out = |spans: &[Span]| spans.iter().filter(|span| span.name == "process fanout").count();
    let earlier = until_received(&collector, |spans| fanned_out(spans) == AUTHORS).await;
    let earlier: BTreeSet<String> = earlier.into_iter().map(|span| span.trace).collect();
    let mut fanned_out_at = BTreeSet::new();
    // The node that posts runs the jobs of some authors, the other node those of the others.
    for (number, author) in authors.iter().enumerate() {
        done(b, "bo", "PUT", &format!("/users/{author}/follow")).await;
        // A follow that is still in progress would bring the next post itself, before its fan-out.
        assert_eq!(bo.publication("timeline:bo").await["data"]["post"]["text"], "before");
        let id = post(a, author, "hello").await;
        assert_eq!(bo.publication("timeline:bo").await["data"]["post"]["id"], id);
        let is_delivery = |span: &&Span| span.name == "deliver post" && span.node.ends_with(&name_of(b));
        let spans = until_received(&collector, |spans| {
            let spans: Vec<&Span> = spans.iter().filter(|span| !earlier.contains(&span.trace)).collect();
            let roots: Vec<&&Span> = spans.iter().filter(|span| span.name == "POST /api/v1/posts").collect();
            let traces: BTreeSet<&str> = roots.iter().map(|root| &*root.trace).collect();
            let complete = |name: &str| {
                let named = spans.iter().filter(|span| span.name == name && traces.contains(&*span.trace));
                named.map(|span| &*span.trace).collect::<BTreeSet<_>>().len() == number + 1
            };
            let all = ["create_post", "process fanout", "publish inboxes", "publish channels", "deliver post"];
            roots.len() == number + 1 && all.into_iter().all(complete)
        })
        .await;
        let spans: Vec<Span> = spans.into_iter().filter(|span| !earlier.contains(&span.trace)).collect();
        for delivery in spans.iter().filter(is_delivery) {
            assert_eq!(path_of(delivery, &spans), ["deliver post", "process fanout", "POST /api/v1/posts"]);
            assert_eq!(delivery.attributes["feedline.sockets"], "1", "{delivery:?}");
        }
        assert_eq!(spans.iter().filter(is_delivery).count(), number + 1, "one span for a delivery on a node");
        for root in spans.iter().filter(|span| span.name == "POST /api/v1/posts") {
            assert!(root.node.ends_with(&name_of(a)) && root.parent.is_none(), "{root:?}");
            assert_eq!(root.attributes["feedline.operation"], "posts.create");
            assert_eq!(root.attributes["http.response.status_code"], "201");
        }
        for (name, parent) in [
            ("create_post", "POST /api/v1/posts"),
            ("publish inboxes", "process fanout"),
            ("publish channels", "process fanout"),
        ] {
            for span in spans.iter().filter(|span| span.name == name) {
                assert_eq!(path_of(span, &spans)[1], parent);
            }
        }
        fanned_out_at.extend(spans.iter().filter(|span| span.name == "process fanout").map(|span| span.node.clone()));
        if fanned_out_at.len() == 2 {
            break;
        }
    }
    assert_eq!(fanned_out_at.len(), 2, "all jobs ran at {fanned_out_at:?}");
    for delivery in collector.deliveries() {
        assert_eq!((&*delivery.path, &*delivery.headers["content-type"]), ("/v1/traces", "application/json"));
    }
}

#[tokio::test]
async fn a_post_is_one_trace_across_nodes() {
    a_post_is_one_trace(async |keys| Cluster::start_with(2, keys).await).await;
}

#[tokio::test]
async fn a_post_is_one_trace_across_nodes_on_postgres() {
    a_post_is_one_trace(async |keys| Cluster::start_on_postgres(RedisServer::start(), 2, keys).await).await;
}

/// A request for the profile of `ann`, with a `traceparent`.
async fn request(node: &Server, credential: (&str, &str), traceparent: &str) {
    let headers = [credential, ("traceparent", traceparent)];
    assert_eq!(node.http("GET", "/api/v1/users/ann", &headers, "").await.status, 200);
}

#[tokio::test]
async fn the_trace_of_a_backend_is_continued_and_clients_cannot_force_one() {
    let collector = collector().await;
    let url = collector.root();
    let node = Server::start_with(&[("telemetry.otlp_url", &url), ("telemetry.sample", "0")]).await;
    let bearer = format!("Bearer {}", token("ann"));
    let (backend, client) = (("x-api-key", API_KEY), ("authorization", &*bearer));
    request(&node, client, TRACEPARENT).await;
    request(&node, backend, &TRACEPARENT.replace("-01", "-00")).await;
    for malformed in ["", "00", &TRACEPARENT.to_uppercase(), &TRACEPARENT.replace("00-4", "ff-4")] {
        request(&node, backend, malformed).await;
    }
    request(&node, backend, TRACEPARENT).await;
    until_received(&collector, |spans| !spans.is_empty()).await;
    node.http("POST", "/api/info", &[backend, ("traceparent", TRACEPARENT)], "{}").await;
    let spans = until_received(&collector, |spans| spans.len() > 1).await;
    assert_eq!(spans.len(), 2, "{spans:#?}");
    for (span, name) in spans.iter().zip(["GET /api/v1/users/{id}", "POST /api/{method}"]) {
        assert_eq!((&*span.trace, span.parent.as_deref(), &*span.name), (TRACE, Some(PARENT), name));
    }
}

#[tokio::test]
async fn a_client_names_the_trace_that_the_share_selects() {
    let collector = collector().await;
    let url = format!("{}/v1/traces", collector.root());
    let keys = [("telemetry.otlp_url", &*url), ("telemetry.sample", "1"), ("telemetry.headers", "x-token: hunter2")];
    let node = Server::start_with(&keys).await;
    let bearer = format!("Bearer {}", token("ann"));
    let client = ("authorization", &*bearer);
    request(&node, client, &TRACEPARENT.replace("-01", "-00")).await;
    request(&node, client, "malformed").await;
    request(&node, client, TRACEPARENT).await;
    // A socket has no header of its own for a command.
    let mut ann = Client::connect(&node, "ann").await;
    ann.rpc("users.get", &json!({ "id": "ann" })).await;
    let spans = until_received(&collector, |spans| spans.len() >= 3).await;
    let [own, continued, rpc] = &spans[..] else { panic!("{spans:#?}") };
    assert!(own.trace != TRACE && own.parent.is_none(), "{own:?}");
    assert_eq!((&*continued.trace, continued.parent.as_deref()), (TRACE, Some(PARENT)));
    assert_eq!((&*rpc.name, &rpc.parent, &*rpc.attributes["feedline.outcome"]), ("rpc users.get", &None, "ok"));
    let delivery = &collector.deliveries()[0];
    assert_eq!((&*delivery.path, &*delivery.headers["x-token"]), ("/v1/traces", "hunter2"));
    assert!(!node.log().contains("hunter2"), "{}", node.log());
}

#[tokio::test]
async fn without_a_collector_there_are_no_spans() {
    let node = Server::start_with(&[("telemetry.sample", "1")]).await;
    node.post("ann", "hello").await;
    request(&node, ("x-api-key", API_KEY), TRACEPARENT).await;
    // Spans are sent each second.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    for outcome in ["sent", "dropped", "failed"] {
        let metric = format!("feedline_spans_total{{outcome=\"{outcome}\"}}");
        assert_eq!(node.metric(&metric).await, Some(0.0), "{outcome}");
    }
}

/// Requests of one client, one after the other. Returns the longest time of one.
async fn longest_of(node: &Server, requests: usize) -> Duration {
    let bearer = format!("Bearer {}", token("ann"));
    let http = reqwest_client();
    let mut longest = Duration::ZERO;
    for _ in 0..requests {
        let begun = Instant::now();
        let url = format!("http://127.0.0.1:{}/api/v1/users/ann", node.port());
        let answer = http.get(url).header("authorization", &bearer).send().await.expect("an answer");
        assert_eq!(answer.status(), 200);
        longest = longest.max(begun.elapsed());
    }
    longest
}

fn reqwest_client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client")
}

#[tokio::test]
async fn a_collector_that_hangs_delays_nothing_and_costs_bounded_memory() {
    // It accepts connections, by the backlog of the system, and never reads.
    let hanging = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", hanging.local_addr().expect("an address"));
    let mut node = Server::start_with(&[("telemetry.otlp_url", &url), ("telemetry.sample", "1")]).await;
    let spans = async |outcome: &str| {
        node.metric(&format!("feedline_spans_total{{outcome=\"{outcome}\"}}")).await.expect("a number")
    };
    // The queue and one batch hold 2,560.
    let longest = join_all((0..8).map(|_| longest_of(&node, 400))).await.into_iter().max().unwrap_or_default();
    // One that waited for the collector would take its time limit of 5 s.
    assert!(longest < Duration::from_secs(4), "a request took {longest:?}");
    assert!(spans("dropped").await >= 3_200.0 - 2_560.0 - 512.0, "{} were dropped", spans("dropped").await);
    assert_eq!(spans("sent").await, 0.0);
    let begun = Instant::now();
    while spans("failed").await == 0.0 {
        assert!(begun.elapsed() < PATIENCE, "the request does not end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(node.log().matches("the collector of traces is away").count(), 1, "{}", node.log());
    let begun = Instant::now();
    assert!(node.stop().await.success());
    assert!(begun.elapsed() < Duration::from_secs(6), "the stop took {:?}", begun.elapsed());
}

#[tokio::test]
async fn what_is_queued_is_sent_at_a_stop_and_after_an_outage() {
    let mut collector = collector().await;
    let url = collector.root();
    let mut node = Server::start_with(&[("telemetry.otlp_url", &url), ("telemetry.sample", "1")]).await;
    collector.stop().await;
    longest_of(&node, 3).await;
    node.metric_is("feedline_spans_total{outcome=\"failed\"}", 3.0).await;
    collector.start_again().await;
    let begun = Instant::now();
    while !node.log().contains("the collector of traces is back") {
        assert!(begun.elapsed() < PATIENCE, "{}", node.log());
        longest_of(&node, 1).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let before = received(&collector).len();
    longest_of(&node, 5).await;
    assert!(node.stop().await.success());
    assert!(received(&collector).len() >= before + 5, "the last spans are lost");
}
