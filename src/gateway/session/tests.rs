//! The rules of a session, tested without sockets, stores or waiting.

use std::net::Ipv4Addr;
use std::sync::Arc;

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use super::*;
use crate::auth::Verifier;
use crate::config::{Config, Secrets};
use crate::gateway::channels::Channels;
use crate::hooks::HookPolicy;
use crate::model::{Position, Retention};
use crate::protocol::{Command, Encoding, decode_frame};
use crate::reloadable::Reloadable;

const UNIX: u64 = 1_800_000_000;
const SECRET: &str = "a secret that is long enough for HS256";
const CHAT: &str = r#"[{"name":"chat","history_size":9,"history_ttl":"9s","presence":true},{"name":"plain"}]"#;

pub(super) fn options() -> SessionOptions {
    let env = [
        ("AUTH__HMAC_SECRET", SECRET),
        ("AUTH__API_KEYS", "key"),
        ("AUTH__REQUIRE_EXP", "false"),
        ("AUTH__LEEWAY", "0s"),
        ("NAMESPACES", CHAT),
    ];
    let env = env.into_iter().map(|(key, value)| (format!("FEEDLINE__{key}"), value.to_owned()));
    let config = Config::parse("", env).unwrap();
    SessionOptions {
        verifier: Reloadable::new(Verifier::new(&config.auth, &Secrets::load(&config).unwrap()).unwrap()),
        revocations: Arc::default(),
        channels: Channels::new(&config.namespaces, Retention::SHARED),
        anonymous: false,
        client: ClientConfig {
            channels: 2,
            channel_length: 20,
            commands_per_second: None,
            history_limit: 5,
            presence_limit: 5,
            ..config.client
        },
        hooks: HookPolicy::default(),
    }
}

fn signed(claims: &Value) -> String {
    encode(&Header::new(Algorithm::HS256), claims, &EncodingKey::from_secret(SECRET.as_bytes())).unwrap()
}

/// The time this many seconds after the start of the test.
pub(super) fn at(seconds: u64) -> SessionTime {
    SessionTime { ticks: seconds * 1_000, unix: UNIX + seconds }
}

fn fresh(options: SessionOptions) -> Session {
    connecting(options, PingKind::Message)
}

pub(super) fn connecting(options: SessionOptions, pings: PingKind) -> Session {
    let client = SessionClient { id: "client-1".into(), address: Ipv4Addr::LOCALHOST.into(), pings, headers: None };
    Session::new(Arc::new(options), client, at(0), 0.0)
}

fn say(session: &mut Session, command: &Value, now: SessionTime) -> Action {
    let mut commands = decode_frame(&command.to_string()).unwrap();
    session.command(commands.remove(0), now)
}

/// A session that was opened with these claims, and the reply to `connect`.
fn open(options: SessionOptions, claims: &Value) -> (Session, Value) {
    opened(fresh(options), claims)
}

/// Opens a fresh session.
pub(super) fn opened(mut session: Session, claims: &Value) -> (Session, Value) {
    let connect = json!({ "id": 1, "connect": { "token": signed(claims) } });
    let Action::Open(opening) = say(&mut session, &connect, at(0)) else { panic!("not granted") };
    let joins = opening.joins.into_iter().map(|join| (join, place())).collect();
    let reply = said(session.opened(1, joins, at(0)));
    (session, reply)
}

fn place() -> Joined {
    Joined { position: Some(Position { offset: 3, epoch: "life".into() }), missed: None }
}

pub(super) fn ann() -> (Session, Value) {
    open(options(), &json!({ "sub": "ann" }))
}

pub(super) fn said(action: Action) -> Value {
    match action {
        Action::Reply(reply) => json_of(reply),
        other => panic!("{other:?} is no reply"),
    }
}

fn json_of(reply: Reply) -> Value {
    let mut frame = Vec::new();
    Encoding::Json.append_reply(&mut frame, reply);
    serde_json::from_slice(&frame).unwrap()
}

pub(super) fn code(action: Action) -> u64 {
    said(action)["error"]["code"].as_u64().unwrap()
}

pub(super) fn close(action: Action) -> u16 {
    match action {
        Action::Close(why) => why.code,
        other => panic!("{other:?} is no close"),
    }
}

