//! Values that have the right form and can match nothing, or have no effect: each is an error that names the key, and
//! says what to write. An option of a feature that is off is no such value, it waits for the feature.

use feedline::config::AllowedOrigins;

use crate::{parse, parse_env, variable, wrong, wrong_env};

const SECRET: &str = "a-secret-of-thirty-two-characters";

/// The text of a file, the key in the error, and a part of the message.
const FILES: &[(&str, &str, &str)] = &[
    // Origins are compared as browsers send them.
    ("[server]\norigins = [\"https://*.example.org\"]", "server.origins", "patterns match nothing"),
    ("[server]\norigins = [\"*.example.org\"]", "server.origins", "patterns match nothing"),
    ("[server]\norigins = [\"https://app.example.org:*\"]", "server.origins", "patterns match nothing"),
    ("[server]\norigins = [\"app.example.org\"]", "server.origins", "did you mean \"https://app.example.org\"?"),
    ("[server]\norigins = [\"localhost:3000\"]", "server.origins", "did you mean \"https://localhost:3000\"?"),
    ("[server]\norigins = [\"https://app.example.org/\"]", "server.origins", "mean \"https://app.example.org\"?"),
    ("[server]\norigins = [\"https://app.example.org/app\"]", "server.origins", "mean \"https://app.example.org\"?"),
    ("[server]\norigins = [\"https://app.example.org?a=1\"]", "server.origins", "mean \"https://app.example.org\"?"),
    ("[server]\norigins = [\"https://me@app.example.org\"]", "server.origins", "mean \"https://app.example.org\"?"),
    ("[server]\norigins = [\"wss://app.example.org\"]", "server.origins", "did you mean \"https://app.example.org\"?"),
    ("[server]\norigins = [\"ws://localhost:3000\"]", "server.origins", "did you mean \"http://localhost:3000\"?"),
    ("[server]\norigins = [\"htps://app.example.org\"]", "server.origins", "did you mean \"https://app.example.org\"?"),
    ("[server]\norigins = [\"file:///home/app\"]", "server.origins", "no origin"),
    ("[server]\norigins = [\"null\"]", "server.origins", "expected origins"),
    ("[server]\norigins = [\"https://app.example.org:99999\"]", "server.origins", "expected origins"),
    ("[server]\norigins = [\"https://a.example https://b.example\"]", "server.origins", "expected origins"),
    ("[server]\norigins = [\" https://app.example.org\"]", "server.origins", "spaces"),
    ("[server]\norigins = [\"'https://app.example.org'\"]", "server.origins", "quotation mark"),
    ("[server]\nbase_path = \"feed\"", "server.base_path", "such as /feed"),
    ("[server]\nbase_path = \"//feed\"", "server.base_path", "such as /feed"),
    ("[server]\nbase_path = \"/a/../feed\"", "server.base_path", "such as /feed"),
    ("[server]\nbase_path = \"https://example.org/feed\"", "server.base_path", "such as /feed"),
    ("[server]\nbase_path = \"/api/feed\"", "server.base_path", "a path of the server itself"),
    ("[server]\nbase_path = \"/post\"", "server.base_path", "a path of the server itself"),
    ("[server]\nproxy_protocol = true", "server.proxy_protocol", "server.trusted_proxies"),
    ("[server]\nadmin_listen = \"127.0.0.1:8000\"", "server.admin_listen", "server.listen"),
    // Limits that exclude what they limit.
    (
        "[client]\nuser_personal_channel = true\nsingle_connection = true\nconnections_per_user = 1",
        "client.connections_per_user",
        "client.single_connection",
    ),
    ("[client]\nchannel_length = 5\n[[namespaces]]\nname = \"chat\"", "client.channel_length", "namespace \"chat\""),
    // URLs of stores.
    ("[broker]\nurl = \"redis://localhost/0?protocol=resp3\"", "broker.url", "no parameter \"protocol\""),
    ("[broker]\nurl = \"unix:///run/redis.sock?user=me\"", "broker.url", "no parameter \"user\""),
    ("[broker]\nurl = \"unix://run/redis.sock\"", "broker.url", "expected memory:"),
    ("[broker]\nurl = \"unix:///run/redis.sock?db=one\"", "broker.url", "db is no number"),
    ("[ledger]\nurl = \"postgres://me@localhost/feed?fallback=1\"", "ledger.url", "no parameter \"fallback\""),
    ("[broker]\nurl = \"rediss://localhost?timeout=5s&db=1\"", "broker.url", "no parameter \"timeout\""),
    ("[broker]\nurl = \"rediss://localhost/#insecure\"", "broker.url", "no parameters"),
    ("[broker]\nurl = \"memory\"", "broker.url", "did you mean \"memory:\"?"),
    ("[ledger]\nurl = \"sqlite://feed.db?mode=ro\"", "ledger.url", "no parameter \"mode\""),
    ("[ledger]\nurl = \"sqlite://:memory:\"", "ledger.url", "a file"),
    ("[ledger]\nurl = \"sqlite://feed.db\\n\"", "ledger.url", "line end"),
    ("[broker]\nurl = \"redis://localhost\\n\"", "broker.url", "expected memory:"),
    ("[ledger]\nurl = \"postgres://me@localhost/feed?sslmod=require\"", "ledger.url", "sslmode"),
    // Claims are compared with the whole value.
    ("[auth]\naudience = \" app\"", "auth.audience", "spaces"),
    ("[auth]\naudience = \"app\\n\"", "auth.audience", "line end"),
    ("[auth]\naudience = \"\\\"app\\\"\"", "auth.audience", "quotation mark"),
    ("[auth]\naudience = \"[\\\"app\\\"]\"", "auth.audience", "not a list"),
    ("[auth]\nissuer = \"app \"", "auth.issuer", "spaces"),
    ("[auth]\nissuer = [\"app\", \" other\"]", "auth.issuer", "spaces"),
    ("[auth]\nuser_id_claim = \"'uid'\"", "auth.user_id_claim", "quotation mark"),
    ("[[auth.issuers]]\nissuer = \"a \"\njwks_url = \"https://id.example/\"", "auth.issuers", "spaces"),
    ("[auth]\njwks_url = \"https://id.example/keys#1\"", "auth.jwks_url", "never sent"),
    ("[auth]\napi_keys = [\"ключ\"]", "auth.api_keys", "printable ASCII"),
    ("[auth]\napi_keys = [\"key\\n\"]", "auth.api_keys", "line end"),
    // Hosts are compared without scheme, port and path.
    ("[push]\nendpoints_deny = [\"push.example:443\"]", "push.endpoints_deny", "did you mean \"push.example\"?"),
    ("[push]\nendpoints_deny = [\"push.example:8443\"]", "push.endpoints_deny", "did you mean \"push.example\"?"),
    ("[push]\nendpoints_deny = [\"*.push.example:443\"]", "push.endpoints_deny", "did you mean \"*.push.example\"?"),
    ("[push]\nendpoints_deny = [\"https://push.example/x\"]", "push.endpoints_deny", "did you mean \"push.example\"?"),
    ("[push]\nendpoints_deny = [\"push.example/\"]", "push.endpoints_deny", "did you mean \"push.example\"?"),
    ("[push]\nendpoints_deny = [\"[::1]:443\"]", "push.endpoints_deny", "did you mean \"[::1]\"?"),
    ("[push]\nendpoints_deny = [\"push.*.example\"]", "push.endpoints_deny", "expected a host"),
    ("[push]\nendpoints_deny = [\"push*.example\"]", "push.endpoints_deny", "expected a host"),
    ("[push]\nendpoints_deny = [\"*\"]", "push.endpoints_deny", "expected a host"),
    ("[push]\nendpoints_deny = [\".push.example\"]", "push.endpoints_deny", "expected a host"),
    ("[push]\nendpoints_deny = [\"10.0.0.0/8\"]", "push.endpoints_deny", "expected a host"),
    ("[push]\nendpoints_allow = [\"push.example \"]", "push.endpoints_allow", "spaces"),
    ("[push]\nendpoints_allow = [\"a.example\"]\nendpoints_deny = [\"a.example\"]", "push.endpoints_allow", "nothing"),
    (
        "[push]\nendpoints_allow = [\"a.b.example\"]\nendpoints_deny = [\"*.example\"]",
        "push.endpoints_allow",
        "nothing",
    ),
    (
        "[push]\nendpoints_allow = [\"*.b.example\"]\nendpoints_deny = [\"*.b.example\"]",
        "push.endpoints_allow",
        "nothing",
    ),
    ("[push]\nallow_networks = [\"10.0.0.0-10.0.0.9\"]", "push.allow_networks", "expected a network"),
    ("[push]\nlocale = \"\"", "push.locale", "must not be empty"),
    // Hooks that are asked about nothing, or in the clear.
    ("[hooks]\nrefresh = \"https://backend.example/\"", "hooks.refresh", "hooks.connect"),
    ("[hooks]\nsub_refresh = \"https://backend.example/\"", "hooks.sub_refresh", "hooks.subscribe"),
    ("[hooks]\nconnect = \"https://backend.example/#connect\"", "hooks.connect", "never sent"),
    ("[hooks]\nconnect = \"https://backend.example:0/\"", "hooks.connect", "expected an address"),
    ("[hooks]\nconnect = \"backend.example/connect\"", "hooks.connect", "expected an address"),
    ("[hooks]\nconnect = \" https://backend.example/\"", "hooks.connect", "without spaces"),
    ("[hooks]\nconnect = \"http://backend.example/\"", "hooks.connect", "hooks.allow_insecure"),
    ("[hooks]\nconnect = \"http://feed.svc.cluster.local/\"", "hooks.connect", "hooks.allow_insecure"),
    ("[hooks]\nrpc = \"http://8.8.8.8/\"", "hooks.rpc", "hooks.allow_insecure"),
    ("[hooks]\npublish = \"http://[2606:4700::1111]/\"", "hooks.publish", "hooks.allow_insecure"),
    ("[hooks]\nsubscribe = \"http://134744072/\"", "hooks.subscribe", "hooks.allow_insecure"),
    ("[hooks]\nnamespaces = [\"chat\"]", "hooks.namespaces", "no namespace \"chat\": there are none"),
    ("[hooks]\nnamespaces = [\"chatt\"]\n[[namespaces]]\nname = \"chat\"", "hooks.namespaces", "mean \"chat\"?"),
    ("[hooks]\nnamespaces = [\"x\"]\n[[namespaces]]\nname = \"chat\"", "hooks.namespaces", "only \"chat\""),
    ("[hooks]\nnamespaces = [\"Chat\"]\n[[namespaces]]\nname = \"chat\"", "hooks.namespaces", "not the name"),
    ("[hooks]\nheaders = [\"x-app:\"]", "hooks.headers", "not the name of a header"),
    ("[hooks]\nheaders = [\"Content-Length\"]", "hooks.headers", "cannot be passed on"),
    ("[hooks]\nheaders = [\"accept-encoding\"]", "hooks.headers", "cannot be passed on"),
    // Names of channels are matched without the namespace.
    ("[[namespaces]]\nname = \"chat\"\nchannel_regex = \"^chat:[a-z]+$\"", "channel_regex", "leave out \"chat:\""),
    ("[[namespaces]]\nname = \"chat\"\nsubscribe = \"subscriber\"", "subscribe", "nobody could"),
];

