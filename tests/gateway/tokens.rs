//! Tokens that are forged or issued by others.

use std::fs;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::NAMESPACES;
use crate::client::{Client, Heard, Wire};
use crate::server::{Server, signed, signed_text, token, unix};

/// The outcome of a connect with this token: 0, an error code, or a close code.
pub(crate) async fn connect(server: &Server, token: &str) -> u64 {
    let mut client = Client::open(server).await;
    client.command(json!({ "connect": { "token": token } })).await;
    match client.hear().await {
        Heard::Reply(reply) => reply["error"]["code"].as_u64().unwrap_or(0),
        Heard::Closed(code, _) => code.into(),
        other => panic!("{other:?}"),
    }
}

/// A token assembled by hand, with a header that no library would write.
fn by_hand(header: &Value, claims: &Value, signature: &str) -> String {
    let part = |json: &Value| URL_SAFE_NO_PAD.encode(json.to_string());
    format!("{}.{}.{signature}", part(header), part(claims))
}

fn rsa_keys() -> (Vec<u8>, String) {
    let dir = tempfile::tempdir().unwrap();
    let openssl = |args: &[&str]| {
        let output = Command::new("openssl").args(args).current_dir(&dir).output().expect("openssl is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let private = openssl(&["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]);
    fs::write(dir.path().join("private.pem"), &private).unwrap();
    let public = openssl(&["pkey", "-in", "private.pem", "-pubout"]);
    (private, String::from_utf8(public).unwrap())
}

#[tokio::test]
async fn foreign_tokens_are_rejected_at_connect() {
    let (private, public) = rsa_keys();
    let server = Server::start_with(&[("auth.rsa_public_key", &public)]).await;
    let claims = json!({ "sub": "ann" });
    let sign = |algorithm, key: &EncodingKey| encode(&Header::new(algorithm), &claims, key).unwrap();
    let rsa = EncodingKey::from_rsa_pem(&private).unwrap();
    assert_eq!(connect(&server, &token("ann")).await, 0);
    assert_eq!(connect(&server, &sign(Algorithm::RS256, &rsa)).await, 0);

    let good = token("ann");
    let (head, signature) = good.rsplit_once('.').unwrap();
    let forged = [
        ("alg none", by_hand(&json!({ "alg": "none" }), &claims, "")),
        ("alg None", by_hand(&json!({ "alg": "None", "typ": "JWT" }), &claims, signature)),
        ("another secret", sign(Algorithm::HS256, &EncodingKey::from_secret(b"another secret, just as long as ours"))),
        ("HS256 with the public key", sign(Algorithm::HS256, &EncodingKey::from_secret(public.as_bytes()))),
        ("HS256 with it, trimmed", sign(Algorithm::HS256, &EncodingKey::from_secret(public.trim().as_bytes()))),
        ("PS256", sign(Algorithm::PS256, &rsa)),
        ("other claims under the signature", {
            let part = URL_SAFE_NO_PAD.encode(json!({ "sub": "bo" }).to_string());
            format!("{}.{part}.{signature}", head.split_once('.').unwrap().0)
        }),
        ("no signature", format!("{head}.")),
        ("a sub that is no user", signed(&json!({ "sub": "a b" }))),
        ("a subscription's", signed(&json!({ "sub": "ann", "channel": "topic:x" }))),
    ];
    for (what, forged) in forged {
        assert_eq!(connect(&server, &forged).await, 3500, "{what}");
        let header = format!("Bearer {forged}");
        let answer = server.http("GET", "/api/v1/timeline", &[("authorization", &header)], "").await;
        assert_eq!((answer.status.as_u16(), &answer.body["error"]["code"]), (401, &json!("unauthorized")), "{what}");
    }
    for (what, claims) in [
        ("expired", json!({ "sub": "ann", "exp": unix() - 1 })),
        ("not yet", json!({ "sub": "ann", "nbf": unix() + 60 })),
    ] {
        assert_eq!(connect(&server, &signed(&claims)).await, 109, "{what}");
        let header = format!("Bearer {}", signed(&claims));
        assert_eq!(server.http("GET", "/api/v1/timeline", &[("authorization", &header)], "").await.status, 401);
    }
    server.metric_is("feedline_connections", 0.0).await;
}

