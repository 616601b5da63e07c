//! Which keys verify which tokens.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use feedline::auth::{Issuer, KeySet, TokenError, Verifier};
use feedline::config::Secrets;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::{NOW, SECRET, by_hand, config, es256, hs256, keys, make_key, rs256, signed, try_config, user, verifier};

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
fn keys_verify_all_algorithms_of_their_type() {
    let claims = json!({ "sub": "ann" });
    let sign = |algorithm, key: &EncodingKey| encode(&Header::new(algorithm), &claims, key).unwrap();
    let (secret, rsa) = (
        EncodingKey::from_secret(SECRET.as_bytes()),
        EncodingKey::from_rsa_pem(keys().rsa_private.as_bytes()).unwrap(),
    );
    for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
        assert!(hs256().verify_connect(&sign(algorithm, &secret), NOW).is_ok(), "{algorithm:?}");
    }
    let with_rsa = verifier(&[("RSA_PUBLIC_KEY", &keys().rsa_public)]);
    for algorithm in [Algorithm::RS256, Algorithm::RS384, Algorithm::RS512] {
        assert!(with_rsa.verify_connect(&sign(algorithm, &rsa), NOW).is_ok(), "{algorithm:?}");
    }
    assert!(with_rsa.verify_connect(&sign(Algorithm::PS256, &rsa), NOW).is_err(), "PSS is not accepted");
    let dir = tempfile::tempdir().unwrap();
    let (private, public) = make_key(dir.path(), "EC", "ec_paramgen_curve:P-384");
    let token = sign(Algorithm::ES384, &EncodingKey::from_ec_pem(private.as_bytes()).unwrap());
    let with_p384 = verifier(&[("ECDSA_PUBLIC_KEY", &public)]);
    assert!(with_p384.verify_connect(&token, NOW).is_ok());
    assert!(with_p384.verify_connect(&es256(&claims), NOW).is_err(), "of another curve");
    assert!(verifier(&[("ECDSA_PUBLIC_KEY", &keys().ec_public)]).verify_connect(&token, NOW).is_err());
}

#[test]
fn es512_is_verified_with_a_key_on_p521() {
    let rng = aws_lc_rs::rand::SystemRandom::new();
    let algorithm = &aws_lc_rs::signature::ECDSA_P521_SHA512_FIXED_SIGNING;
    let dir = tempfile::tempdir().unwrap();
    let (private, public) = make_key(dir.path(), "EC", "ec_paramgen_curve:P-521");
    let der = STANDARD.decode(private.lines().filter(|line| !line.starts_with('-')).collect::<String>()).unwrap();
    let pair = aws_lc_rs::signature::EcdsaKeyPair::from_pkcs8(algorithm, &der).unwrap();
    let part = |json: &Value| URL_SAFE_NO_PAD.encode(json.to_string());
    let sign = |claims: &Value| {
        let message = format!("{}.{}", part(&json!({ "alg": "ES512", "typ": "JWT" })), part(claims));
        let signature = URL_SAFE_NO_PAD.encode(pair.sign(&rng, message.as_bytes()).unwrap());
        format!("{message}.{signature}")
    };
    let verifier = verifier(&[("ECDSA_PUBLIC_KEY", &public)]);
    let good = sign(&json!({ "sub": "ann" }));
    assert_eq!(verifier.verify_connect(&good, NOW).unwrap().user, user("ann"));
    let (head, signature) = good.rsplit_once('.').unwrap();
    let other = head.split_once('.').unwrap().0.to_owned() + "." + &part(&json!({ "sub": "bo" }));
    for wrong in
        [format!("{other}.{signature}"), format!("{head}."), format!("{head}.{}", &signature[4..]), sign(&json!(1))]
    {
        assert!(matches!(verifier.verify_connect(&wrong, NOW), Err(TokenError::Invalid(_))), "{wrong}");
    }
}

/// A set with one key, and a token that its private half signs.
fn ed25519(kid: &str) -> (KeySet, impl Fn(&Value) -> String + use<>) {
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&aws_lc_rs::rand::SystemRandom::new()).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
    let x = URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
    let document = json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x }] });
    let header = Header { kid: Some(kid.to_owned()), ..Header::new(Algorithm::EdDSA) };
    let set = KeySet::parse(document.to_string().as_bytes()).unwrap();
    let key = EncodingKey::from_ed_der(pkcs8.as_ref());
    (set, move |claims: &Value| encode(&header, claims, &key).unwrap())
}

