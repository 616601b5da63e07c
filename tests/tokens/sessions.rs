//! Sessions of accounts, and the tokens that the server issues.

use std::time::Duration;

use feedline::auth::{Issuer, SessionIssuer, TokenError, TokenIdentity, TokenKind, Verifier};
use feedline::config::{Config, Secrets};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::{NOW, SECRET, config, hs256, keys, parsed, signed, user};

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
