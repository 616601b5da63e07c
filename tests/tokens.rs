//! Tokens: which are accepted, which are rejected, and with which kind and user.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use feedline::auth::{Issuer, SessionIssuer, TokenError, TokenIdentity, TokenKind, Verifier};
use feedline::config::{Config, Secrets};
use feedline::model::UserId;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use proptest::prelude::*;
use serde_json::{Value, json};

const NOW: u64 = 1_800_000_000;
const SECRET: &str = "a secret that is long enough for HS256";

/// Keys generated for this run; none is stored.
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
    // Short-lived tokens with `sub` alone are accepted and expire exactly at `exp`, unless a test overrides it.
    let forms = [("REQUIRE_EXP", "false"), ("LEEWAY", "0s")]
        .map(|(key, value)| (format!("FEEDLINE__AUTH__{key}"), value.to_owned()));
    Config::parse("", forms.into_iter().chain(env).chain([accounts, keys])).map_err(|error| error.to_string())
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

/// A token assembled by hand, with a header that no library would write.
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
fn every_claim_of_a_connect_token_is_used() {
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
fn foreign_tokens_are_rejected() {
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
    assert!(all.verify_connect(&good, NOW).is_ok(), "the token that they are derived from is valid");
    for (what, token) in bad {
        for verifier in [&all, &rsa] {
            let refused = verifier.verify_connect(&token, NOW);
            assert!(matches!(refused, Err(TokenError::Invalid(_))), "{what}: {refused:?}");
        }
    }
}

#[test]
fn audience_and_issuer_are_checked_when_configured() {
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
fn issued_tokens_are_accepted_until_they_expire() {
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
fn tokens_without_exp_are_rejected_unless_allowed() {
    let strict = verifier(&[("HMAC_SECRET", SECRET), ("REQUIRE_EXP", "true")]);
    for claims in [json!({ "sub": "ann" }), json!({ "sub": "ann", "expire_at": NOW + 60 }), json!({})] {
        assert_eq!(strict.verify_connect(&signed(&claims), NOW).unwrap_err(), TokenError::NoExpiry, "{claims}");
        assert!(hs256().verify_connect(&signed(&claims), NOW).is_ok(), "{claims}");
    }
    let subscription = signed(&json!({ "sub": "ann", "channel": "chat:a" }));
    assert_eq!(strict.verify_subscribe(&subscription, NOW).unwrap_err(), TokenError::NoExpiry);
    assert!(strict.verify_connect(&signed(&json!({ "sub": "ann", "exp": NOW + 1 })), NOW).is_ok());
    assert!(parsed(&[]).auth.require_exp, "by default it is required");
}

#[test]
fn clocks_may_differ_by_the_leeway() {
    let lenient = verifier(&[("HMAC_SECRET", SECRET), ("LEEWAY", "60s")]);
    let verify = |claims: Value| lenient.verify_connect(&signed(&claims), NOW).map(|claims| claims.expire_at);
    assert_eq!(verify(json!({ "exp": NOW + 1, "iat": NOW + 60, "nbf": NOW + 60 })), Ok(Some(NOW + 1)));
    assert_eq!(verify(json!({ "exp": NOW })), Ok(Some(NOW + 60)), "the connection ends with the leeway");
    assert_eq!(verify(json!({ "exp": NOW - 59 })), Ok(Some(NOW + 1)));
    for wrong in [json!({ "exp": NOW - 60 }), json!({ "nbf": NOW + 61 }), json!({ "iat": NOW + 61 })] {
        assert_eq!(verify(wrong.clone()), Err(TokenError::Expired), "{wrong}");
    }
    assert_eq!(parsed(&[]).auth.leeway, Duration::from_secs(60));
}

#[test]
fn previous_and_current_secrets_are_accepted() {
    const OLD: &str = "the secret of before, of the same length";
    let old =
        encode(&Header::new(Algorithm::HS256), &json!({ "sub": "ann" }), &EncodingKey::from_secret(OLD.as_bytes()));
    let old = old.unwrap();
    let both = verifier(&[("HMAC_SECRET", SECRET), ("HMAC_SECRET_PREVIOUS", OLD)]);
    for token in [&old, &signed(&json!({ "sub": "ann" }))] {
        assert!(both.verify_connect(token, NOW).is_ok());
    }
    assert!(matches!(hs256().verify_connect(&old, NOW), Err(TokenError::Invalid(_))));
}

#[test]
fn a_short_secret_must_be_allowed() {
    for key in ["HMAC_SECRET", "HMAC_SECRET_PREVIOUS"] {
        let error = try_config(&[(key, "thirty-one characters, not more")]).unwrap_err();
        assert!(error.starts_with(&format!("FEEDLINE__AUTH__{key}: expected 32 characters or more")), "{error}");
        assert!(try_config(&[(key, "short"), ("ALLOW_SHORT_SECRET", "true")]).is_ok());
    }
    let allowed = [("SESSION_KEY", "short"), ("ALLOW_SHORT_SECRET", "true")];
    assert!(try_config(&allowed).unwrap_err().contains("SESSION_KEY: expected 32 characters"));
    let same = [("HMAC_SECRET", SECRET), ("SESSION_KEY", SECRET)];
    assert!(try_config(&same).unwrap_err().contains("must differ"));
}

const SESSION_KEY: &str = "the key of sessions, which is long enough, too";

fn accounts() -> (Config, Secrets) {
    let env = [("HMAC_SECRET", SECRET), ("SESSION_KEY", SESSION_KEY), ("API_KEYS", "key"), ("TOKEN_TTL", "1h")];
    let env = env.into_iter().map(|(key, value)| (format!("FEEDLINE__AUTH__{key}"), value.to_owned()));
    let on = ("FEEDLINE__ACCOUNTS__ENABLED".to_owned(), "true".to_owned());
    let config = Config::parse("", env.chain([on])).unwrap();
    let secrets = Secrets::load(&config).unwrap();
    assert_eq!(secrets.file, None, "everything is configured");
    (config, secrets)
}

#[test]
fn session_and_application_tokens_are_distinguished_by_key() {
    let (config, secrets) = accounts();
    let verifier = Verifier::new(&config.auth, &secrets).unwrap();
    let issued = SessionIssuer::new(&config.auth, &secrets).unwrap().issue(&user("ann").unwrap(), 3, NOW).unwrap();
    let session = issued.token.reveal();
    let identity = verifier.verify_connect(session, NOW).unwrap().identity;
    let TokenIdentity { kind, id, issued_at, expires_at } = identity;
    assert_eq!(kind, TokenKind::Session { generation: 3 });
    assert_eq!((id.map(|id| id.len()), issued_at, expires_at), (Some(36), Some(NOW), Some(NOW + 3_600)));
    let exp = NOW + 60;
    let plain = verifier.verify_connect(&signed(&json!({ "sub": "ann", "exp": exp, "jti": "7", "iat": NOW })), NOW);
    let expected = TokenIdentity {
        kind: TokenKind::Application,
        id: Some("7".into()),
        issued_at: Some(NOW),
        expires_at: Some(exp),
    };
    assert_eq!(plain.unwrap().identity, expected);

    // Claims and headers of one token kind, signed with the key of the other.
    let claims = json!({ "sub": "ann", "iat": NOW, "exp": exp, "jti": "7", "token_use": "session", "feedline_gen": 3 });
    let named = |kid: &str| Header { kid: Some(kid.to_owned()), ..Header::new(Algorithm::HS256) };
    let sign = |header: &Header, claims: &Value, key: &str| {
        encode(header, claims, &EncodingKey::from_secret(key.as_bytes())).unwrap()
    };
    let kid = "feedline-session";
    assert!(
        verifier.verify_connect(&sign(&named(kid), &claims, SESSION_KEY), NOW).is_ok(),
        "the valid token that the others are derived from"
    );
    let forged = sign(&named("other"), &claims, SECRET);
    let kind = verifier.verify_connect(&forged, NOW).unwrap().identity.kind;
    assert_eq!(kind, TokenKind::Application, "the claims do not change the kind");
    let mut without = Vec::new();
    for claim in ["iat", "exp", "jti", "token_use", "sub"] {
        let mut claims = claims.clone();
        claims.as_object_mut().unwrap().remove(claim);
        without.push((claim, sign(&named(kid), &claims, SESSION_KEY)));
    }
    let channel = {
        let mut claims = claims.clone();
        claims["channel"] = "chat:a".into();
        sign(&named(kid), &claims, SESSION_KEY)
    };
    let bad = [
        ("the application's key by the name of the other", sign(&named(kid), &claims, SECRET)),
        ("the key of sessions without its name", sign(&Header::new(Algorithm::HS256), &claims, SESSION_KEY)),
        ("another algorithm", sign(&Header { alg: Algorithm::HS512, ..named(kid) }, &claims, SESSION_KEY)),
        ("a channel", channel),
    ];
    for (what, token) in bad.iter().chain(&without) {
        let refused = verifier.verify_connect(token, NOW);
        assert!(matches!(refused, Err(TokenError::Invalid(_))), "{what}: {refused:?}");
    }
    // Without accounts there are no sessions.
    assert!(matches!(hs256().verify_connect(session, NOW), Err(TokenError::Invalid(_))));
    // A shorter session lifetime also applies to open sessions.
    let mut shorter = config.auth;
    shorter.token_ttl = Duration::from_secs(60);
    shorter.leeway = Duration::ZERO;
    let shorter = Verifier::new(&shorter, &secrets).unwrap();
    assert_eq!(shorter.verify_connect(session, NOW + 59).unwrap().expire_at, Some(NOW + 60));
    assert_eq!(shorter.verify_connect(session, NOW + 60).unwrap_err(), TokenError::Expired);
}

fn parsed(env: &[(&str, &str)]) -> Config {
    let env = env.iter().map(|(key, value)| (format!("FEEDLINE__{key}"), (*value).to_owned()));
    Config::parse("", env).unwrap()
}

#[test]
fn accounts_are_disabled_with_an_application_key_unless_enabled() {
    assert!(parsed(&[]).accounts_enabled(), "a generated secret is not an application's key");
    let keys = [
        ("AUTH__HMAC_SECRET", SECRET),
        ("AUTH__HMAC_SECRET_PREVIOUS", SECRET),
        ("AUTH__RSA_PUBLIC_KEY", &keys().rsa_public),
        ("AUTH__ECDSA_PUBLIC_KEY", &keys().ec_public),
    ];
    for key in keys {
        assert!(!parsed(&[key]).accounts_enabled(), "{}", key.0);
        assert!(parsed(&[key, ("ACCOUNTS__ENABLED", "true")]).accounts_enabled(), "{}", key.0);
    }
    assert!(!parsed(&[("ACCOUNTS__ENABLED", "false")]).accounts_enabled());
}

#[test]
fn debug_output_hides_keys() {
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
    fn random_text_is_rejected_without_panic(text in "\\PC{0,200}", cut in 0_usize..200) {
        prop_assert!(hs256().verify_connect(&text, NOW).is_err());
        let good = signed(&json!({ "sub": "ann" }));
        let changed = format!("{}{text}", &good[..cut.min(good.len() - 1)]);
        prop_assert!(changed == good || hs256().verify_connect(&changed, NOW).is_err());
    }
}
