//! What claims mean, and when a token is valid.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use feedline::auth::{Issuer, SubscribeClaims, TokenError, Verifier};
use feedline::config::Secrets;
use feedline::model::{OverrideValue, SubscribeOverride};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{NOW, SECRET, config, hs256, parsed, signed, signed_text, user, verifier};

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
fn claims_replace_options_of_a_subscription() {
    let replaced = json!({ "presence": { "value": true }, "force_recovery": { "value": false } });
    let expected = SubscribeOverride {
        presence: Some(OverrideValue { value: true }),
        force_recovery: Some(OverrideValue { value: false }),
        ..SubscribeOverride::default()
    };
    let token = signed(&json!({
        "sub": "ann", "meta": { "plan": "pro" },
        "subs": { "chat:a": { "override": replaced }, "chat:b": { "override": null } },
    }));
    let claims = hs256().verify_connect(&token, NOW).unwrap();
    assert_eq!(claims.subs["chat:a"].replaced, expected);
    assert_eq!(claims.subs["chat:b"].replaced, SubscribeOverride::default());
    assert_eq!(claims.meta.unwrap().get(), r#"{"plan":"pro"}"#);
    let token = signed(&json!({ "sub": "ann", "channel": "chat:a", "override": replaced }));
    assert_eq!(hs256().verify_subscribe(&token, NOW).unwrap().options.replaced, expected);
    let wrong = signed(&json!({ "sub": "ann", "channel": "chat:a", "override": 1 }));
    assert!(matches!(hs256().verify_subscribe(&wrong, NOW), Err(TokenError::Invalid(_))));
}

#[test]
fn claims_that_are_null_are_absent_except_the_user() {
    for claim in [
        "jti",
        "iat",
        "exp",
        "nbf",
        "aud",
        "iss",
        "expire_at",
        "channel",
        "client",
        "channels",
        "subs",
        "info",
        "b64info",
        "data",
        "b64data",
        "override",
        "meta",
        "token_use",
        "feedline_gen",
        "unknown",
    ] {
        let mut claims = json!({ "sub": "ann" });
        claims[claim] = Value::Null;
        assert_eq!(hs256().verify_connect(&signed(&claims), NOW).unwrap().user, user("ann"), "{claim}");
    }
    let nested = json!({ "sub": "ann", "subs": { "chat:a": { "info": { "a": null }, "b64info": null }, "sub": null } });
    let subs = hs256().verify_connect(&signed(&nested), NOW).unwrap().subs;
    assert_eq!((subs.len(), subs["chat:a"].info.as_ref().unwrap().get()), (1, r#"{"a":null}"#));
    for nobody in [json!({ "sub": null }), json!({ "sub": null, "channel": "chat:a" })] {
        assert!(matches!(hs256().verify_connect(&signed(&nobody), NOW), Err(TokenError::Invalid(_))));
        assert!(matches!(hs256().verify_subscribe(&signed(&nobody), NOW), Err(TokenError::Invalid(_))));
    }
}

/// Line breaks between the tokens of JSON would end the message in which clients receive it.
#[test]
fn claims_for_clients_are_on_one_line() {
    let spaced = "{\r\n \"a\":\n[1,\n2]}";
    let claims = format!(
        r#"{{"sub":"ann","channel":"chat:a","info":{spaced},"data":{spaced},"meta":{spaced},
            "subs":{{"chat:a":{{"info":{spaced},"data":{spaced}}}}}}}"#
    );
    let one_line = r#"{ "a":[1,2]}"#;
    let options = verify(&claims).unwrap().options;
    assert_eq!((options.info.unwrap().get(), options.data.unwrap().get()), (one_line, one_line));
    let connect = hs256().verify_connect(&signed_text(&claims.replace("channel", "other")), NOW).unwrap();
    assert_eq!(connect.info.unwrap().get(), one_line);
    let sub = &connect.subs["chat:a"];
    assert_eq!((sub.info.as_ref().unwrap().get(), sub.data.as_ref().unwrap().get()), (one_line, one_line));
    let encoded = STANDARD.encode(spaced);
    let claims = json!({ "sub": "ann", "channel": "chat:a", "b64info": encoded, "b64data": encoded });
    let options = verify(&claims.to_string()).unwrap().options;
    assert_eq!((options.info.unwrap().get(), options.data.unwrap().get()), (one_line, one_line));
    // JSON that some clients cannot decode.
    for wrong in [r#"{"a":1e999}"#.to_owned(), r#""\ud800""#.to_owned(), "[".repeat(101) + &"]".repeat(101)] {
        let claims = format!(r#"{{"sub":"ann","channel":"chat:a","info":{wrong}}}"#);
        assert!(matches!(verify(&claims), Err(TokenError::Invalid(_))), "{wrong}");
        let claims = json!({ "sub": "ann", "channel": "chat:a", "b64data": STANDARD.encode(wrong) });
        assert!(matches!(verify(&claims.to_string()), Err(TokenError::Invalid(_))), "{claims}");
    }
}

fn verify(claims: &str) -> Result<SubscribeClaims, TokenError> {
    hs256().verify_subscribe(&signed_text(claims), NOW)
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
fn the_user_may_be_in_another_claim() {
    let by_claim = verifier(&[("HMAC_SECRET", SECRET), ("USER_ID_CLAIM", "https://id.example/user")]);
    let claims = json!({ "sub": "auth0|7", "https://id.example/user": "ann" });
    assert_eq!(by_claim.verify_connect(&signed(&claims), NOW).unwrap().user, user("ann"));
    let claims = json!({ "sub": "bo", "https://id.example/user": "ann", "channel": "chat:a" });
    assert_eq!(by_claim.verify_subscribe(&signed(&claims), NOW).unwrap().user, user("ann"));
    // As without `sub`, a client is anonymous without the claim, whatever `sub` is.
    assert_eq!(by_claim.verify_connect(&signed(&json!({ "sub": "bo" })), NOW).unwrap().user, None);
    for wrong in [json!(7), json!(null), json!(["ann"]), json!("no user id")] {
        let claims = json!({ "sub": "ann", "https://id.example/user": wrong });
        assert!(matches!(by_claim.verify_connect(&signed(&claims), NOW), Err(TokenError::Invalid(_))), "{claims}");
    }
    // `feedline token` writes the same claim.
    let config = config(&[("HMAC_SECRET", SECRET), ("USER_ID_CLAIM", "uid")]);
    let secrets = Secrets::load(&config).unwrap();
    let issued = Issuer::new(&config.auth, &secrets).unwrap().issue(&user("ann").unwrap(), NOW).unwrap();
    let verifier = Verifier::new(&config.auth, &secrets).unwrap();
    assert_eq!(verifier.verify_connect(issued.token.reveal(), NOW).unwrap().user, user("ann"));
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
