//! Every key: that it exists, is documented, has a comment, and refuses invalid values.

use std::collections::BTreeSet;
use std::time::Duration;

use feedline::config::{NamespaceAccess, RecoveryMode};

use crate::{DEFAULTS, parse, parse_env, variable, wrong, wrong_env};

/// Every key with a valid value other than its default, in the syntax of environment variables.
const OTHERS: &[(&str, &str)] = &[
    ("server.listen", "0.0.0.0:9000"),
    ("server.tls_certificate", "/etc/feedline/fullchain.pem"),
    ("server.tls_key", "/etc/feedline/privkey.pem"),
    ("server.hsts", "365d"),
    ("server.redirect_listen", "0.0.0.0:80,[::]:80"),
    ("server.base_path", "/my/feed"),
    ("server.data_dir", "elsewhere"),
    ("server.origins", "https://a.example,https://b.example:8443"),
    ("server.connections", "10"),
    ("server.connections_per_address", "10"),
    ("server.header_timeout", "3s"),
    ("server.keep_alive", "2m"),
    ("server.stall_timeout", "3s"),
    ("server.trusted_proxies", "10.0.0.0/8,fd00::/8,192.0.2.1"),
    ("server.proxy_protocol", "true"),
    ("server.admin_listen", "127.0.0.1:9001"),
    ("server.drain_delay", "5s"),
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
    ("client.insecure", "true"),
    ("client.user_personal_channel", "true"),
    ("client.single_connection", "true"),
    ("client.feed_channels", "false"),
    ("transports.websocket", "false"),
    ("transports.http_stream", "false"),
    ("transports.sse", "false"),
    ("transports.uni_websocket", "true"),
    ("transports.uni_http_stream", "true"),
    ("transports.uni_sse", "true"),
    ("broker.url", "redis://user:password@localhost:6380/3"),
    ("broker.timeout", "900ms"),
    ("broker.prefix", "other"),
    ("broker.probe_interval", "900ms"),
    ("ledger.url", "sqlite://elsewhere.db"),
    ("ledger.durability", "normal"),
    ("ledger.timeout", "900ms"),
    ("ledger.prepared_statements", "false"),
    ("ledger.connections", "3"),
    ("auth.hmac_secret", "a-secret-of-thirty-two-characters"),
    ("auth.hmac_secret_previous", "a-secret-of-thirty-two-characters"),
    ("auth.allow_short_secret", "true"),
    ("auth.session_key", "a-secret-of-thirty-two-characters"),
    ("auth.rsa_public_key", ""),
    ("auth.ecdsa_public_key", ""),
    ("auth.subscription_hmac_secret", "a-secret-of-thirty-two-characters"),
    ("auth.subscription_rsa_public_key", ""),
    ("auth.subscription_ecdsa_public_key", ""),
    ("auth.jwks_url", "https://id.example/keys"),
    ("auth.jwks_allow_http", "true"),
    ("auth.audience", "app"),
    ("auth.issuer", "app,other"),
    ("auth.issuers", r#"[{"issuer":"third","jwks_url":"https://id.example/keys","audience":"app"}]"#),
    ("auth.user_id_claim", "uid"),
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
    ("notifications.retention", "30d"),
    ("push.enabled", "true"),
    ("push.grace", "5s"),
    ("push.digest", "1m"),
    ("push.ttl", "2h"),
    ("push.device_idle", "30d"),
    ("push.locale", "zh"),
    ("push.app_name", "Chirp"),
    ("push.texts", r#"{"de":{"like":{"title":"{name}"}}}"#),
    ("push.timeout", "3s"),
    ("push.concurrency", "9"),
    ("push.allow_networks", "10.0.0.0/8,127.0.0.1"),
    ("push.endpoints_allow", "fcm.googleapis.com,*.push.apple.com"),
    ("push.endpoints_deny", "push.example"),
    ("push.ca_certificates", "-----BEGIN CERTIFICATE-----"),
    ("push.dry_run", "true"),
    ("push.dry_run_latency", "5ms"),
    ("push.fcm_service_account", "{}"),
    ("push.fcm_url", "https://fcm.example"),
    ("push.apns_key", "-----BEGIN PRIVATE KEY-----"),
    ("push.apns_key_id", "ABCDEFGHIJ"),
    ("push.apns_team_id", "ABCDEFGHIJ"),
    ("push.apns_topic", "com.example.app"),
    ("push.apns_sandbox", "true"),
    ("push.apns_url", "https://apns.example"),
    ("push.apns_sandbox_url", "https://apns.example"),
    ("push.vapid_private_key", "secret"),
    ("push.vapid_subject", "mailto:ops@example.org"),
    ("push.webhook_secrets", "one,two"),
    ("outlet.consumers", "app,billing"),
    ("outlet.retention", "5d"),
    ("outlet.give_up", "1h"),
    ("outlet.activity", "true"),
    ("outlet.away_after", "5s"),
    ("outlet.stream", "true"),
    ("outlet.stream_length", "7"),
    ("outlet.timeout", "3s"),
    ("outlet.concurrency", "7"),
    ("outlet.allow_networks", "10.0.0.0/8"),
    (
        "outlet.webhooks",
        r#"[{"name":"app","url":"https://a.example/","secrets":["a-secret-of-thirty-two-characters"]}]"#,
    ),
    ("hooks.connect", "https://backend.example/connect"),
    ("hooks.refresh", "https://backend.example/refresh"),
    ("hooks.subscribe", "https://backend.example/subscribe"),
    ("hooks.publish", "https://backend.example/publish"),
    ("hooks.sub_refresh", "https://backend.example/sub_refresh"),
    ("hooks.rpc", "http://127.0.0.1:9/rpc?key=1"),
    ("hooks.namespaces", "chat,news"),
    ("hooks.headers", "cookie,x-device"),
    ("hooks.timeout", "900ms"),
    ("hooks.concurrency", "7"),
    ("hooks.allow_insecure", "true"),
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
    ("rates.topics", "7"),
    ("rates.subscriptions", "7"),
    ("rates.reads", "7"),
    ("rates.publications", "7"),
    ("rates.accounts", "7"),
    ("rates.sessions", "0"),
    ("telemetry.otlp_url", "http://collector:4318"),
    ("telemetry.sample", "0.5"),
    ("telemetry.headers", "authorization: Bearer x"),
];

/// Keys that are valid only with another one, and the value of that.
const NEEDED: &[(&str, &str, &str)] = &[
    ("server.tls_certificate", "server.tls_key", "k.pem"),
    ("server.tls_key", "server.tls_certificate", "c.pem"),
    ("server.hsts", "server.tls_certificate", "c.pem"),
    ("server.hsts", "server.tls_key", "k.pem"),
    ("server.redirect_listen", "server.tls_certificate", "c.pem"),
    ("server.redirect_listen", "server.tls_key", "k.pem"),
    ("server.proxy_protocol", "server.trusted_proxies", "10.0.0.0/8"),
    ("client.single_connection", "client.user_personal_channel", "true"),
    ("hooks.refresh", "hooks.connect", "https://backend.example/connect"),
    ("hooks.sub_refresh", "hooks.subscribe", "https://backend.example/subscribe"),
    ("hooks.namespaces", "namespaces", r#"[{"name":"chat"},{"name":"news"}]"#),
];

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
    for (key, value) in OTHERS {
        let needed = NEEDED.iter().filter(|(by, ..)| by == key).map(|(_, key, value)| (variable(key), *value));
        let needed: Vec<(String, &str)> = needed.collect();
        let mut env: Vec<(&str, &str)> = needed.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        // A certificate and its key need each other.
        let defaults = parse_env(&env).or_else(|_| parse("")).unwrap();
        let name = variable(key);
        env.push((&name, value));
        let config = parse_env(&env).unwrap();
        // Keys that name a file have no other valid value here; tests/tokens/ sets them.
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
    let free = [
        "auth.hmac_secret",
        "auth.audience",
        "auth.issuer",
        "auth.api_keys",
        "server.data_dir",
        "server.tls_certificate",
        "server.tls_key",
        // The providers check them.
        "push.locale",
        "push.app_name",
        "push.fcm_url",
        "push.apns_key_id",
        "push.apns_team_id",
        "push.apns_topic",
        "push.apns_url",
        "push.apns_sandbox_url",
        "push.vapid_private_key",
        "push.vapid_subject",
        "push.webhook_secrets",
    ];
    for (key, _) in OTHERS.iter().filter(|(key, _)| !free.contains(key)) {
        let error = wrong_env(&[(&variable(key), "no such thing")]);
        assert!(error.starts_with(&format!("{}: ", variable(key))), "{error}");
    }
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
    assert!(chat.presence && chat.join_leave && chat.force_recovery);
    assert_eq!(chat.recovery_mode, RecoveryMode::Stream);
    // The `Debug` output names the fields of the struct, which are the keys.
    let fields = format!("{chat:#?}").lines().filter(|line| line.contains(": ")).count();
    assert_eq!(example().lines().filter(|line| !line.starts_with('#') && line.contains(" = ")).count(), fields);
}
