//! The configuration: every documented key exists, and every error names its place.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use feedline::config::{AllowedOrigins, BrokerUrl, Config, Durability, LedgerUrl, LogFormat, NamespaceAccess};

const DEFAULTS: &str = include_str!("../config.toml");

/// Every key with a valid value other than its default, in the syntax of environment variables.
const OTHERS: &[(&str, &str)] = &[
    ("server.listen", "0.0.0.0:9000"),
    ("server.data_dir", "elsewhere"),
    ("server.origins", "https://a.example,https://b.example:8443"),
    ("server.connections", "10"),
    ("server.connections_per_address", "10"),
    ("server.header_timeout", "3s"),
    ("server.stall_timeout", "3s"),
    ("server.trusted_proxies", "10.0.0.0/8,fd00::/8,192.0.2.1"),
    ("server.proxy_protocol", "true"),
    ("server.admin_listen", "127.0.0.1:9001"),
    ("server.drain", "0s"),
    ("server.log_level", "debug"),
    ("server.log_format", "json"),
    ("client.message_bytes", "2048"),
    ("client.queue_bytes", "2048"),
    ("client.queue_messages", "7"),
    ("client.ping_interval", "9s"),
    ("client.pong_timeout", "3s"),
    ("client.connect_timeout", "3s"),
    ("client.write_timeout", "900ms"),
    ("client.channels", "7"),
    ("client.channel_length", "7"),
    ("client.commands_per_second", "0"),
    ("client.history_limit", "7"),
    ("client.recovery_limit", "7"),
    ("client.presence_limit", "7"),
    ("client.connections_per_user", "7"),
    ("broker.url", "redis://user:password@localhost:6380/3"),
    ("broker.timeout", "900ms"),
    ("broker.prefix", "other"),
    ("broker.probe_interval", "900ms"),
    ("ledger.url", "sqlite://elsewhere.db"),
    ("ledger.durability", "normal"),
    ("ledger.timeout", "900ms"),
    ("ledger.connections", "3"),
    ("auth.hmac_secret", "a-secret-of-thirty-two-characters"),
    ("auth.hmac_secret_previous", "a-secret-of-thirty-two-characters"),
    ("auth.allow_short_secret", "true"),
    ("auth.session_key", "a-secret-of-thirty-two-characters"),
    ("auth.rsa_public_key", ""),
    ("auth.ecdsa_public_key", ""),
    ("auth.audience", "app"),
    ("auth.issuer", "app"),
    ("auth.api_keys", "one,two"),
    ("auth.token_ttl", "7d"),
    ("auth.require_exp", "false"),
    ("auth.leeway", "5s"),
    ("auth.revocation_ttl", "7d"),
    ("auth.anonymous", "true"),
    ("accounts.enabled", "false"),
    ("timeline.length", "7"),
    ("timeline.idle_days", "7"),
    ("timeline.follow_merge", "7"),
    ("fanout.push_limit", "7"),
    ("fanout.page", "7"),
    ("fanout.workers", "7"),
    ("fanout.lease", "900ms"),
    ("likes.queue_length", "7"),
    ("likes.counts_per_second", "7"),
    ("limits.text", "7"),
    ("limits.media", "7"),
    ("limits.topics", "7"),
    ("limits.data_bytes", "7"),
    ("limits.follows", "7"),
    ("limits.favourites", "7"),
    ("rates.posts", "7"),
    ("rates.comments", "7"),
    ("rates.likes", "7"),
    ("rates.follows", "7"),
    ("rates.writes", "7"),
    ("rates.mentions", "7"),
    ("rates.reads", "7"),
    ("rates.publications", "7"),
    ("rates.accounts", "7"),
    ("rates.sessions", "0"),
];

fn variable(key: &str) -> String {
    format!("FEEDLINE__{}", key.replace('.', "__").to_uppercase())
}

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, std::iter::empty()).map_err(|error| error.to_string())
}

fn parse_env(env: &[(&str, &str)]) -> Result<Config, String> {
    let env = env.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    Config::parse("", env).map_err(|error| error.to_string())
}

