//! Rate limits: budgets for reads, mentions, and limits shared by a cluster.

use std::time::Instant;

use serde_json::{Value, json};

use crate::NAMESPACES;
use crate::client::Client;
use crate::redis_server::RedisServer;
use crate::server::{API_KEY, Answer, PATIENCE, Server, signed, token, unix};

const READ: &Value = &Value::Null;

/// Number of requests that succeed until one is rejected, and the rejection.
async fn repeat_until_rejected(server: &Server, user: &str, method: &str, path: &str, body: &Value) -> (usize, Answer) {
    for done in 0..2_000 {
        let answer = server.call(user, method, path, body).await;
        if !answer.status.is_success() {
            return (done, answer);
        }
    }
    panic!("no limit");
}

fn is_rate_limited(answer: &Answer) {
    assert_eq!((answer.status.as_u16(), &answer.body["error"]["code"]), (429, &json!("rate_limited")), "{answer:?}");
    let seconds: u64 = answer.header("retry-after").expect("Retry-After").parse().expect("seconds");
    assert!((1..=120).contains(&seconds), "{seconds}");
}

#[tokio::test]
async fn reads_have_a_budget_weighted_by_cost() {
    let server = Server::start_with(&[("rates.reads", "60")]).await;
    let post = server.post("ann", "hello").await;
    let (cheap, refused) = repeat_until_rejected(&server, "bo", "GET", &format!("/posts/{post}"), READ).await;
    is_rate_limited(&refused);
    assert!((120..=140).contains(&cheap), "120 look-ups at once, and one more each second: {cheap}");
    // All reads share the budget, including reads over sockets.
    let mut socket = Client::connect(&server, "bo").await;
    let reply = socket.call(json!({ "rpc": { "method": "timeline.read", "data": { "limit": 100 } } })).await;
    assert_eq!((&reply["error"]["code"], &reply["error"]["temporary"]), (&json!(429), &json!(true)), "{reply}");
    let (pages, _) =
        repeat_until_rejected(&server, "cy", "GET", "/timeline?limit=100&with=likers,comments,people", READ).await;
    assert!((4..=6).contains(&pages), "25 units each: {pages}");
    let (dear, _) = repeat_until_rejected(&server, "di", "GET", "/users/suggested", READ).await;
    assert!((4..=6).contains(&dear), "25 units each: {dear}");
    // Writes, backends and other users are not limited.
    assert_eq!(server.call("bo", "POST", "/posts", &json!({ "text": "x" })).await.status, 201);
    let headers = [("x-api-key", API_KEY), ("x-user", "bo")];
    for _ in 0..200 {
        assert_eq!(server.http("GET", &format!("/api/v1/posts/{post}"), &headers, "").await.status, 200);
    }
    server.done("eve", "GET", "/timeline", READ).await;
}

#[tokio::test]
async fn anonymous_reads_from_loopback_are_not_counted() {
    let server = Server::start_with(&[("rates.reads", "1"), ("auth.anonymous", "true")]).await;
    let post = server.post("ann", "hello").await;
    let mut socket = Client::open(&server).await;
    socket.done(json!({ "connect": {} })).await;
    for _ in 0..100 {
        socket.rpc("posts.get", &json!({ "id": post })).await;
    }
}

#[tokio::test]
async fn anonymous_reads_are_counted_by_the_clients_address() {
    let keys = [("rates.reads", "2"), ("auth.anonymous", "true"), ("server.trusted_proxies", "127.0.0.1")];
    let server = Server::start_with(&keys).await;
    let path = format!("/api/v1/posts/{}", server.post("ann", "hello").await);
    let token = format!("Bearer {}", signed(&json!({ "exp": unix() + 600 })));
    let read = async |from: &str| {
        let headers = [("authorization", token.as_str()), ("x-forwarded-for", from)];
        server.http("GET", &path, &headers, "").await
    };
    let mut done = 0;
    let refused = loop {
        let answer = read("203.0.113.9").await;
        if answer.status != 200 {
            break answer;
        }
        done += 1;
        assert!(done < 200, "no limit");
    };
    is_rate_limited(&refused);
    assert!((40..=45).contains(&done), "ten times a user's budget, which bursts to 4: {done}");
    assert_eq!(read("203.0.113.10").await.status, 200, "another address");
    assert_eq!(read("127.0.0.1").await.status, 200, "the proxy itself");
}