fn subscribe(session: &mut Session, channel: &str, token: &str, now: SessionTime) -> Action {
    say(session, &json!({ "id": 2, "subscribe": { "channel": channel, "token": token } }), now)
}

/// Subscribes, joins the channel, and returns the reply.
fn enter(session: &mut Session, channel: &str, token: &str, now: SessionTime) -> Value {
    match subscribe(session, channel, token, now) {
        Action::Join(join) => json_of(session.joined(&join, place(), now)),
        other => panic!("{channel}: {other:?}"),
    }
}

#[test]
fn connect_comes_first_and_once() {
    for first in [
        json!({ "id": 1, "subscribe": { "channel": "topic:x" } }),
        json!({ "id": 1, "ping": {} }),
        json!({ "id": 0, "send": {} }),
        json!({}),
    ] {
        assert_eq!(close(say(&mut fresh(options()), &first, at(0))), 3501, "{first}");
    }
    let (mut session, _) = ann();
    let again = json!({ "id": 2, "connect": { "token": signed(&json!({ "sub": "ann" })) } });
    assert_eq!(close(say(&mut session, &again, at(0))), 3501);
}

#[test]
fn anonymous_clients_connect_only_where_allowed() {
    let connect = json!({ "id": 1, "connect": {} });
    assert_eq!(close(say(&mut fresh(options()), &connect, at(0))), 3501);
    let mut session = fresh(SessionOptions { anonymous: true, ..options() });
    let Action::Open(opening) = say(&mut session, &connect, at(0)) else { panic!("not granted") };
    assert!(opening.user.is_none() && opening.joins.is_empty());
}

#[test]
fn connect_reply_lists_subscriptions() {
    let (session, reply) = open(options(), &json!({ "sub": "ann", "exp": UNIX + 60, "channels": ["chat:1"] }));
    let connect = &reply["connect"];
    assert_eq!(connect["client"], "client-1");
    assert_eq!((connect["ping"].as_u64(), &connect["pong"]), (Some(25), &json!(true)));
    assert_eq!((&connect["expires"], connect["ttl"].as_u64()), (&json!(true), Some(60)));
    let subs: Vec<&String> = connect["subs"].as_object().unwrap().keys().collect();
    assert_eq!(subs, ["chat:1", "notifications:ann", "timeline:ann"]);
    assert!(subs.iter().all(|name| session.is_server_side(name)));
}

#[test]
fn tokens_cannot_exceed_the_channel_limit() {
    let channels = |many: usize| json!({ "sub": "ann", "channels": (["topic:a", "topic:b", "topic:c"][..many]) });
    let (session, _) = open(options(), &channels(2));
    assert_eq!(session.channels().count(), 4, "with the two that everybody has");
    let connect = json!({ "id": 1, "connect": { "token": signed(&channels(3)) } });
    assert_eq!(close(say(&mut fresh(options()), &connect, at(0))), 3505);
}

#[test]
fn private_channels_of_others_open_to_no_token() {
    for theirs in ["timeline:bo", "notifications:bo", "none:1"] {
        let mut session = fresh(options());
        let token = signed(&json!({ "sub": "ann", "channels": [theirs] }));
        assert_eq!(close(say(&mut session, &json!({ "id": 1, "connect": { "token": token } }), at(0))), 3501);
        let (mut session, _) = ann();
        let token = signed(&json!({ "sub": "ann", "channel": theirs }));
        assert!(matches!(code(subscribe(&mut session, theirs, &token, at(0))), 102 | 103), "{theirs}");
    }
}

#[test]
fn expired_tokens_close_the_session() {
    let mut session = fresh(options());
    let connect = json!({ "id": 1, "connect": { "token": signed(&json!({ "sub": "ann", "exp": UNIX })) } });
    assert_eq!(code(say(&mut session, &connect, at(0))), 109);
    assert_eq!(session.due(at(10)), [DueAction::Close(Disconnect::STALE)]);
    assert_eq!(close(say(&mut session, &connect, at(0))), 3501);
}

#[test]
fn sessions_without_connect_are_stale() {
    let mut session = fresh(options());
    assert_eq!(session.next_due(at(0)), 10_000);
    assert!(session.due(at(9)).is_empty());
    assert_eq!(session.due(at(10)), [DueAction::Close(Disconnect::STALE)]);
}