/// The rest of `[outlet]`, with a webhook that has these types.
fn outlet(types: &str, rest: &str) -> String {
    format!(
        "[outlet]\n{rest}\n[[outlet.webhooks]]\nname = \"a\"\nurl = \"https://a.example/\"\nsecrets = [\"{SECRET}\"]\n\
         types = {types}\n"
    )
}

#[test]
fn values_that_mean_nothing_are_errors() {
    for (text, key, part) in FILES {
        let error = wrong(&format!("{text}\n"));
        let is_named = error.lines().all(|line| line.starts_with("config.toml:") && line.contains(key));
        assert!(is_named && error.contains(part), "{text}\n→ {error}");
    }
}

#[test]
fn their_neighbours_are_accepted() {
    for text in [
        "[server]\norigins = [\"https://app.example.org\", \"http://localhost:3000\", \"capacitor://localhost\"]",
        "[server]\nproxy_protocol = true\ntrusted_proxies = [\"10.0.0.0/8\"]",
        "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"",
        "[client]\nchannel_length = 6\n[[namespaces]]\nname = \"chat\"",
        "[client]\nchannel_length = 1\n[[namespaces]]\nname = \"\"",
        "[broker]\nurl = \"redis://me:pw@localhost:6379/3\"",
        "[broker]\nurl = \"unix:///run/redis/redis.sock?db=3\"",
        "[ledger]\nurl = \"postgres:///feed?host=/run/postgresql&user=me&application_name=two%20words\"",
        "[push]\nendpoints_deny = [\"push.example\", \"*.example.org\", \"10.0.0.1\", \"::1\", \"[::1]\"]",
        "[push]\nendpoints_allow = [\"*.example\"]\nendpoints_deny = [\"a.example\", \"b.a.example\"]",
        "[push]\nendpoints_allow = [\"example\"]\nendpoints_deny = [\"*.example\"]",
        "[hooks]\nconnect = \"http://127.0.0.1:9/\"\nrefresh = \"http://localhost/\"\nrpc = \"http://backend:8080/\"",
        "[hooks]\nconnect = \"http://10.0.0.1/\"\npublish = \"http://[fd00::1]/\"",
        "[hooks]\nconnect = \"http://backend.example/\"\nallow_insecure = true",
        "[hooks]\nnamespaces = [\"chat\"]\n[[namespaces]]\nname = \"chat\"",
        "[[namespaces]]\nname = \"chat\"\nchannel_regex = \"^chat\"",
        &outlet("[\"post.created\"]", ""),
        &outlet("[\"user.away\"]", "activity = true"),
        &format!("{}[[namespaces]]\nname = \"a\"\nevents = true\n", outlet("[\"channel.vacated\"]", "")),
    ] {
        assert!(parse(&format!("{text}\n")).is_ok(), "{text}\n→ {}", parse(&format!("{text}\n")).unwrap_err());
    }
}