#[tokio::test]
async fn mentions_are_counted_and_a_refused_post_leaves_nothing() {
    let server = Server::start_with(&[("rates.mentions", "30")]).await;
    let crowd: Vec<String> = (0..20).map(|n| format!("@fan-{n}")).collect();
    let text = json!({ "text": crowd.join(" ") });
    let (posted, refused) = repeat_until_rejected(&server, "ann", "POST", "/posts", &text).await;
    is_rate_limited(&refused);
    assert!(refused.body["error"]["message"].as_str().expect("a message").contains("mentioned users"), "{refused:?}");
    assert_eq!(posted, 3, "60 mentions at once");
    let listed = server.done("ann", "GET", "/users/ann/posts", READ).await;
    assert_eq!(listed["items"].as_array().expect("items").len(), 3, "rejected posts are not stored");
    let comment = json!({ "text": crowd.join(" ") });
    let on = format!("/posts/{}/comments", listed["items"][0]["id"]);
    is_rate_limited(&server.call("ann", "POST", &on, &comment).await);
    // Texts without mentions and mentions of the author are not counted; other users are not limited.
    server.post("ann", "nobody, @ann").await;
    server.post("bo", &crowd.join(" ")).await;
}

/// An operation with an `Idempotency-Key`.
async fn keyed(server: &Server, (user, key): (&str, &str), method: &str, path: &str, body: &Value) -> Answer {
    let token = format!("Bearer {}", token(user));
    let headers = [("authorization", &*token), ("idempotency-key", key)];
    server.http(method, &format!("/api/v1{path}"), &headers, &body.to_string()).await
}

#[tokio::test]
async fn repeats_with_a_key_do_not_pass_the_limit_on_mentions() {
    let server = Server::start_with(&[("rates.mentions", "10")]).await;
    let crowd: Vec<String> = (0..20).map(|n| format!("@fan-{n}")).collect();
    let crowd = json!({ "text": crowd.join(" ") });
    let post = server.post("ann", "hello").await;
    server.done("ann", "POST", "/posts", &crowd).await;
    let (on, edit) = (format!("/posts/{post}/comments"), format!("/posts/{post}"));
    for (key, method, path) in [("p", "POST", "/posts"), ("c", "POST", &on), ("e", "PATCH", &edit)] {
        for _ in 0..3 {
            is_rate_limited(&keyed(&server, ("ann", key), method, path, &crowd).await);
        }
    }
}

#[tokio::test]
async fn commands_of_a_socket_use_the_budget_for_reads() {
    let keys = [("rates.reads", "60"), ("client.commands_per_second", "0"), ("namespaces", NAMESPACES)];
    let server = Server::start_with(&keys).await;
    let history = |channel: &str| json!({ "history": { "channel": channel, "limit": 100 } });
    let presence = json!({ "presence": { "channel": "chat:1" } });
    let count = json!({ "presence_stats": { "channel": "chat:1" } });
    // 120 units at once, and one more each second.
    for (user, command, expected) in [
        ("ann", history("timeline:ann"), 20..=25),
        ("bo", presence, 24..=28),
        ("cy", count, 120..=140),
        ("di", history("chat:1"), 20..=25),
    ] {
        let mut socket = Client::connect(&server, user).await;
        socket.subscribe("chat:1").await;
        let mut done = 0;
        let refused = loop {
            let reply = socket.call(command.clone()).await;
            if reply.get("error").is_some() {
                break reply;
            }
            done += 1;
            assert!(done < 500, "{command} has no limit");
        };
        assert_eq!(
            (&refused["error"]["code"], &refused["error"]["temporary"]),
            (&json!(111), &json!(true)),
            "{refused}"
        );
        assert!(expected.contains(&done), "{command}: {done}");
    }
    // Other users are not limited.
    Client::connect(&server, "eve").await.done(history("timeline:eve")).await;
    let (updates, _) = repeat_until_rejected(&server, "fay", "GET", "/timeline/updates?offset=0&epoch=x", READ).await;
    assert!((24..=28).contains(&updates), "5 units each: {updates}");
}

