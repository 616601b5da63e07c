//! Reads the steps of a session from arbitrary bytes: partly random frames, partly nearly valid commands.

use std::sync::{Arc, LazyLock};

use feedline::auth::Verifier;
use feedline::config::{ClientConfig, Config, Secrets};
use feedline::gateway::channels::Channels;
use feedline::gateway::session::SessionOptions;
use feedline::model::Retention;
use feedline::reloadable::Reloadable;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

/// The user of most tokens.
const USER: &str = "ann";

/// The start of a session, in Unix seconds.
pub(crate) const UNIX: u64 = 1_800_000_000;

const SECRET: &str = "a secret that is long enough for HS256 tokens";
const NAMESPACES: &str = r#"[
    {"name":"chat","history_size":10,"history_ttl":"60s","presence":true,"join_leave":true,"publish":"subscriber"},
    {"name":"open","publish":"anyone"},
    {"name":"shut","subscribe":"nobody"}
]"#;

static OPTIONS: LazyLock<Arc<SessionOptions>> = LazyLock::new(|| {
    let env = [
        ("FEEDLINE__AUTH__HMAC_SECRET", SECRET),
        ("FEEDLINE__AUTH__API_KEYS", "a key that nobody sends here"),
        ("FEEDLINE__AUTH__REQUIRE_EXP", "false"),
        ("FEEDLINE__AUTH__LEEWAY", "0s"),
        ("FEEDLINE__NAMESPACES", NAMESPACES),
    ];
    let env = env.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    let config = Config::parse("", env).expect("a configuration");
    let secrets = Secrets::load(&config).expect("all secrets are configured");
    Arc::new(SessionOptions {
        verifier: Reloadable::new(Verifier::new(&config.auth, &secrets).expect("keys")),
        revocations: Arc::default(),
        channels: Channels::new(&config.namespaces, Retention::SHARED),
        anonymous: true,
        client: ClientConfig {
            channels: 4,
            channel_length: 40,
            commands_per_second: Some(50),
            history_limit: 10,
            presence_limit: 10,
            ..config.client
        },
        hooks: feedline::hooks::HookPolicy::default(),
    })
});

/// The options that all sessions share.
pub(crate) fn options() -> Arc<SessionOptions> {
    Arc::clone(&OPTIONS)
}

/// Valid and invalid tokens.
static TOKENS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let claims = [
        json!({ "sub": USER }),
        json!({ "sub": USER, "exp": UNIX + 30, "info": { "name": "Ann" } }),
        json!({ "sub": USER, "exp": UNIX - 1 }),
        json!({ "sub": USER, "nbf": UNIX + 60 }),
        json!({ "sub": USER, "expire_at": u64::MAX }),
        json!({ "sub": USER, "exp": 1e300 }),
        json!({ "sub": USER, "channels": ["chat:1", "topic:x", "chat:1"], "subs": { "$shut:1": {} } }),
        json!({ "sub": "bo" }),
        json!({}),
        json!({ "sub": USER, "channel": "$chat:1" }),
        json!({ "sub": USER, "channel": "$chat:1", "exp": UNIX + 30, "client": "the-client" }),
        json!({ "sub": USER, "channel": "shut:1", "expire_at": u64::MAX - 1 }),
        json!({ "sub": "bo", "channel": "$chat:1" }),
        json!({ "sub": USER, "channel": "timeline:bo" }),
    ];
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let signed = claims.iter().map(|claims| encode(&Header::new(Algorithm::HS256), claims, &key).expect("a token"));
    signed.chain(["".into(), "nonsense".into(), "a.b.c".into()]).collect()
});

/// A token with which a session opens.
pub(crate) fn valid_token() -> &'static str {
    &TOKENS[0]
}

const CHANNELS: [&str; 16] = [
    "chat:1",
    "chat:2#ann,bo",
    "chat:3#bo",
    "$chat:1",
    "open:1",
    "shut:1",
    "timeline:ann",
    "timeline:bo",
    "notifications:ann",
    "user:bo",
    "topic:x",
    "post:12",
    "none:1",
    "",
    "chat:",
    "open:a-name-that-is-longer-than-any-may-be-here",
];