#[test]
fn webhooks_wait_for_no_type_that_never_happens() {
    for (types, part) in [
        ("[\"user.connected\"]", "outlet.activity = true"),
        ("[\"post.created\", \"user.away\"]", "outlet.activity = true"),
        ("[\"channel.subscribed\"]", "events = true"),
    ] {
        let error = wrong(&outlet(types, ""));
        assert!(error.contains("outlet.webhooks: ") && error.contains(part), "{types}: {error}");
    }
}

#[test]
fn origins_and_hosts_are_kept_in_the_form_that_they_are_compared_in() {
    let text = "[server]\norigins = [\"HTTPS://App.Example.org:443\", \"https://m\u{fc}nchen.example\", \
                \"http://a.example:80\", \"http://a.example:443\"]\n\
                [push]\nendpoints_deny = [\"M\u{fc}nchen.example\", \"*.EXAMPLE.org\", \"::1\"]\n";
    let config = parse(text).unwrap();
    let origins =
        ["https://app.example.org", "https://xn--mnchen-3ya.example", "http://a.example", "http://a.example:443"];
    assert_eq!(config.server.origins, AllowedOrigins::Listed(origins.map(str::to_owned).to_vec()));
    assert_eq!(config.push.endpoints_deny, ["xn--mnchen-3ya.example", "*.example.org", "[::1]"]);
    // A part of the mapped addresses is the IPv4 network that clients are in.
    let mapped = parse("[push]\nallow_networks = [\"::ffff:10.0.0.0/104\"]\n").unwrap();
    assert_eq!(mapped.push.allow_networks, ["10.0.0.0/8".parse().unwrap()]);
}