#[tokio::test]
async fn publications_are_counted_by_their_size() {
    let keys = [("rates.publications", "60"), ("client.commands_per_second", "0"), ("namespaces", NAMESPACES)];
    let server = Server::start_with(&keys).await;
    // 120 KiB at once, and one more each second.
    for (user, bytes, expected) in [("ann", 10, 120..=130), ("bo", 10_000, 12..=13), ("cy", 40_000, 3..=3)] {
        let mut socket = Client::connect(&server, user).await;
        socket.subscribe("chat:1").await;
        let publish = json!({ "publish": { "channel": "chat:1", "data": "x".repeat(bytes) } });
        let mut done = 0;
        let refused = loop {
            let reply = socket.call(publish.clone()).await;
            if reply.get("error").is_some() {
                break reply;
            }
            done += 1;
            assert!(done < 500, "no limit");
        };
        assert_eq!(
            (&refused["error"]["code"], &refused["error"]["temporary"]),
            (&json!(111), &json!(true)),
            "{refused}"
        );
        assert!(expected.contains(&done), "{bytes} bytes: {done}");
    }
}

#[tokio::test]
async fn subscriptions_use_the_budget_for_reads_by_what_they_recover() {
    let namespaces = r#"[{"name":"log","history_size":100,"history_ttl":"60s","publish":"subscriber"}]"#;
    let keys = [("rates.reads", "60"), ("client.commands_per_second", "0"), ("namespaces", namespaces)];
    let server = Server::start_with(&keys).await;
    let mut ann = Client::connect(&server, "ann").await;
    let position = ann.subscribe("log:1").await;
    for n in 0..40 {
        ann.done(json!({ "publish": { "channel": "log:1", "data": n } })).await;
    }
    let (epoch, recover) = (&position["epoch"], true);
    for (user, subscribe, expected) in [
        ("bo", json!({ "channel": "user:bo" }), 120..=140),
        ("cy", json!({ "channel": "log:1", "recover": recover, "epoch": epoch }), 40..=46),
        ("di", json!({ "channel": "log:1" }), 300..=300),
    ] {
        let mut socket = Client::connect(&server, user).await;
        let leave = json!({ "unsubscribe": { "channel": subscribe["channel"] } });
        let mut done = 0;
        while done < 300 {
            let reply = socket.call(json!({ "subscribe": subscribe })).await;
            if reply.get("error").is_some() {
                assert_eq!(reply["error"]["code"], 111, "{reply}");
                break;
            }
            let recovered = reply["subscribe"]["publications"].as_array().map_or(0, Vec::len);
            assert_eq!(recovered, if user == "cy" { 40 } else { 0 }, "{reply}");
            socket.done(leave.clone()).await;
            done += 1;
        }
        assert!(expected.contains(&done), "{subscribe}: {done}");
    }
}

