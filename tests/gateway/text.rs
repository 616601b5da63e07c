//! Text as people write it: mentions and topics, text with nothing to see, and what is compared as equal.

use serde_json::{Value, json};

use crate::client::Client;
use crate::server::Server;

/// The table has many mentions.
const WITHOUT_RATES: [(&str, &str); 1] = [("rates.mentions", "0")];

/// Texts with nothing to see.
const BLANK: [&str; 11] = [
    "",
    " \n\t",
    "\u{3000}\u{a0}\u{2028}",
    "\u{200b}",
    "\u{200c}\u{200d}\u{2060}\u{feff}",
    "\u{ad}\u{34f}",
    "\u{202e}",
    "\u{2066}\u{2069} \u{200f}",
    "\u{3164}\u{ffa0}\u{115f}",
    "\u{2800}",
    "\u{e0067}\u{e007f}\u{fe0f}",
];

/// Texts in which nobody sees some characters, which stay.
const VISIBLE: [&str; 5] = [
    "❤\u{fe0f}",
    "👩\u{200d}💻",
    "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
    "می\u{200c}خواهم",
    "\u{202e}ecila\u{202c}",
];

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[tokio::test]
async fn mentions_and_topics_of_every_case_are_found() {
    let server = Server::start_with(&WITHOUT_RATES).await;
    let cases: Value = serde_json::from_str(include_str!("../text-cases.json")).expect("a table");
    let thread = server.post("ann", "a thread").await;
    let mut wrong = Vec::new();
    for case in cases.as_array().expect("cases") {
        let post = server.call("ann", "POST", "/posts", &json!({ "text": case["text"] })).await;
        let comments = format!("/posts/{thread}/comments");
        let comment = server.call("ann", "POST", &comments, &json!({ "text": case["text"] })).await;
        for (answer, members) in [(post, &["mentions", "topics"][..]), (comment, &["mentions"])] {
            for member in members {
                let found = answer.body.get(member).cloned().unwrap_or_else(|| json!([]));
                if !answer.status.is_success() || found != case[member] {
                    wrong.push(format!("{} {member} of {}: {}", answer.status, case, answer.body));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_topic_is_read_however_it_is_written() {
    let server = Server::start().await;
    let mut bo = Client::connect(&server, "bo").await;
    for (text, name, spellings) in [
        ("#İstanbul", "i\u{307}stanbul", vec!["İstanbul", "#İSTANBUL", "I\u{307}stanbul"]),
        (
            "#Tie\u{302}\u{301}ng_Vie\u{323}\u{302}t",
            "tiếng_việt",
            vec!["Tiếng_Việt", "tie\u{302}\u{301}ng_vie\u{302}\u{323}t"],
        ),
        ("#हिन्दी", "हिन्दी", vec!["हिन्दी"]),
        ("#کتاب\u{200c}ها", "کتاب\u{200c}ها", vec!["＃کتاب\u{200c}ها"]),
    ] {
        let channel = format!("topic:{name}");
        bo.subscribe(&channel).await;
        let post = server.post("ann", text).await;
        assert_eq!(bo.publication(&channel).await["data"]["post"]["id"], post, "{text} is live");
        for spelling in std::iter::once(name).chain(spellings) {
            let page = server.done("bo", "GET", &format!("/topics/{}/posts", encoded(spelling)), &Value::Null).await;
            assert_eq!(page["items"][0]["id"], post, "{spelling}");
        }
    }
    // Each name is a part of a cursor.
    let mut names = Vec::new();
    let mut path = "/topics?limit=1".to_owned();
    loop {
        let page = server.done("bo", "GET", &path, &Value::Null).await;
        names.push(page["items"][0]["name"].as_str().expect("a name").to_owned());
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/topics?limit=1&cursor={}", encoded(next));
    }
    assert_eq!(names, ["کتاب\u{200c}ها", "हिन्दी", "tiếng_việt", "i\u{307}stanbul"]);
    for wrong in ["1", "_", "a b", "a-b", "\u{3164}", "🦀"] {
        let answer = server.call("bo", "GET", &format!("/topics/{}/posts", encoded(wrong)), &Value::Null).await;
        assert_eq!(answer.status, 400, "{wrong}");
    }
}

#[tokio::test]
async fn only_the_member_of_topics_is_refused() {
    let server = Server::start().await;
    let issues: String = (1..=11).map(|n| format!("#{n} #t{n} ")).collect();
    let create = async |draft: Value| server.call("ann", "POST", "/posts", &draft).await;
    let post = create(json!({ "text": issues, "topics": ["Own"] })).await.body;
    assert_eq!(post["topics"], json!(["own", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"]));
    let path = format!("/posts/{}", post["id"]);
    let edited = server.done("ann", "PATCH", &path, &json!({ "text": format!("{issues} #more") })).await;
    assert_eq!(edited["topics"], post["topics"], "the topics of the old text were not kept as its own");
    let edited = server.done("ann", "PATCH", &path, &json!({ "text": "#t12" })).await;
    assert_eq!(edited["topics"], json!(["own", "t12"]));
    let many: Vec<String> = (1..=11).map(|n| format!("t{n}")).collect();
    assert_eq!(create(json!({ "text": "x", "topics": many })).await.status, 422);
    for wrong in ["", "#", "1", "a b", "\u{200b}", "\u{3164}", "🦀"] {
        let answer = create(json!({ "text": "x", "topics": [wrong] })).await;
        assert_eq!((answer.status.as_u16(), &answer.body["error"]["field"]), (400, &json!("topics")), "{wrong:?}");
    }
}

#[tokio::test]
async fn what_nobody_sees_is_empty() {
    let server = Server::start_with(&WITHOUT_RATES).await;
    let post = server.post("ann", "a post").await;
    let path = format!("/posts/{post}");
    let comment = server.done("ann", "POST", &format!("{path}/comments"), &json!({ "text": "a comment" })).await;
    let edited = format!("/comments/{}", comment["id"]);
    for blank in BLANK {
        let refused = async |method: &str, path: &str, body: Value| {
            let answer = server.call("ann", method, path, &body).await;
            assert_eq!(answer.status, 400, "{method} {path} with {blank:?}: {answer:?}");
        };
        refused("POST", "/posts", json!({ "text": blank })).await;
        refused("PATCH", &path, json!({ "text": blank })).await;
        refused("POST", &format!("{path}/comments"), json!({ "text": blank })).await;
        refused("PATCH", &edited, json!({ "text": blank })).await;
        refused("PATCH", "/users/me", json!({ "name": blank })).await;
        refused("GET", &format!("/users?q={}", encoded(blank)), Value::Null).await;
        refused("POST", "/accounts", json!({ "user": "new", "password": "long enough", "name": blank })).await;
        refused("POST", "/posts", json!({ "text": "x", "topics": [blank] })).await;
        refused("POST", "/favourites/video/check", json!({ "ids": [blank] })).await;
        let favourite = server.call("ann", "PUT", &format!("/favourites/video/{}", encoded(blank)), &Value::Null).await;
        // Without an id the path is another one.
        let expected = if blank.is_empty() { 404 } else { 400 };
        assert_eq!(favourite.status, expected, "{blank:?}: {favourite:?}");

        server.done("ann", "PATCH", "/users/me", &json!({ "bio": "a bio" })).await;
        let me = server.done("ann", "PATCH", "/users/me", &json!({ "bio": blank })).await;
        assert_eq!(me.get("bio"), None, "{blank:?}");
        let media = json!([{ "type": "image", "url": "/a.png", "alt": blank }]);
        let place = json!({ "lat": 1.0, "lon": 2.0, "name": blank });
        let draft = json!({ "text": blank, "media": media, "location": place, "platform": blank });
        let shown = server.done("ann", "POST", "/posts", &draft).await;
        assert_eq!((&shown["text"], shown.get("platform")), (&json!(blank), None), "{blank:?}");
        assert_eq!((shown["media"][0].get("alt"), shown["location"].get("name")), (None, None), "{blank:?}");
    }
}

#[tokio::test]
async fn what_nobody_sees_stays_in_visible_text() {
    let server = Server::start().await;
    for text in VISIBLE {
        let place = json!({ "lat": 1.0, "lon": 2.0, "name": text });
        let post = server.done("ann", "POST", "/posts", &json!({ "text": text, "location": place })).await;
        assert_eq!((&post["text"], &post["location"]["name"]), (&json!(text), &json!(text)));
        let comment = json!({ "text": text });
        let comment = server.done("ann", "POST", &format!("/posts/{}/comments", post["id"]), &comment).await;
        assert_eq!(comment["text"], text);
        let me = server.done("ann", "PATCH", "/users/me", &json!({ "name": text, "bio": text })).await;
        assert_eq!((&me["name"], &me["bio"]), (&json!(text), &json!(text)));
        server.done("ann", "PUT", &format!("/favourites/video/{}", encoded(text)), &Value::Null).await;
        let favourites = server.done("ann", "GET", "/favourites/video", &Value::Null).await;
        assert_eq!(favourites["items"][0]["id"], text);
    }
}

#[tokio::test]
async fn searches_and_passwords_ignore_how_text_is_composed() {
    let server = Server::start_with(&WITHOUT_RATES).await;
    for (user, name) in
        [("zo", "Zoë Ångström"), ("da", "Đặng"), ("si", "ΣΊΣΥΦΟΣ"), ("is", "Işıl"), ("mu", "مُحَمَّد"), ("ga", "ガ")]
    {
        server.done(user, "PATCH", "/users/me", &json!({ "name": name })).await;
    }
    for (q, user) in [
        ("zoe a", "zo"),
        ("ZOE\u{308}", "zo"),
        ("zoë Å", "zo"),
        ("dang", "da"),
        ("ĐA\u{323}", "da"),
        ("σισυφοσ", "si"),
        ("σίσυφος", "si"),
        ("ISIL", "is"),
        ("محمد", "mu"),
        ("カ\u{3099}", "ga"),
        ("ｶﾞ", "ga"),
    ] {
        let found = server.done("ann", "GET", &format!("/users?q={}", encoded(q)), &Value::Null).await;
        let ids: Vec<_> = found["items"].as_array().expect("items").iter().map(|item| &item["id"]).collect();
        assert!(ids.contains(&&json!(user)), "{q}: {ids:?}");
    }
    let account = json!({ "user": "kim", "password": "pässwörd \u{e9}" });
    assert_eq!(server.http("POST", "/api/v1/accounts", &[], &account.to_string()).await.status, 201);
    let decomposed = json!({ "user": "kim", "password": "pa\u{308}sswo\u{308}rd e\u{301}" });
    assert!(server.http("POST", "/api/v1/sessions", &[], &decomposed.to_string()).await.status.is_success());
    let other = json!({ "user": "kim", "password": "password e" });
    assert_eq!(server.http("POST", "/api/v1/sessions", &[], &other.to_string()).await.status, 401);
}
