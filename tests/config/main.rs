//! The configuration: every documented key exists, and every error names its place.

mod keys;
mod meaningless;
mod sections;

use std::path::PathBuf;
use std::time::Duration;

use feedline::config::{AllowedOrigins, BrokerUrl, Config, Durability, LedgerUrl, LogFormat};

pub(crate) const DEFAULTS: &str = include_str!("../../config.toml");

pub(crate) fn variable(key: &str) -> String {
    format!("FEEDLINE__{}", key.replace('.', "__").to_uppercase())
}

pub(crate) fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, std::iter::empty()).map_err(|error| error.to_string())
}

pub(crate) fn parse_env(env: &[(&str, &str)]) -> Result<Config, String> {
    let env = env.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    Config::parse("", env).map_err(|error| error.to_string())
}

pub(crate) fn wrong(text: &str) -> String {
    parse(text).map(|config| panic!("{text:?} passed: {config:?}")).unwrap_or_else(|error| error)
}

pub(crate) fn wrong_env(env: &[(&str, &str)]) -> String {
    parse_env(env).map(|config| panic!("{env:?} passed: {config:?}")).unwrap_or_else(|error| error)
}

#[test]
fn the_later_layer_wins_and_leaves_the_rest() {
    let text = "[timeline]\nlength = 5\nidle_days = 6\n";
    let env = [("FEEDLINE__TIMELINE__LENGTH", "7"), ("PATH", "/bin"), ("FEEDLINE_LOG", "x")];
    let env = env.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let timeline = Config::parse(text, env.into_iter()).unwrap().timeline;
    assert_eq!((timeline.length, timeline.idle_days, timeline.follow_merge), (7, 6, 200));
}

#[test]
fn values_are_parsed_with_their_units() {
    let config = parse("").unwrap();
    assert_eq!(config.server.listen[0].to_string(), "127.0.0.1:8000");
    assert_eq!((config.server.connections, config.server.connections_per_address), (None, Some(4096)));
    assert!(config.server.trusted_proxies.is_empty() && !config.server.proxy_protocol);
    assert_eq!((config.server.admin_listen, config.client.connections_per_user), (None, None));
    assert_eq!(config.server.origins, AllowedOrigins::Listed(vec![]));
    assert_eq!(config.server.log_format, LogFormat::Text);
    assert_eq!(config.client.ping_interval, Duration::from_secs(25));
    assert_eq!(config.client.commands_per_second, Some(200));
    assert_eq!(config.broker.url, BrokerUrl::Memory);
    assert_eq!(config.ledger.durability, Durability::Full);
    assert_eq!(config.ledger.url, LedgerUrl::Sqlite("data/feedline.db".into()));
    assert_eq!((config.timeline.length, config.timeline.idle_days, config.fanout.push_limit), (1000, 14, 10_000));
    assert!(config.namespaces.is_empty() && config.accounts_enabled() && config.auth.hmac_secret.is_none());

    let elsewhere = parse_env(&[("FEEDLINE__SERVER__DATA_DIR", "/var/lib/feedline")]).unwrap();
    assert_eq!(elsewhere.ledger.url, LedgerUrl::Sqlite(PathBuf::from("/var/lib/feedline/feedline.db")));
    let any = parse("server.origins = [\"https://a.example\", \"*\"]").unwrap();
    assert_eq!(any.server.origins, AllowedOrigins::Any);
    let keys = parse_env(&[("FEEDLINE__AUTH__API_KEYS", "one, two")]).unwrap().auth.api_keys;
    assert_eq!(keys.iter().map(|key| key.reveal()).collect::<Vec<_>>(), ["one", "two"]);
    assert!(parse_env(&[("FEEDLINE__AUTH__API_KEYS", "")]).unwrap().auth.api_keys.is_empty());
}