/// Each subscription may be to a name that nobody has used before, and with `events` it is written to the ledger.
#[tokio::test]
async fn subscriptions_and_topics_have_budgets() {
    let namespaces = r#"[{"name":"log","events":true}]"#;
    let keys = [
        ("rates.subscriptions", "20"),
        ("rates.topics", "12"),
        ("client.commands_per_second", "0"),
        ("namespaces", namespaces),
    ];
    let server = Server::start_with(&keys).await;
    let mut ann = Client::connect(&server, "ann").await;
    let mut done = 0;
    let refused = loop {
        let channel = format!("log:{done}");
        let reply = ann.call(json!({ "subscribe": { "channel": channel } })).await;
        if reply.get("error").is_some() {
            break reply;
        }
        ann.done(json!({ "unsubscribe": { "channel": channel } })).await;
        done += 1;
        assert!(done < 100, "no limit");
    };
    assert_eq!((&refused["error"]["code"], &refused["error"]["temporary"]), (&json!(111), &json!(true)), "{refused}");
    assert!((40..=45).contains(&done), "twice a minute's worth: {done}");
    Client::connect(&server, "bo").await.subscribe("log:1").await;

    let post = |n: usize| json!({ "text": (0..8).map(|topic| format!("#t{n}x{topic} ")).collect::<String>() });
    let mut ids = Vec::new();
    let refused = loop {
        let answer = server.call("ann", "POST", "/posts", &post(ids.len())).await;
        if answer.status != 201 {
            break answer;
        }
        ids.push(answer.body["id"].as_u64().expect("an id"));
        assert!(ids.len() < 50, "no limit");
    };
    is_rate_limited(&refused);
    assert_eq!(ids.len(), 3, "24 topics at once");
    // An edit counts the topics that it adds.
    let path = format!("/posts/{}", ids[0]);
    assert_eq!(server.call("ann", "PATCH", &path, &post(0)).await.status, 200);
    is_rate_limited(&server.call("ann", "PATCH", &path, &post(99)).await);
    server.post("ann", "no topics").await;
    server.post("bo", "#one").await;
}

#[tokio::test]
async fn answers_are_looked_for_on_the_budget_for_reads() {
    let server = Server::start_with(&[("rates.reads", "2"), ("rates.posts", "1")]).await;
    let draft = json!({ "text": "once" });
    let first = keyed(&server, ("ann", "k"), "POST", "/posts", &draft).await;
    assert_eq!(first.status, 201, "{first:?}");
    let mut answered = 0;
    let refused = loop {
        let answer = keyed(&server, ("ann", "k"), "POST", "/posts", &draft).await;
        if answer.status != 201 {
            break answer;
        }
        assert_eq!(answer.body, first.body);
        answered += 1;
        assert!(answered < 50, "no limit");
    };
    is_rate_limited(&refused);
    assert!((5..=6).contains(&answered), "one as a post, and 4 as reads: {answered}");
}

#[tokio::test]
async fn posts_and_sign_ins_are_counted_for_the_whole_cluster() {
    let mut redis = RedisServer::start();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (url, ledger) = (redis.url(), format!("sqlite://{}", folder.path().join("ledger.db").display()));
    let keys = [
        ("broker.url", url.as_str()),
        ("broker.timeout", "500ms"),
        ("ledger.url", &ledger),
        ("rates.posts", "10"),
        ("rates.sessions", "6"),
    ];
    let nodes = [Server::start_with(&keys).await, Server::start_with(&keys).await];
    let began = Instant::now();
    let posted = async |times: usize| {
        let mut posted = 0;
        for n in 0..times {
            let answer = nodes[n % 2].call("ann", "POST", "/posts", &json!({ "text": "x" })).await;
            posted += usize::from(answer.status == 201);
            if answer.status != 201 {
                is_rate_limited(&answer);
            }
        }
        posted
    };
    let together = posted(60).await;
    let refilled = began.elapsed().as_secs() as usize / 6 + 1;
    assert!((20..=20 + refilled).contains(&together), "twice a minute's worth on both nodes: {together}");
    let mut tried = 0;
    for n in 0..40 {
        // A different account each time, since repeated failures delay an account.
        let wrong = json!({ "user": format!("nobody-{n}"), "password": "a guess" }).to_string();
        let answer = nodes[n % 2].http("POST", "/api/v1/sessions", &[], &wrong).await;
        tried += usize::from(answer.status == 401);
    }
    assert!((12..=16).contains(&tried), "twice a minute's worth on both nodes: {tried}");
    // Without Redis each node counts on its own.
    redis.kill();
    let alone = posted(80).await;
    assert!(alone <= 40, "{alone} posts without Redis");
    assert!(began.elapsed() < 3 * PATIENCE);
}
