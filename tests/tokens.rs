//! Tokens: which are taken, which are refused, and as what.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use feedline::auth::{Issuer, TokenError, Verifier};
use feedline::config::{Config, Secrets};
use feedline::model::UserId;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use proptest::prelude::*;
use serde_json::{Value, json};

const NOW: u64 = 1_800_000_000;
const SECRET: &str = "a secret that is long enough for HS256";

/// Keys made for this run: none is kept anywhere.
struct Keys {
    rsa_private: String,
    rsa_public: String,
    ec_private: String,
    ec_public: String,
    other_curve_public: String,
}

fn keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let (rsa_private, rsa_public) = make_key(dir.path(), "RSA", "rsa_keygen_bits:2048");
        let (ec_private, ec_public) = make_key(dir.path(), "EC", "ec_paramgen_curve:P-256");
        let (_, other_curve_public) = make_key(dir.path(), "EC", "ec_paramgen_curve:P-384");
        Keys { rsa_private, rsa_public, ec_private, ec_public, other_curve_public }
    })
}

fn make_key(dir: &Path, kind: &str, option: &str) -> (String, String) {
    let openssl = |args: &[&str]| {
        let output = Command::new("openssl").args(args).current_dir(dir).output().expect("openssl is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let private = openssl(&["genpkey", "-algorithm", kind, "-pkeyopt", option]);
    std::fs::write(dir.join("private.pem"), &private).unwrap();
    (private, openssl(&["pkey", "-in", "private.pem", "-pubout"]))
}

fn config(env: &[(&str, &str)]) -> Config {
    try_config(env).unwrap_or_else(|error| panic!("{error}"))
}

fn try_config(env: &[(&str, &str)]) -> Result<Config, String> {
    let env = env.iter().map(|(key, value)| (format!("FEEDLINE__AUTH__{key}"), (*value).to_owned()));
    let accounts = ("FEEDLINE__ACCOUNTS__ENABLED".to_owned(), "false".to_owned());
    let keys = ("FEEDLINE__AUTH__API_KEYS".to_owned(), "key".to_owned());
    Config::parse("", env.chain([accounts, keys])).map_err(|error| error.to_string())
}

fn verifier(env: &[(&str, &str)]) -> Verifier {
    let config = config(env);
    let secrets = Secrets::load(&config).unwrap();
    assert_eq!(secrets.file, None, "everything is configured");
    Verifier::new(&config.auth, &secrets).unwrap()
}

fn hs256() -> Verifier {
    verifier(&[("HMAC_SECRET", SECRET)])
}

fn signed(claims: &Value) -> String {
    encode(&Header::new(Algorithm::HS256), claims, &EncodingKey::from_secret(SECRET.as_bytes())).unwrap()
}

fn rs256(claims: &Value) -> String {
    let key = EncodingKey::from_rsa_pem(keys().rsa_private.as_bytes()).unwrap();
    encode(&Header::new(Algorithm::RS256), claims, &key).unwrap()
}

fn es256(claims: &Value) -> String {
    let key = EncodingKey::from_ec_pem(keys().ec_private.as_bytes()).unwrap();
    encode(&Header::new(Algorithm::ES256), claims, &key).unwrap()
}

/// A token put together by hand, with a header that no library would write.
fn by_hand(header: &Value, claims: &Value, signature: &str) -> String {
    let part = |json: &Value| URL_SAFE_NO_PAD.encode(json.to_string());
    format!("{}.{}.{signature}", part(header), part(claims))
}

fn user(name: &str) -> Option<UserId> {
    Some(UserId::parse(name).unwrap())
}

#[test]
fn a_token_with_sub_alone_is_valid() {
    let claims = hs256().verify_connect(&signed(&json!({ "sub": "ann" })), NOW).unwrap();
    assert_eq!((claims.user, claims.expire_at), (user("ann"), None));
    assert!(claims.info.is_none() && claims.channels.is_empty() && claims.subs.is_empty());
    for nobody in [json!({ "sub": "" }), json!({})] {
        assert_eq!(hs256().verify_connect(&signed(&nobody), NOW).unwrap().user, None);
    }
}

#[test]
fn everything_a_connect_token_says_is_heard() {
    let token = signed(&json!({
        "sub": "ann", "exp": NOW + 60, "iat": NOW, "nbf": NOW, "jti": "1", "other": [1],
        "info": { "name": "Ann" }, "channels": ["chat:a"],
        "subs": { "chat:b": { "b64info": STANDARD.encode("[1]"), "data": 2 }, "chat:c": {} },
    }));
    let claims = hs256().verify_connect(&token, NOW).unwrap();
    assert_eq!(claims.expire_at, Some(NOW + 60));
    assert_eq!(claims.info.unwrap().get(), r#"{"name":"Ann"}"#);
    assert_eq!(claims.channels, ["chat:a"]);
    assert_eq!(claims.subs.keys().collect::<Vec<_>>(), ["chat:b", "chat:c"]);
    let sub = &claims.subs["chat:b"];
    assert_eq!((sub.info.as_ref().unwrap().get(), sub.data.as_ref().unwrap().get()), ("[1]", "2"));
}

#[test]
fn expire_at_overrides_exp_but_does_not_revive() {
    let verify = |claims: Value| hs256().verify_connect(&signed(&claims), NOW).map(|claims| claims.expire_at);
    assert_eq!(verify(json!({ "exp": NOW + 9, "expire_at": 0 })), Ok(None));
    assert_eq!(verify(json!({ "exp": NOW + 9, "expire_at": NOW + 99 })), Ok(Some(NOW + 99)));
    assert_eq!(verify(json!({ "expire_at": NOW + 99 })), Ok(Some(NOW + 99)));
    assert_eq!(verify(json!({ "exp": NOW - 9, "expire_at": 0 })), Err(TokenError::Expired));
}

#[test]
fn a_token_is_valid_from_nbf_until_exp() {
    let verify = |claims: Value| hs256().verify_connect(&signed(&claims), NOW).map(drop);
    let valid = [json!({ "exp": NOW + 1 }), json!({ "nbf": NOW }), json!({ "exp": NOW as f64 + 1.5, "nbf": -3 })];
    for claims in valid {
        assert_eq!(verify(claims.clone()), Ok(()), "{claims}");
    }
    let expired = [
        json!({ "exp": NOW }),
        json!({ "exp": 0 }),
        json!({ "exp": -1 }),
        json!({ "exp": NOW as f64 - 0.5 }),
        json!({ "nbf": NOW + 1 }),
        json!({ "nbf": NOW + 1, "exp": NOW + 2 }),
    ];
    for claims in expired {
        assert_eq!(verify(claims.clone()), Err(TokenError::Expired), "{claims}");
    }
}

#[test]
fn a_subscription_token_names_its_channel() {
    let token = signed(&json!({ "sub": "ann", "channel": "chat:a", "client": "c", "exp": NOW + 1, "info": 1 }));
    let claims = hs256().verify_subscribe(&token, NOW).unwrap();
    assert_eq!((claims.user, claims.channel.as_str()), (user("ann"), "chat:a"));
    assert_eq!((claims.client.as_deref(), claims.expire_at), (Some("c"), Some(NOW + 1)));
    assert_eq!(claims.options.info.unwrap().get(), "1");

    assert!(matches!(hs256().verify_connect(&token, NOW), Err(TokenError::Invalid(_))));
    for none in [json!({ "sub": "ann" }), json!({ "sub": "ann", "channel": "" })] {
        assert!(matches!(hs256().verify_subscribe(&signed(&none), NOW), Err(TokenError::Invalid(_))));
    }
    let late = signed(&json!({ "sub": "ann", "channel": "chat:a", "exp": NOW }));
    assert_eq!(hs256().verify_subscribe(&late, NOW).unwrap_err(), TokenError::Expired);
}

#[test]
fn each_key_verifies_its_own_algorithm() {
    let claims = json!({ "sub": "ann" });
    let rsa = verifier(&[("RSA_PUBLIC_KEY", &keys().rsa_public)]);
    let ecdsa = verifier(&[("ECDSA_PUBLIC_KEY", &keys().ec_public)]);
    let all = verifier(&[
        ("HMAC_SECRET", SECRET),
        ("RSA_PUBLIC_KEY", &keys().rsa_public),
        ("ECDSA_PUBLIC_KEY", &keys().ec_public),
    ]);
    let tokens = [signed(&claims), rs256(&claims), es256(&claims)];
    let taken = |verifier: &Verifier| tokens.clone().map(|token| verifier.verify_connect(&token, NOW).is_ok());
    assert_eq!(taken(&hs256()), [true, false, false]);
    assert_eq!(taken(&rsa), [false, true, false]);
    assert_eq!(taken(&ecdsa), [false, false, true]);
    assert_eq!(taken(&all), [true, true, true]);
}

#[test]
fn a_public_key_may_be_a_file_and_must_be_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.pem");
    std::fs::write(&path, &keys().rsa_public).unwrap();
    let verifier = verifier(&[("RSA_PUBLIC_KEY", path.to_str().unwrap())]);
    assert!(verifier.verify_connect(&rs256(&json!({ "sub": "ann" })), NOW).is_ok());
    let wrong = [
        ("RSA_PUBLIC_KEY", &keys().ec_public),
        ("RSA_PUBLIC_KEY", &keys().rsa_private),
        ("ECDSA_PUBLIC_KEY", &keys().rsa_public),
        ("ECDSA_PUBLIC_KEY", &keys().ec_private),
        ("ECDSA_PUBLIC_KEY", &keys().other_curve_public),
        ("RSA_PUBLIC_KEY", &"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n".to_owned()),
    ];
    for (key, pem) in wrong {
        let error = try_config(&[(key, pem)]).unwrap_err();
        assert!(error.starts_with(&format!("FEEDLINE__AUTH__{key}: expected ")), "{error}");
    }
}

#[test]
fn foreign_tokens_are_refused() {
    let claims = json!({ "sub": "ann" });
    let all = verifier(&[
        ("HMAC_SECRET", SECRET),
        ("RSA_PUBLIC_KEY", &keys().rsa_public),
        ("ECDSA_PUBLIC_KEY", &keys().ec_public),
    ]);
    let rsa = verifier(&[("RSA_PUBLIC_KEY", &keys().rsa_public)]);
    let with_secret =
        |algorithm, secret: &[u8]| encode(&Header::new(algorithm), &claims, &EncodingKey::from_secret(secret)).unwrap();
    let good = signed(&claims);
    let (head, signature) = good.rsplit_once('.').unwrap();
    let mut critical = Header::new(Algorithm::HS256);
    critical.crit = Some(vec!["exp".into()]);
    let critical = encode(&critical, &claims, &EncodingKey::from_secret(SECRET.as_bytes())).unwrap();
    let bad = [
        ("none", by_hand(&json!({ "alg": "none", "typ": "JWT" }), &claims, "")),
        ("None", by_hand(&json!({ "alg": "None" }), &claims, "")),
        ("none with a signature", by_hand(&json!({ "alg": "none" }), &claims, signature)),
        ("no algorithm", by_hand(&json!({ "typ": "JWT" }), &claims, signature)),
        ("HS256 with the RSA public key", with_secret(Algorithm::HS256, keys().rsa_public.as_bytes())),
        ("HS256 with the EC public key", with_secret(Algorithm::HS256, keys().ec_public.as_bytes())),
        ("RS256 with the secret's signature", by_hand(&json!({ "alg": "RS256" }), &claims, signature)),
        ("another secret", with_secret(Algorithm::HS256, b"another secret")),
        ("no secret", with_secret(Algorithm::HS256, b"")),
        ("HS512 with the secret", with_secret(Algorithm::HS512, SECRET.as_bytes())),
        ("no signature", format!("{head}.")),
        ("half a signature", format!("{head}.{}", &signature[..20])),
        ("other claims", by_hand(&json!({ "alg": "HS256" }), &json!({ "sub": "bo" }), signature)),
        ("an extension that must be understood", critical),
        ("nothing", String::new()),
        ("dots", "...".into()),
        ("two parts", head.into()),
        ("four parts", format!("{good}.x")),
        ("garbage", "garbage".into()),
        ("claims that are a list", signed(&json!([1]))),
        ("a sub that is a number", signed(&json!({ "sub": 1 }))),
        ("a sub that is no user id", signed(&json!({ "sub": "a b" }))),
        ("a time that is a text", signed(&json!({ "sub": "ann", "exp": "soon" }))),
        ("base64 that is none", signed(&json!({ "sub": "ann", "b64info": "%" }))),
        ("base64 of no JSON", signed(&json!({ "sub": "ann", "b64info": STANDARD.encode("{") }))),
        ("a channel", signed(&json!({ "sub": "ann", "channel": "chat:a" }))),
        ("wrong and expired", signed(&json!({ "sub": "a b", "exp": 1 }))),
        ("another secret, expired", {
            let key = EncodingKey::from_secret(b"another");
            encode(&Header::new(Algorithm::HS256), &json!({ "exp": 1 }), &key).unwrap()
        }),
    ];
    assert!(all.verify_connect(&good, NOW).is_ok(), "the one they are made from is good");
    for (what, token) in bad {
        for verifier in [&all, &rsa] {
            let refused = verifier.verify_connect(&token, NOW);
            assert!(matches!(refused, Err(TokenError::Invalid(_))), "{what}: {refused:?}");
        }
    }
}

#[test]
fn audience_and_issuer_are_looked_at_when_they_are_configured() {
    let picky = verifier(&[("HMAC_SECRET", SECRET), ("AUDIENCE", "feed"), ("ISSUER", "app")]);
    let taken = |claims: Value| picky.verify_connect(&signed(&claims), NOW).is_ok();
    assert!(taken(json!({ "aud": "feed", "iss": "app" })));
    assert!(taken(json!({ "aud": ["shop", "feed"], "iss": "app" })));
    for wrong in [
        json!({}),
        json!({ "aud": "feed" }),
        json!({ "iss": "app" }),
        json!({ "aud": "shop", "iss": "app" }),
        json!({ "aud": ["shop"], "iss": "app" }),
        json!({ "aud": [], "iss": "app" }),
        json!({ "aud": "feed", "iss": "App" }),
    ] {
        assert!(!taken(wrong.clone()), "{wrong} passed");
    }
    assert!(hs256().verify_connect(&signed(&json!({ "aud": "shop", "iss": "else" })), NOW).is_ok());
}

#[test]
fn what_feedline_issues_it_takes_until_it_ends() {
    let config = config(&[("HMAC_SECRET", SECRET), ("AUDIENCE", "feed"), ("ISSUER", "app"), ("TOKEN_TTL", "1h")]);
    let secrets = Secrets::load(&config).unwrap();
    let issuer = Issuer::new(&config.auth, &secrets).unwrap();
    let verifier = Verifier::new(&config.auth, &secrets).unwrap();
    let issued = issuer.issue(&user("ann").unwrap(), NOW).unwrap();
    assert_eq!(issued.expires_at, NOW + 3600);
    let claims = verifier.verify_connect(issued.token.reveal(), NOW + 3599).unwrap();
    assert_eq!((claims.user, claims.expire_at), (user("ann"), Some(NOW + 3600)));
    let late = verifier.verify_connect(issued.token.reveal(), NOW + 3600);
    assert_eq!(late.unwrap_err(), TokenError::Expired);
    let short = issuer.with_ttl(Duration::from_secs(5)).issue(&user("ann").unwrap(), NOW).unwrap();
    assert_eq!(short.expires_at, NOW + 5);
}

#[test]
fn nothing_shows_a_key() {
    let config = config(&[("HMAC_SECRET", SECRET)]);
    let secrets = Secrets::load(&config).unwrap();
    let verifier = Verifier::new(&config.auth, &secrets).unwrap();
    let issuer = Issuer::new(&config.auth, &secrets).unwrap();
    let issued = issuer.issue(&user("ann").unwrap(), NOW).unwrap();
    let shown = format!("{config:?} {secrets:?} {verifier:?} {issuer:?} {issued:?}");
    assert!(!shown.contains(SECRET) && !shown.contains(issued.token.reveal()), "{shown}");
}

proptest! {
    #[test]
    fn no_text_is_taken_or_panics(text in "\\PC{0,200}", cut in 0_usize..200) {
        prop_assert!(hs256().verify_connect(&text, NOW).is_err());
        let good = signed(&json!({ "sub": "ann" }));
        let changed = format!("{}{text}", &good[..cut.min(good.len() - 1)]);
        prop_assert!(changed == good || hs256().verify_connect(&changed, NOW).is_err());
    }
}