fn wrong(text: &str) -> String {
    parse(text).map(|config| panic!("{text:?} passed: {config:?}")).unwrap_or_else(|error| error)
}

fn wrong_env(env: &[(&str, &str)]) -> String {
    parse_env(env).map(|config| panic!("{env:?} passed: {config:?}")).unwrap_or_else(|error| error)
}

/// `section.key` of every key that `config.toml` sets.
fn documented() -> BTreeSet<String> {
    let table: toml::Table = DEFAULTS.parse().unwrap();
    let keys = table
        .iter()
        .flat_map(|(section, keys)| keys.as_table().unwrap().keys().map(move |key| format!("{section}.{key}")));
    keys.collect()
}

/// The commented-out lines at the end of `config.toml`, without the comment mark.
fn example() -> String {
    let start = DEFAULTS.find("# [[namespaces]]").unwrap();
    DEFAULTS[start..].lines().map(|line| line.strip_prefix("# ").unwrap().to_owned() + "\n").collect()
}

#[test]
fn every_documented_key_exists_and_every_key_is_documented() {
    // A key that no struct reads is unknown; a key that a struct reads and the file lacks has no default.
    assert_eq!(parse(DEFAULTS).unwrap(), parse("").unwrap());
    let others: BTreeSet<String> = OTHERS.iter().map(|(key, _)| (*key).to_owned()).collect();
    assert_eq!(others, documented(), "the table of this test");
}

#[test]
fn every_key_has_a_comment() {
    let lines: Vec<&str> = DEFAULTS.lines().collect();
    let example = example();
    let example: Vec<&str> = example.lines().collect();
    for lines in [lines, example] {
        for pair in lines.windows(2).filter(|pair| !pair[1].starts_with('#') && pair[1].contains(" = ")) {
            assert!(pair[0].starts_with("# "), "{:?} has no comment", pair[1]);
        }
    }
}

#[test]
fn every_key_can_be_set_by_the_environment() {
    let defaults = parse("").unwrap();
    for (key, value) in OTHERS {
        let config = parse_env(&[(&variable(key), value)]).unwrap();
        // Keys that name a file have no other valid value here; tests/tokens.rs sets them.
        assert_eq!(config != defaults, !value.is_empty(), "{key}");
    }
}

#[test]
fn every_key_rejects_invalid_values() {
    for (key, _) in OTHERS {
        let (section, name) = key.split_once('.').unwrap();
        let error = wrong(&format!("\n[{section}]\n{name} = {{ a = 1 }}\n"));
        assert!(error.starts_with(&format!("config.toml:3:1: {key}: ")), "{error}");
    }
    let free = ["auth.hmac_secret", "auth.audience", "auth.issuer", "auth.api_keys", "server.data_dir"];
    for (key, _) in OTHERS.iter().filter(|(key, _)| !free.contains(key)) {
        let error = wrong_env(&[(&variable(key), "no such thing")]);
        assert!(error.starts_with(&format!("{}: ", variable(key))), "{error}");
    }
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
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8000");
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
fn the_commented_example_is_valid_and_shows_every_key() {
    let namespaces = parse(&example()).unwrap().namespaces;
    let [chat] = namespaces.as_slice() else { panic!("{namespaces:?}") };
    assert_eq!((chat.name.as_str(), chat.history_size, chat.history_ttl), ("chat", 100, Duration::from_secs(300)));
    assert_eq!(
        (chat.subscribe, chat.publish, chat.history),
        (NamespaceAccess::Anyone, NamespaceAccess::Subscriber, NamespaceAccess::Subscriber)
    );
    assert!(chat.presence && chat.join_leave);
    // The `Debug` output names the fields of the struct, which are the keys.
    let fields = format!("{chat:#?}").lines().filter(|line| line.contains(": ")).count();
    assert_eq!(example().lines().filter(|line| !line.starts_with('#') && line.contains(" = ")).count(), fields);
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
    let twice = wrong_env(&[("FEEDLINE__NAMESPACES", r#"[{"name":""},{"name":""}]"#)]);
    assert!(twice.contains("there is another namespace \"\""), "{twice}");
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