#[test]
fn keys_of_one_issuer_do_not_verify_tokens_of_another() {
    let issuers = r#"[
        {"issuer":"b","jwks_url":"https://b.example/"},
        {"issuer":"c","jwks_url":"https://c.example/","audience":"feed"}
    ]"#;
    let verifier = verifier(&[("HMAC_SECRET", SECRET), ("JWKS_URL", "https://a.example/"), ("ISSUERS", issuers)]);
    let [a, b, c] = verifier.remote_keys().collect::<Vec<_>>().try_into().unwrap();
    let (of_a, sign_a) = ed25519("1");
    let (of_b, sign_b) = ed25519("1");
    let (of_c, sign_c) = ed25519("3");
    let token_of_b = sign_b(&json!({ "sub": "ann", "iss": "b" }));
    assert!(verifier.missing_key(&token_of_b).is_some(), "nothing is fetched");
    assert!(verifier.verify_connect(&token_of_b, NOW).is_err());
    for (keys, set) in [(a, of_a), (b, of_b), (c, of_c)] {
        keys.begin_fetch();
        keys.end_fetch(Some(set));
    }
    assert!(verifier.missing_key(&token_of_b).is_none());
    let taken = |token: &str| verifier.verify_connect(token, NOW).is_ok();
    assert!(taken(&token_of_b));
    assert!(taken(&sign_a(&json!({ "sub": "ann" }))) && taken(&sign_a(&json!({ "sub": "ann", "iss": "any" }))));
    assert!(!taken(&sign_a(&json!({ "sub": "ann", "iss": "b" }))), "the first issuer has any name but those of others");
    assert!(!taken(&signed(&json!({ "sub": "ann", "iss": "b" }))), "nor the secret");
    assert!(!taken(&sign_b(&json!({ "sub": "ann", "iss": "c" }))) && !taken(&sign_b(&json!({ "sub": "ann" }))));
    assert!(taken(&sign_c(&json!({ "sub": "ann", "iss": "c", "aud": "feed" }))));
    assert!(!taken(&sign_c(&json!({ "sub": "ann", "iss": "c" }))), "another audience");
    // A token asks only for keys of its own issuer, and tokens of secrets ask for none.
    let (_, unknown) = ed25519("new");
    assert!(verifier.missing_key(&unknown(&json!({ "sub": "ann", "iss": "b" }))).is_some());
    assert!(verifier.missing_key(&signed(&json!({ "sub": "ann" }))).is_none());
    assert!(hs256().missing_key(&unknown(&json!({ "sub": "ann" }))).is_none(), "no address is configured");
    for garbage in ["", "a.b.c", "..", &"x".repeat(9_000)] {
        assert!(verifier.missing_key(garbage).is_none());
    }
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
        ("HS512 with another secret", with_secret(Algorithm::HS512, b"another secret")),
        ("PS256", by_hand(&json!({ "alg": "PS256" }), &claims, signature)),
        ("ES512 without a key", by_hand(&json!({ "alg": "ES512" }), &claims, signature)),
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
fn subscription_tokens_may_have_keys_of_their_own() {
    const OTHER: &str = "a secret for subscriptions, also long enough";
    let by_secret = |secret: &str, claims: &Value| {
        encode(&Header::new(Algorithm::HS256), claims, &EncodingKey::from_secret(secret.as_bytes())).unwrap()
    };
    let (connect, subscribe) = (json!({ "sub": "ann" }), json!({ "sub": "ann", "channel": "chat:a" }));
    let both = verifier(&[("HMAC_SECRET", SECRET), ("SUBSCRIPTION_HMAC_SECRET", OTHER)]);
    assert!(both.verify_connect(&by_secret(SECRET, &connect), NOW).is_ok());
    assert!(both.verify_subscribe(&by_secret(OTHER, &subscribe), NOW).is_ok());
    assert!(matches!(both.verify_connect(&by_secret(OTHER, &connect), NOW), Err(TokenError::Invalid(_))));
    assert!(matches!(both.verify_subscribe(&by_secret(SECRET, &subscribe), NOW), Err(TokenError::Invalid(_))));
    // Public keys: the algorithms of `auth.hmac_secret` are refused as well.
    for (key, pem, sign) in [
        ("SUBSCRIPTION_RSA_PUBLIC_KEY", &keys().rsa_public, rs256 as fn(&Value) -> String),
        ("SUBSCRIPTION_ECDSA_PUBLIC_KEY", &keys().ec_public, es256),
    ] {
        let verifier = verifier(&[("HMAC_SECRET", SECRET), (key, pem)]);
        assert!(verifier.verify_subscribe(&sign(&subscribe), NOW).is_ok(), "{key}");
        assert!(verifier.verify_connect(&sign(&connect), NOW).is_err(), "{key}");
        assert!(verifier.verify_subscribe(&signed(&subscribe), NOW).is_err(), "{key}");
    }
    // The audience and the issuer are those of all tokens.
    let strict = verifier(&[("HMAC_SECRET", SECRET), ("SUBSCRIPTION_HMAC_SECRET", OTHER), ("AUDIENCE", "app")]);
    assert!(strict.verify_subscribe(&by_secret(OTHER, &subscribe), NOW).is_err());
    let named = json!({ "sub": "ann", "channel": "chat:a", "aud": "app" });
    assert!(strict.verify_subscribe(&by_secret(OTHER, &named), NOW).is_ok());
    let session_key = try_config(&[("SUBSCRIPTION_HMAC_SECRET", OTHER), ("SESSION_KEY", OTHER)]).unwrap_err();
    assert!(session_key.contains("SESSION_KEY: must differ"), "{session_key}");
}

#[test]
fn a_short_secret_must_be_allowed() {
    for key in ["HMAC_SECRET", "HMAC_SECRET_PREVIOUS", "SUBSCRIPTION_HMAC_SECRET"] {
        let error = try_config(&[(key, "thirty-one characters, not more")]).unwrap_err();
        assert!(error.starts_with(&format!("FEEDLINE__AUTH__{key}: expected 32 characters or more")), "{error}");
        assert!(try_config(&[(key, "short"), ("ALLOW_SHORT_SECRET", "true")]).is_ok());
    }
    let allowed = [("SESSION_KEY", "short"), ("ALLOW_SHORT_SECRET", "true")];
    assert!(try_config(&allowed).unwrap_err().contains("SESSION_KEY: expected 32 characters"));
    let same = [("HMAC_SECRET", SECRET), ("SESSION_KEY", SECRET)];
    assert!(try_config(&same).unwrap_err().contains("must differ"));
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
