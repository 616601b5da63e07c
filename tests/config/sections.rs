//! Rules of single sections.

use std::time::Duration;

use feedline::config::{NamespaceAccess, RecoveryMode};
use serde_json::json;

use crate::{parse, parse_env, wrong, wrong_env};

#[test]
fn webhooks_of_the_outlet_are_tables() {
    let secret = "a-secret-of-thirty-two-characters";
    let text = format!(
        "[outlet]\nconsumers = [\"app\"]\n[[outlet.webhooks]]\nname = \"one\"\nurl = \"https://a.example/x\"\n\
         secrets = [\"{secret}\"]\n[[outlet.webhooks]]\nname = \"two\"\nurl = \"https://b.example/x\"\n\
         secrets = [\"{secret}\", \"{secret}2\"]\ntypes = [\"post.created\"]\n"
    );
    let outlet = parse(&text).unwrap().outlet;
    assert!(outlet.is_enabled() && !parse("").unwrap().outlet.is_enabled());
    let [one, two] = &outlet.webhooks[..] else { panic!("{outlet:?}") };
    assert_eq!((&*one.name, &*one.url, one.secrets.len(), one.types.len()), ("one", "https://a.example/x", 1, 0));
    assert_eq!((&*two.name, two.secrets.len(), &*two.types), ("two", 2, &["post.created".to_owned()][..]));
    assert!(!format!("{outlet:?}").contains(secret));
    for (wrong_part, right_part, problem) in [
        ("name = \"two\"", "name = \"one\"", "webhook 1: there is another webhook \"one\""),
        ("name = \"two\"", "name = \"Two\"", "webhook 1: name: expected names"),
        ("url = \"https://b.example/x\"\n", "", "webhook 1: url is missing"),
        ("\"post.created\"", "\"post.create\"", "did you mean \"post.created\"?"),
        ("types = ", "type = ", "did you mean types?"),
        (secret, "short", "webhook 0: secrets: expected at least one secret of 32 characters"),
        ("[\"app\"]", "[\"app\", \"app\"]", "there is another consumer \"app\""),
    ] {
        let error = wrong(&text.replacen(wrong_part, right_part, 1));
        assert!(error.contains(problem), "{error} has no {problem:?}");
    }
    let error = wrong("[outlet]\nretention = \"1d\"\n");
    assert!(error.starts_with("config.toml:2:1: outlet.retention: must be longer than outlet.give_up"), "{error}");
}

#[test]
fn cookies_are_not_passed_on_for_pages_of_every_origin() {
    for (origins, headers, is_allowed) in [
        ("[\"*\"]", "[\"cookie\"]", false),
        ("[\"https://app.example.org\", \"*\"]", "[\"x-app\", \"Cookie\"]", false),
        ("[\"*\"]", "[\"x-app\"]", true),
        ("[\"https://app.example.org\"]", "[\"cookie\"]", true),
        // Of HTTP authentication, which browsers add by themselves, too.
        ("[\"*\"]", "[\"Authorization\"]", false),
        ("[\"https://app.example.org\"]", "[\"authorization\"]", true),
    ] {
        let text = format!("[server]\norigins = {origins}\n[hooks]\nheaders = {headers}\n");
        match is_allowed {
            true => assert!(parse(&text).is_ok(), "{text}"),
            false => assert!(wrong(&text).contains("hooks.headers: with \""), "{}", wrong(&text)),
        }
    }
}