#[tokio::test]
async fn rights_that_have_expired_are_error_110() {
    let server = Server::start_with(&[("namespaces", NAMESPACES)]).await;
    let over = unix() - 1;
    assert_eq!(connect(&server, &signed(&json!({ "sub": "ann", "expire_at": over }))).await, 110);
    let mut ann = Client::connect(&server, "ann").await;
    let claims = json!({ "sub": "ann", "channel": "shut:1", "expire_at": over });
    let subscribe = json!({ "subscribe": { "channel": "shut:1", "token": signed(&claims) } });
    assert_eq!(ann.refused(subscribe).await, 110);
    let claims = json!({ "sub": "ann", "expire_at": over });
    assert_eq!(ann.refused(json!({ "refresh": { "token": signed(&claims) } })).await, 110);
}

#[tokio::test]
async fn subscription_tokens_open_one_channel_to_one_user() {
    let server = Server::start_with(&[("namespaces", NAMESPACES)]).await;
    let subscribe =
        |channel: &str, claims: Value| json!({ "subscribe": { "channel": channel, "token": signed(&claims) } });
    let mut ann = Client::open(&server).await;
    let connected = ann.done(json!({ "connect": { "token": token("ann") } })).await;
    let client = connected["connect"]["client"].clone();
    ann.done(subscribe("shut:1", json!({ "sub": "ann", "channel": "shut:1" }))).await;
    ann.done(subscribe("$chat:1", json!({ "sub": "ann", "channel": "$chat:1", "client": client }))).await;
    let claims = json!({ "sub": "ann", "channel": "shut:2", "exp": unix() + 60 });
    let reply = ann.done(subscribe("shut:2", claims)).await;
    assert_eq!(reply["subscribe"]["expires"], true);
    ann.subscribe("chat:1#ann,bo").await;
    for foreign in [
        json!({ "sub": "bo", "channel": "shut:3" }),
        json!({ "sub": "ann", "channel": "shut:4" }),
        json!({ "sub": "ann", "channel": "shut:3", "client": "another" }),
    ] {
        let mut ann = Client::connect(&server, "ann").await;
        ann.command(subscribe("shut:3", foreign.clone())).await;
        assert_eq!(ann.closed().await.0, 3500, "{foreign}");
    }
}

/// Claims are sent to other clients as they are in the token. Line breaks in them must not end the message.
#[tokio::test]
async fn line_breaks_in_claims_do_not_break_the_channel() {
    let server = Server::start_with(&[("namespaces", NAMESPACES)]).await;
    let mut listeners = Vec::new();
    for wire in Wire::BIDIRECTIONAL {
        let mut listener = Client::connect_over(&server, "bo", wire).await;
        listener.subscribe("chat:1").await;
        listeners.push(listener);
    }
    let spaced = "{\n\n\"a\":\r\n1\n}";
    let claims = format!(
        r#"{{"sub":"ann","exp":{},"info":{spaced},"subs":{{"chat:1":{{"info":{spaced},"data":{spaced}}}}}}}"#,
        unix() + 600
    );
    for wire in Wire::BIDIRECTIONAL {
        let mut ann = Client::open_over(&server, wire).await;
        let connect = json!({ "connect": { "token": signed_text(&claims) } });
        let connected = ann.done(connect).await["connect"].clone();
        assert_eq!(connected["subs"]["chat:1"]["data"], json!({ "a": 1 }), "{wire:?}");
        ann.done(json!({ "publish": { "channel": "chat:1", "data": 1 } })).await;
        for listener in &mut listeners {
            let publication = listener.publication("chat:1").await;
            let info = json!({ "a": 1 });
            assert_eq!((&publication["info"]["conn_info"], &publication["info"]["chan_info"]), (&info, &info));
            let presence = listener.done(json!({ "presence": { "channel": "chat:1" } })).await;
            assert!(presence["presence"]["presence"].is_object(), "{presence}");
        }
    }
}