#[test]
fn each_ping_requires_one_pong() {
    let (mut session, _) = ann();
    let pong = json!({});
    assert_eq!(close(say(&mut session, &pong, at(1))), 3501, "nobody asked");
    assert_eq!(session.next_due(at(0)), 25_000);
    assert_eq!(session.due(at(25)), [DueAction::Ping]);
    assert!(session.due(at(32)).is_empty());
    assert!(matches!(say(&mut session, &pong, at(32)), Action::Nothing));
    assert_eq!(close(say(&mut session, &pong, at(32))), 3501, "one was enough");
    assert_eq!(session.next_due(at(32)), 50_000, "pings keep their rhythm");
    assert_eq!(session.due(at(50)), [DueAction::Ping]);
    assert_eq!(session.due(at(58)), [DueAction::Close(Disconnect::NO_PONG)]);
}

#[test]
fn the_first_ping_is_spread_over_half_an_interval() {
    let first = |jitter| {
        let address = Ipv4Addr::LOCALHOST.into();
        let pings = PingKind::Message;
        let client = SessionClient { id: "c".into(), address, pings, headers: None };
        let mut session = Session::new(Arc::new(options()), client, at(0), jitter);
        let connect = json!({ "id": 1, "connect": { "token": signed(&json!({ "sub": "ann" })) } });
        assert!(matches!(say(&mut session, &connect, at(0)), Action::Open(_)));
        said(session.opened(1, Vec::new(), at(0)));
        session.next_due(at(0))
    };
    assert_eq!((first(0.0), first(0.5), first(1.0)), (25_000, 18_750, 12_500));
}

#[test]
fn connections_expire_after_a_delay() {
    let (mut session, _) = open(options(), &json!({ "sub": "ann", "exp": UNIX + 5 }));
    assert_eq!(session.next_due(at(0)), 25_000, "the ping comes before");
    assert_eq!(session.due(at(29)), [DueAction::Ping]);
    assert_eq!(session.next_due(at(29)), 30_000);
    assert_eq!(session.due(at(30)), [DueAction::Close(Disconnect::EXPIRED)]);
}

#[test]
fn refreshes_postpone_the_expiry() {
    let (mut session, _) = open(options(), &json!({ "sub": "ann", "exp": UNIX + 5 }));
    let mut refresh = |claims: Value, now| {
        let token = if claims.is_null() { String::new() } else { signed(&claims) };
        say(&mut session, &json!({ "id": 3, "refresh": { "token": token } }), now)
    };
    assert_eq!(close(refresh(json!(null), at(6))), 3501);
    assert_eq!(close(refresh(json!({ "sub": "bo" }), at(6))), 3500);
    assert_eq!(close(refresh(json!({ "sub": "ann", "channel": "chat:1" }), at(6))), 3500);
    assert_eq!(close(refresh(json!({ "sub": "ann", "exp": UNIX + 6 }), at(6))), 3005);
    assert_eq!(code(refresh(json!({ "sub": "ann", "expire_at": UNIX + 6 }), at(6))), 110);
    assert_eq!(close(refresh(json!({ "sub": "ann", "channels": ["chat:1"] }), at(6))), 3010);
    let reply = said(refresh(json!({ "sub": "ann", "exp": UNIX + 60 }), at(6)));
    assert_eq!(reply["refresh"]["ttl"], 54);
    assert_eq!(session.due(at(30)), [DueAction::Ping], "not its end");
}

#[test]
fn times_that_are_not_in_seconds_are_refused() {
    for time in [u64::MAX, u64::MAX - 1, 1 << 60, UNIX * 1_000, 253_402_300_800] {
        for claim in ["exp", "nbf", "iat", "expire_at"] {
            let mut claims = json!({ "sub": "ann" });
            claims[claim] = time.into();
            let connect = json!({ "id": 1, "connect": { "token": signed(&claims) } });
            let mut session = fresh(options());
            assert_eq!(close(say(&mut session, &connect, at(0))), 3500, "{claim}: {time}");
        }
    }
    let (mut session, reply) = open(options(), &json!({ "sub": "ann", "expire_at": 253_402_300_799_u64 }));
    assert_eq!(reply["connect"]["ttl"], u64::from(u32::MAX));
    assert_eq!((session.next_due(at(0)), session.due(at(1))), (25_000, Vec::new()));
}