#[test]
fn namespaces_come_from_the_environment_too() {
    let json = r#"[{"name":"chat","publish":"anyone"},{"name":"news","history_size":10,"history_ttl":"1h"}]"#;
    let namespaces = parse_env(&[("FEEDLINE__NAMESPACES", json)]).unwrap().namespaces;
    assert_eq!(namespaces.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["chat", "news"]);
    assert_eq!((namespaces[0].publish, namespaces[0].subscribe), (NamespaceAccess::Anyone, NamespaceAccess::Anyone));
    assert_eq!((namespaces[0].history_size, namespaces[1].history_size), (0, 10));
    assert_eq!((namespaces[1].publish, namespaces[1].presence), (NamespaceAccess::Nobody, false));
    assert_eq!(
        (namespaces[0].history, namespaces[1].history),
        (NamespaceAccess::Subscriber, NamespaceAccess::Subscriber)
    );
    let json = r#"[{"name":"","subscribe":"user","publish":"user","history":"anyone"}]"#;
    let namespaces = parse_env(&[("FEEDLINE__NAMESPACES", json)]).unwrap().namespaces;
    let none = &namespaces[0];
    assert_eq!(
        (none.subscribe, none.publish, none.history),
        (NamespaceAccess::User, NamespaceAccess::User, NamespaceAccess::Anyone)
    );
    let json =
        r#"[{"name":"cached","history_size":1,"history_ttl":"1h","force_recovery":false,"recovery_mode":"cache"}]"#;
    let cached = &parse_env(&[("FEEDLINE__NAMESPACES", json)]).unwrap().namespaces[0];
    assert_eq!((cached.force_recovery, cached.recovery_mode), (false, RecoveryMode::Cache));
    assert!(none.force_recovery, "the default");
    let wrong = wrong_env(&[("FEEDLINE__NAMESPACES", r#"[{"name":"x","recovery_mode":"log"}]"#)]);
    assert!(wrong.contains("recovery_mode"), "{wrong}");
    let twice = wrong_env(&[("FEEDLINE__NAMESPACES", r#"[{"name":""},{"name":""}]"#)]);
    assert!(twice.contains("there is another namespace \"\""), "{twice}");
}

#[test]
fn a_namespace_may_limit_the_names_of_its_channels() {
    let of = |regex: &str| json!([{ "name": "chat", "channel_regex": regex }]).to_string();
    let namespaces = |regex: &str| parse_env(&[("FEEDLINE__NAMESPACES", &of(regex))]).map(|config| config.namespaces);
    let limited = &namespaces("^[a-z]+$").unwrap()[0];
    let regex = limited.channel_regex.as_ref().unwrap();
    assert!(regex.matches("lobby") && !regex.matches("lobby1") && !regex.matches(""));
    assert!(namespaces("[a-z]").unwrap()[0].channel_regex.as_ref().unwrap().matches("1a1"), "a part of the name");
    assert_eq!(namespaces("").unwrap()[0].channel_regex, None);
    let error = wrong_env(&[("FEEDLINE__NAMESPACES", &of("(a"))]);
    assert!(error.contains("namespaces[0].channel_regex: is not a regular expression: unclosed group"), "{error}");
}

#[test]
fn a_single_connection_needs_the_personal_channel() {
    let error = wrong("[client]\nsingle_connection = true\n");
    let expected = "config.toml:2:1: client.single_connection: needs client.user_personal_channel = true";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn the_claim_of_the_user_has_no_other_meaning() {
    assert_eq!(parse("").unwrap().auth.user_id_claim, "sub");
    let claim = |name: &str| parse_env(&[("FEEDLINE__AUTH__USER_ID_CLAIM", name)]);
    assert_eq!(claim("https://id.example/user").unwrap().auth.user_id_claim, "https://id.example/user");
    for (name, reason) in
        [("exp", "has another meaning"), ("channel", "has another meaning"), ("", "must not be empty")]
    {
        let error = claim(name).unwrap_err().to_string();
        assert!(error.contains(reason), "{name}: {error}");
    }
}

#[test]
fn texts_of_pushes_are_tables() {
    let config =
        parse("[push]\nttl = \"2h\"\n[push.texts.de.like]\ntitle = \"{name} mag das\"\nbody = \"\"\n").unwrap();
    assert_eq!(config.push.texts["de"]["like"]["title"], "{name} mag das");
    let json = r#"{"de":{"like":{"title":"{name} mag das","body":""}}}"#;
    assert_eq!(parse_env(&[("FEEDLINE__PUSH__TEXTS", json)]).unwrap().push.texts, config.push.texts);
    let error = wrong("[push]\ntexts = { de = { like = 7 } }\n");
    assert!(
        error.ends_with("push.texts: texts.de.like is a whole number, not a table: write [push.texts.en.like]"),
        "{error}"
    );
    let error = wrong("[push]\ntexts = { de = { like = { title = 7 } } }\n");
    assert!(error.contains("push.texts: texts.de.like.title is a whole number, not text"), "{error}");
}

#[test]
fn issuers_have_keys_of_their_own_over_protected_connections() {
    let text = "[auth]\nissuer = [\"a\", \"b\"]\n[[auth.issuers]]\nissuer = \"c\"\njwks_url = \"http://127.0.0.1/\"\n";
    let auth = parse(text).unwrap().auth;
    assert_eq!((auth.issuer.as_slice(), auth.issuers.len()), (&["a".to_owned(), "b".to_owned()][..], 1));
    assert!(auth.has_token_key());
    for (env, part) in [
        (vec![("FEEDLINE__AUTH__JWKS_URL", "http://id.example/")], "expected https, or a loopback address"),
        (vec![("FEEDLINE__AUTH__ISSUERS", r#"[{"issuer":"a","jwks_url":"http://x/"}]"#)], "expected https"),
        (vec![("FEEDLINE__AUTH__ISSUERS", r#"[{"issuer":"a"}]"#)], "issuers[0].jwks_url: is missing"),
        (
            vec![("FEEDLINE__AUTH__ISSUERS", r#"[{"issuer":"a","jwks_url":"https://x/","audienc":"y"}]"#)],
            "did you mean",
        ),
        (
            vec![
                ("FEEDLINE__AUTH__ISSUERS", r#"[{"issuer":"a","jwks_url":"https://x/"}]"#),
                ("FEEDLINE__AUTH__ISSUER", "a"),
            ],
            "is an issuer of auth.issuer, too",
        ),
    ] {
        let error = wrong_env(&env);
        assert!(error.contains(part), "{error}");
    }
    let http = [("FEEDLINE__AUTH__JWKS_URL", "http://id.example/"), ("FEEDLINE__AUTH__JWKS_ALLOW_HTTP", "true")];
    assert!(parse_env(&http).is_ok());
}

#[test]
fn an_insecure_server_listens_on_loopback_only() {
    for (listen, allowed) in
        [("127.0.0.1:8000", true), ("[::1]:8000", true), ("0.0.0.0:8000", false), ("10.0.0.1:8000", false)]
    {
        let parsed = parse_env(&[("FEEDLINE__SERVER__LISTEN", listen), ("FEEDLINE__CLIENT__INSECURE", "true")]);
        assert_eq!(parsed.is_ok(), allowed, "{listen}: {parsed:?}");
    }
}

#[test]
fn notifications_are_kept_for_ever_without_a_retention() {
    let retention =
        |text: &str| parse(&format!("[notifications]\nretention = \"{text}\"\n")).map(|it| it.notifications.retention);
    assert_eq!(retention("0s"), Ok(None));
    assert_eq!(retention("1s"), Ok(Some(Duration::from_secs(1))));
    assert_eq!(parse("").unwrap().notifications.retention, Some(Duration::from_secs(90 * 24 * 3_600)));
    for text in ["10ms", "3651d", "soon"] {
        let error = retention(text).unwrap_err();
        assert!(error.starts_with("config.toml:2:1: notifications.retention: expected a duration"), "{error}");
    }
}

#[test]
fn the_collector_of_traces_has_an_address_and_credentials_in_headers() {
    let collector = |url: &str| {
        let telemetry = parse(&format!("[telemetry]\notlp_url = \"{url}\"\n")).unwrap().telemetry;
        telemetry.otlp_url.map(String::from)
    };
    for (url, expected) in [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("https://otlp.example/tenant/", "https://otlp.example/tenant/v1/traces"),
        ("https://otlp.example/v1/traces", "https://otlp.example/v1/traces"),
    ] {
        assert_eq!(collector(url).as_deref(), Some(expected));
    }
    assert_eq!(collector(""), None);
    let headers = parse_env(&[("FEEDLINE__TELEMETRY__HEADERS", "authorization: Bearer hunter2,x-tenant:one")]).unwrap();
    let headers = headers.telemetry.headers;
    assert_eq!(
        (&headers["authorization"], &headers["x-tenant"]),
        (&"Bearer hunter2".parse().unwrap(), &"one".parse().unwrap())
    );
    assert!(!format!("{headers:?}").contains("hunter2"));
    for (key, value, problem) in [
        ("otlp_url", "\"grpc://collector:4317\"", "expected an address such as http://collector:4318"),
        ("otlp_url", "\"http://ann:hunter2@collector\"", "telemetry.headers has the credentials"),
        ("sample", "1.5", "expected a number from 0 to 1, such as 0.01, not 1.5"),
        ("sample", "nan", "expected a number from 0 to 1"),
        ("sample", "\"all\"", "expected a number from 0 to 1, such as 0.01, not text"),
        ("headers", "[\"hunter2\"]", "expected headers such as"),
        ("headers", "[\"host: hunter2\"]", "the header host cannot be set"),
    ] {
        let error = wrong(&format!("[telemetry]\n{key} = {value}\n"));
        assert!(error.starts_with(&format!("config.toml:2:1: telemetry.{key}: ")), "{error}");
        assert!(error.contains(problem) && !error.contains("hunter2"), "{error}");
    }
    for sample in ["0", "1", "0.25"] {
        assert_eq!(
            parse(&format!("[telemetry]\nsample = {sample}\n")).unwrap().telemetry.sample,
            sample.parse::<f64>().unwrap()
        );
    }
}