#[test]
fn errors_name_file_line_and_key() {
    let errors = [
        "[server]\nlisten = \"localhost\"",
        "[server]\n  lisen = \"127.0.0.1:1\"",
        "[sever]\nlisten = \"127.0.0.1:1\"",
        "listen = \"127.0.0.1:1\"",
        "server = 3",
        "[client]\nmessage_bytes = -1",
        "[client]\nmessage_bytes = 99999999999999999999999",
        "[client]\nmessage_bytes = \"1024\"",
        "[client]\nping_interval = 25",
        "[client]\nping_interval = \"1500ms\"\npong_timeout = \"1s\"",
        "[client]\nping_interval = \"5s\"",
        "[broker]\nurl = \"redis://user:hunter2@\"",
        "[broker]\nurl = \"http://localhost\"",
        "[ledger]\nurl = \"mysql://localhost\"",
        "[ledger]\nurl = \"postgres://localhost\"",
        "[ledger]\nconnections = 0",
        "[ledger]\ndurability = \"some\"",
        "[accounts]\nenabled = 1",
        "[auth]\nrsa_public_key = \"no/such/file.pem\"",
        "[auth]\napi_keys = \"one\"",
        "[server]\norigins = [\"app.example\"]",
        "[server]\nlisten = \n",
        "[server]\ndrain = \"1s\"\ndrain = \"2s\"",
        "# é\n[timeline]\nlength = 0\nidle_days = 0",
        "[[namespaces]]\nname = \"chat\"\n[[namespaces]]\nname = \"chat\"",
        "[[namespaces]]\nname = \"topic\"",
        "[[namespaces]]\nname = \"Chat\"",
        "[[namespaces]]\npresence = true",
        "[[namespaces]]\nname = \"chat\"\nsubscribe = \"subscriber\"",
        "[[namespaces]]\nname = \"chat\"\npublish = \"everyone\"",
        "[[namespaces]]\nname = \"chat\"\nhistory_size = 5",
        "[[namespaces]]\nname = \"chat\"\nhistory_ttl = \"5m\"",
        "[[namespaces]]\nname = \"chat\"\npublis = \"anyone\"",
        "[namespaces]\nname = \"chat\"",
    ];
    let said: Vec<String> = errors.iter().map(|text| format!("{text}\n→ {}\n", wrong(text))).collect();
    insta::assert_snapshot!("errors_of_files", said.join("\n"));

    let errors: &[(&str, &str)] = &[
        ("FEEDLINE__SERVER__LISEN", "127.0.0.1:1"),
        ("FEEDLINE__SERVER__listen", "127.0.0.1:1"),
        ("FEEDLINE__SERVER", "127.0.0.1:1"),
        ("FEEDLINE__CLIENT__CHANNELS", "many"),
        ("FEEDLINE__CLIENT__CHANNELS", ""),
        ("FEEDLINE__AUTH__API_KEYS", "one,,two"),
        ("FEEDLINE__NAMESPACES", "chat"),
        ("FEEDLINE__NAMESPACES", "[3]"),
        ("FEEDLINE__NAMESPACES", r#"[{"name":"chat"},{"name":"news","history_siz":3}]"#),
        ("FEEDLINE__NAMESPACES", r#"[{"name":"chat","presence":null}]"#),
    ];
    let said: Vec<String> = errors.iter().map(|error| format!("{error:?}\n→ {}\n", wrong_env(&[*error]))).collect();
    insta::assert_snapshot!("errors_of_the_environment", said.join("\n"));
}

#[test]
fn secrets_are_not_shown() {
    let config = parse_env(&[
        ("FEEDLINE__AUTH__HMAC_SECRET", "hunter2-secret-of-32-characters-or-more"),
        ("FEEDLINE__AUTH__API_KEYS", "hunter2-key"),
        ("FEEDLINE__BROKER__URL", "redis://user:hunter2@localhost:6379/1"),
        ("FEEDLINE__LEDGER__URL", "postgresql://user:hunter2@localhost/feed?sslmode=require"),
    ]);
    let config = config.unwrap();
    assert!(!format!("{config:?}").contains("hunter2"), "{config:?}");
    assert_eq!(config.broker.url.to_string(), "redis://localhost:6379/1");
    assert_eq!(config.ledger.url.to_string(), "postgres://localhost:5432/feed");
    for url in ["http://user:hunter2@localhost", "redis://user:hunter2@localhost:no", "redis://hunter2@localhost/x"] {
        let error = wrong_env(&[("FEEDLINE__BROKER__URL", url)]);
        assert!(!error.contains("hunter2"), "{error}");
    }
    for url in ["postgres://user:hunter2@localhost", "postgres://user:hunter2@localhost/feed?sslmode=no"] {
        let error = wrong_env(&[("FEEDLINE__LEDGER__URL", url)]);
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn nothing_around_a_secret_is_part_of_it() {
    let secret = "hunter2-secret-of-32-characters-or-more";
    for key in ["HMAC_SECRET", "HMAC_SECRET_PREVIOUS", "SUBSCRIPTION_HMAC_SECRET", "SESSION_KEY", "API_KEYS"] {
        let name = format!("FEEDLINE__AUTH__{key}");
        for (before, after) in [("", ""), ("", "\n"), ("", "\r\n"), (" ", "\t\n\n"), ("\u{feff}", "")] {
            let auth = parse_env(&[(&name, &format!("{before}{secret}{after}"))]).unwrap().auth;
            let found =
                [&auth.hmac_secret, &auth.hmac_secret_previous, &auth.subscription_hmac_secret, &auth.session_key];
            let mut found = found.into_iter().flatten().chain(&auth.api_keys);
            assert_eq!(found.next().map(|found| found.reveal()), Some(secret), "{key} {before:?} {after:?}");
        }
        for (before, after) in [("\"", "\""), ("'", "'\n"), ("\"", ""), ("", "'")] {
            let error = wrong_env(&[(&name, &format!("{before}{secret}{after}"))]);
            assert!(error.contains("quotation mark") && !error.contains("hunter2"), "{key}: {error}");
        }
    }
    for key in ["FCM_SERVICE_ACCOUNT", "APNS_KEY", "CA_CERTIFICATES"] {
        let error = wrong_env(&[(&format!("FEEDLINE__PUSH__{key}"), "\"MIGHhunter2\"")]);
        assert!(error.contains("path of a file") && !error.contains("hunter2"), "{key}: {error}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing.toml");
    let error = Config::load(Some(&missing)).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: cannot be read: ", missing.display())), "{error}");
    let error = Config::load(Some(dir.path())).unwrap_err().to_string();
    assert!(error.contains("cannot be read"), "{error}");
    let bytes = dir.path().join("bytes.toml");
    std::fs::write(&bytes, [0xff, 0xfe]).unwrap();
    assert!(Config::load(Some(&bytes)).unwrap_err().to_string().contains("cannot be read"));
}