#[test]
fn subscriptions_expire_after_a_delay() {
    let (mut session, _) = ann();
    let token = |exp: u64| signed(&json!({ "sub": "ann", "channel": "$chat:1", "exp": UNIX + exp }));
    let reply = enter(&mut session, "$chat:1", &token(3), at(0));
    assert_eq!((&reply["subscribe"]["expires"], reply["subscribe"]["ttl"].as_u64()), (&json!(true), Some(3)));
    let refresh = |token: String| json!({ "id": 4, "sub_refresh": { "channel": "$chat:1", "token": token } });
    let reply = said(say(&mut session, &refresh(token(20)), at(4)));
    assert_eq!(reply["sub_refresh"]["ttl"], 16);
    assert_eq!(session.due(at(28)), [DueAction::Ping], "it was put off");
    assert!(matches!(say(&mut session, &json!({}), at(28)), Action::Nothing));
    assert_eq!(session.next_due(at(28)), 45_000);
    let dropped = DroppedSubscription { channel: "$chat:1".into(), shown_name: "$chat:1".into() };
    assert_eq!(session.due(at(45)), [DueAction::Expired(dropped)]);
    assert_eq!(code(say(&mut session, &refresh(token(99)), at(46))), 103, "it is not in there any more");
}

#[test]
fn invalid_sub_refreshes_return_errors() {
    let (mut session, _) = ann();
    enter(&mut session, "chat:1", "", at(0));
    let mut refresh = |channel: &str, token: String| {
        say(&mut session, &json!({ "id": 4, "sub_refresh": { "channel": channel, "token": token } }), at(0))
    };
    let token = |user: &str, channel: &str| signed(&json!({ "sub": user, "channel": channel }));
    assert_eq!(close(refresh("", token("ann", "chat:1"))), 3501);
    assert_eq!(code(refresh("chat:2", token("ann", "chat:2"))), 103);
    assert_eq!(code(refresh("chat:1", String::new())), 107);
    assert_eq!(code(refresh("chat:1", "nonsense".into())), 103);
    assert_eq!(code(refresh("chat:1", signed(&json!({ "sub": "ann", "channel": "chat:1", "exp": UNIX })))), 109);
    assert_eq!(code(refresh("chat:1", signed(&json!({ "sub": "ann", "channel": "chat:1", "expire_at": 1 })))), 110);
    assert_eq!(close(refresh("chat:1", token("bo", "chat:1"))), 3500);
}

#[test]
fn subscriptions_follow_namespace_rights() {
    let (mut session, _) = ann();
    assert_eq!(close(subscribe(&mut session, "", "", at(0))), 3501);
    let delta = json!({ "id": 2, "subscribe": { "channel": "chat:1", "delta": "other" } });
    assert_eq!(close(say(&mut session, &delta, at(0))), 3501);
    for (channel, expected) in
        [("topic:of-21-characters", 107), ("none:1", 102), ("chat", 102), ("timeline:ann", 105), ("timeline:bo", 103)]
    {
        assert_eq!(code(subscribe(&mut session, channel, "", at(0))), expected, "{channel}");
    }
    enter(&mut session, "topic:x", "", at(0));
    assert_eq!(code(subscribe(&mut session, "topic:x", "", at(0))), 105);
    enter(&mut session, "chat:1", "", at(0));
    assert_eq!(code(subscribe(&mut session, "topic:y", "", at(0))), 106, "two of its own are allowed");
    let leave = |channel: &str| json!({ "id": 3, "unsubscribe": { "channel": channel } });
    assert!(matches!(say(&mut session, &leave("topic:x"), at(0)), Action::Leave(name, _) if &*name == "topic:x"));
    assert_eq!(said(say(&mut session, &leave("topic:x"), at(0))), json!({ "id": 3, "unsubscribe": {} }));
    assert_eq!(close(say(&mut session, &leave(""), at(0))), 3501);
    enter(&mut session, "topic:y", "", at(0));
}