/// A byte sequence that is read as steps.
pub struct Script<'a> {
    bytes: &'a [u8],
}

/// A step of a session. No wait is longer than about 35 years.
pub(crate) enum Step {
    /// The client sends this frame.
    Frame(String),
    /// The client sends these commands in one frame.
    Commands(Vec<Value>),
    /// The clock advances by this number of milliseconds.
    Wait(u64),
    /// The stores answer the running action, with success (`true`) or an error.
    Answer(bool),
    /// The server ends a subscription.
    Drop(String),
}

impl<'a> Script<'a> {
    /// Creates a script from bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn number(&mut self, bytes: usize) -> u64 {
        (0..bytes).fold(0, |number, _| number << 8 | u64::from(self.byte().unwrap_or(0)))
    }

    /// Reads a number from 0 to 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        f64::from(self.byte().unwrap_or(0)) / 255.0
    }

    fn pick<'b, T>(&mut self, from: &'b [T]) -> &'b T {
        let at = self.byte().unwrap_or(0);
        &from[usize::from(at) % from.len()]
    }

    /// Reads the next step; `None` at the end.
    pub(crate) fn step(&mut self) -> Option<Step> {
        Some(match self.byte()? % 16 {
            0 => {
                let length = (self.number(1) as usize).min(self.bytes.len());
                let (frame, rest) = self.bytes.split_at(length);
                self.bytes = rest;
                Step::Frame(String::from_utf8_lossy(frame).into_owned())
            }
            1 => Step::Wait(self.number(2)),
            2 => Step::Wait(self.number(5)),
            3..=6 => Step::Answer(self.byte()? % 8 != 0),
            7 => Step::Drop((*self.pick(&CHANNELS)).to_owned()),
            8 => Step::Frame("{}".into()),
            _ if self.bytes.is_empty() => return None,
            _ => Step::Commands(self.commands()),
        })
    }

    /// Reads one to three commands.
    pub(crate) fn commands(&mut self) -> Vec<Value> {
        let many = self.byte().unwrap_or(0) % 3 + 1;
        (0..many).map(|_| self.command()).collect()
    }

    /// Reads a text of up to 63 bytes.
    pub(crate) fn text(&mut self) -> String {
        let length = (self.number(1) as usize % 64).min(self.bytes.len());
        let (text, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        String::from_utf8_lossy(text).into_owned()
    }

    fn command(&mut self) -> Value {
        let id = self.number(1);
        let kind = self.number(1);
        let channel = *self.pick(&CHANNELS);
        let token = self.pick(&TOKENS).clone();
        match kind % 14 {
            0..=2 => {
                let recover = json!({ "recover": true, "offset": self.number(1), "epoch": "life" });
                json!({ "id": id, "connect": { "token": token, "subs": { "timeline:ann": recover, channel: {} } } })
            }
            3 => json!({ "id": id, "subscribe": { "channel": channel, "token": token } }),
            4 => json!({ "id": id, "subscribe": { "channel": channel, "recover": true, "offset": self.number(8) } }),
            5 => json!({ "id": id, "unsubscribe": { "channel": channel } }),
            6 => json!({ "id": id, "publish": { "channel": channel, "data": { "a\nb": [1] } } }),
            7 => json!({ "id": id, "presence": { "channel": channel } }),
            8 => json!({ "id": id, "presence_stats": { "channel": channel } }),
            9 => {
                json!({ "id": id, "history": { "channel": channel, "limit": -1, "reverse": self.number(1) < 128 } })
            }
            10 => json!({ "id": id, "rpc": { "method": "posts.create", "data": null } }),
            11 => json!({ "id": id, "refresh": { "token": token } }),
            12 => json!({ "id": id, "sub_refresh": { "channel": channel, "token": token } }),
            _ => match self.number(1) % 4 {
                0 => json!({ "id": id, "send": { "data": 1 } }),
                1 => json!({ "id": id, "ping": {} }),
                2 => json!({ "id": id, "subscribe": { "channel": channel, "delta": "other" } }),
                _ => json!({ "id": id }),
            },
        }
    }
}