#[test]
fn lists_in_the_environment_may_be_json() {
    let keys = |text: &str| parse_env(&[("FEEDLINE__AUTH__API_KEYS", text)]).map(|config| config.auth.api_keys);
    for text in ["one,two", r#"["one","two"]"#, r#" ["one", "two"] "#] {
        let keys = keys(text).unwrap();
        assert_eq!(keys.iter().map(|key| key.reveal()).collect::<Vec<_>>(), ["one", "two"], "{text}");
    }
    let lists = [
        ("server.origins", r#"["https://a.example"]"#, r#"["https://a.example""#),
        ("server.trusted_proxies", r#"["10.0.0.0/8"]"#, "[10.0.0.0/8]"),
        ("auth.issuer", r#"["a","b"]"#, "[a,b]"),
        ("auth.api_keys", r#"["hunter2"]"#, "[hunter2]"),
        ("auth.api_keys", r#"["hunter2"]"#, r#""hunter2""#),
        ("push.allow_networks", r#"["10.0.0.0/8"]"#, "[10.0.0.0/8]"),
        ("push.endpoints_allow", r#"["a.example"]"#, "[a.example]"),
        ("push.endpoints_deny", r#"["[::1]"]"#, "{}"),
        ("push.webhook_secrets", r#"["hunter2-hunter2-hunter2-hunter2-x"]"#, "[hunter2]"),
        ("outlet.consumers", r#"["app"]"#, "['app']"),
        ("outlet.allow_networks", r#"["10.0.0.0/8"]"#, "[1]"),
        ("hooks.headers", r#"["cookie"]"#, "[cookie]"),
    ];
    for (key, right, malformed) in lists {
        let set = |text| parse_env(&[(&variable(key), text)]);
        assert_ne!(set(right).unwrap(), parse("").unwrap(), "{key}");
        let error = wrong_env(&[(&variable(key), malformed)]);
        assert!(error.starts_with(&format!("{}: ", variable(key))) && !error.contains("hunter2"), "{error}");
    }
}

#[test]
fn variables_that_almost_have_the_prefix_are_not_ignored() {
    for (name, right) in [
        ("FEEDLINE_SERVER_LISTEN", "FEEDLINE__SERVER__LISTEN"),
        ("FEEDLINE_SERVER__LISTEN", "FEEDLINE__SERVER__LISTEN"),
        ("FEEDLINE_AUTH_HMAC_SECRET", "FEEDLINE__AUTH__HMAC_SECRET"),
        ("feedline_auth_api_keys", "FEEDLINE__AUTH__API_KEYS"),
    ] {
        let error = wrong_env(&[(name, "hunter2")]);
        assert_eq!(error, format!("{name}: is not read; did you mean {right}?"));
    }
    // Kubernetes sets these for a service with this name.
    for name in ["FEEDLINE_PORT", "FEEDLINE_SERVICE_HOST", "FEEDLINE_PORT_8000_TCP_ADDR"] {
        assert!(parse_env(&[(name, "tcp://10.0.0.1:8000")]).is_ok(), "{name}");
    }
}