#[test]
fn subscription_tokens_must_match_channel_and_user() {
    let claims = |user: &str, channel: &str| json!({ "sub": user, "channel": channel });
    let mut of_another_client = claims("ann", "$chat:1");
    of_another_client["client"] = "client-2".into();
    for foreign in [claims("bo", "$chat:1"), claims("", "$chat:1"), claims("ann", "$chat:2"), of_another_client] {
        assert_eq!(close(subscribe(&mut ann().0, "$chat:1", &signed(&foreign), at(0))), 3500, "{foreign}");
    }
    assert_eq!(code(subscribe(&mut ann().0, "$chat:1", "", at(0))), 103);
    assert_eq!(code(subscribe(&mut ann().0, "$chat:1", "nonsense", at(0))), 103);
    assert_eq!(code(subscribe(&mut ann().0, "$chat:1", &signed(&json!({ "sub": "ann" })), at(0))), 103);
    let mut expired = claims("ann", "$chat:1");
    expired["exp"] = UNIX.into();
    assert_eq!(code(subscribe(&mut ann().0, "$chat:1", &signed(&expired), at(0))), 109);
    let mut fits = claims("ann", "$chat:1");
    fits["client"] = "client-1".into();
    enter(&mut ann().0, "$chat:1", &signed(&fits), at(0));
}

#[test]
fn recoveries_start_at_the_clients_position() {
    let (mut session, _) = ann();
    let recover =
        json!({ "id": 2, "subscribe": { "channel": "chat:1", "recover": true, "offset": 1, "epoch": "life" } });
    let Action::Join(join) = say(&mut session, &recover, at(0)) else { panic!("not granted") };
    let missed = Some(vec![serde_json::value::to_raw_value(&json!({ "data": 1, "offset": 2 })).unwrap()]);
    let reply = json_of(session.joined(&join, Joined { missed, ..place() }, at(0)));
    let subscribed = &reply["subscribe"];
    assert_eq!((&subscribed["recovered"], &subscribed["was_recovering"]), (&json!(true), &json!(true)));
    assert_eq!(subscribed["offset"], 1, "the publications move the client on");
    session.dropped("chat:1");
    let Action::Join(join) = say(&mut session, &recover, at(0)) else { panic!("not granted") };
    let reply = json_of(session.joined(&join, place(), at(0)));
    assert_eq!((reply["subscribe"].get("recovered"), reply["subscribe"]["offset"].as_u64()), (None, Some(3)));
}

#[test]
fn presence_requires_a_subscription() {
    let (mut session, _) = ann();
    for kind in ["presence", "presence_stats", "history"] {
        let mut look = |channel: &str| say(&mut session, &json!({ "id": 5, kind: { "channel": channel } }), at(0));
        assert_eq!(close(look("")), 3501, "{kind}");
        assert_eq!(code(look("none:1")), 102, "{kind}");
        assert_eq!(code(look("chat:1")), 103, "{kind}");
    }
    enter(&mut session, "chat:1", "", at(0));
    enter(&mut session, "plain:1", "", at(0));
    let mut ask =
        |kind: &str, channel: &str| say(&mut session, &json!({ "id": 5, kind: { "channel": channel } }), at(0));
    for kind in ["presence", "presence_stats", "history"] {
        assert!(matches!(ask(kind, "chat:1"), Action::Presence(_) | Action::History(_)), "{kind}");
        assert_eq!(code(ask(kind, "plain:1")), 108, "{kind}");
    }
}

#[test]
fn commands_over_the_rate_are_rejected_until_refill() {
    let mut limited = options();
    limited.client.commands_per_second = Some(2);
    let (mut session, _) = open(limited, &json!({ "sub": "ann" }));
    let mut command = |now| code(say(&mut session, &json!({ "id": 2, "ping": {} }), now));
    let start = at(0);
    assert_eq!([command(start), command(start), command(start), command(start)], [108; 4], "a burst of twice as many");
    assert_eq!(command(start), 111);
    let later = SessionTime { ticks: 500, unix: UNIX };
    assert_eq!([command(later), command(later)], [108, 111], "half a second earns one");
}

#[test]
fn unsupported_requests_are_rejected() {
    let (mut session, _) = ann();
    assert_eq!(code(say(&mut session, &json!({ "id": 2, "ping": {} }), at(0))), 108);
    assert_eq!(close(say(&mut session, &json!({ "send": { "data": 1 } }), at(0))), 3508);
    let empty = Command { id: 3, request: None };
    assert_eq!(close(session.command(empty, at(0))), 3501, "a command that asks nothing");
}
