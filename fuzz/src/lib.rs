//! Drives the decoder and the session with arbitrary frames at arbitrary times, and checks their invariants. The fuzz
//! target and a property test call [`drive`].

mod emulation;
mod script;

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;

use feedline::gateway::channels::join::{Join, Joined};
use feedline::gateway::session::{Action, DueAction, PingKind, Session, SessionClient, SessionOptions, SessionTime};
use feedline::model::{Channel, Position, UserId};
use feedline::protocol::{Command, Disconnect, Encoding, MalformedFrame, Reply, decode_binary_frame, decode_frame};
use feedline_test_support::protobuf::command_frame;
use serde_json::{Value, json};

pub use emulation::drive_emulation;
pub use script::Script;
use script::{Step, options, valid_token};

/// The server side of one connection, without real stores.
struct Driver {
    options: Arc<SessionOptions>,
    session: Session,
    commands: VecDeque<Command>,
    /// The granted action that the stores have not answered yet.
    running: Option<Action>,
    now: SessionTime,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Fresh,
    Open,
    Refused,
}

/// Runs a session with steps from arbitrary bytes. Each command is also encoded as Protobuf, and must be the same then.
///
/// # Panics
/// If an invariant is violated.
pub fn drive(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let mut driver = Driver::new(script.fraction());
    while let Some(step) = script.step() {
        if driver.step(step).is_some() {
            return;
        }
        driver.check();
    }
}

/// Sends a Protobuf frame of arbitrary bytes to an open session.
///
/// # Panics
/// If an invariant is violated.
pub fn drive_protobuf(bytes: &[u8]) {
    let Ok(commands) = decode_binary_frame(bytes) else { return };
    assert_bounded(&commands, 3 * (commands.len() - 1) <= bytes.len());
    drive_open_session(commands);
}

/// Opens a session, and executes commands in it.
fn drive_open_session(commands: Vec<Command>) {
    let mut driver = Driver::new(0.0);
    let connect = json!({ "id": 1, "connect": { "token": valid_token() } });
    assert!(driver.step(Step::Commands(vec![connect])).is_none() && driver.step(Step::Answer(true)).is_none());
    driver.commands.extend(commands);
    while driver.advance().is_none() && driver.running.is_some() {
        driver.answer(true);
        driver.check();
    }
}

/// The commands of a frame, which must mean the same in both encodings.
fn decode_both(commands: &[Value]) -> Result<Vec<Command>, MalformedFrame> {
    let lines: Vec<String> = commands.iter().map(Value::to_string).collect();
    let in_json = decode_frame(&lines.join("\n"));
    let in_protobuf = decode_binary_frame(&commands.iter().flat_map(command_frame).collect::<Vec<u8>>());
    assert_eq!(format!("{in_json:?}"), format!("{in_protobuf:?}"));
    in_json
}

/// Checks the number of commands in a frame: `fits` is whether each has as many bytes as the shortest, besides a pong.
fn assert_bounded(commands: &[Command], fits: bool) {
    assert!(fits && commands.len() <= 4_096, "{} commands in a frame", commands.len());
    assert!(commands.iter().all(|command| command.id == 0 || command.request.is_some()), "an empty command");
    assert!(commands.iter().filter(|command| command.is_pong()).count() <= 1, "two pongs");
}

impl Driver {
    fn new(jitter: f64) -> Self {
        let options = options();
        let now = SessionTime { ticks: 0, unix: script::UNIX };
        let (address, pings) = (Ipv4Addr::LOCALHOST.into(), PingKind::Message);
        let client = SessionClient { id: "the-client".into(), address, pings, headers: None };
        let session = Session::new(Arc::clone(&options), client, now, jitter);
        Self { options, session, commands: VecDeque::new(), running: None, now, stage: Stage::Fresh }
    }

    /// Executes a step. Returns the close code if the connection has ended.
    fn step(&mut self, step: Step) -> Option<Disconnect> {
        match step {
            Step::Frame(frame) => match decode_frame(&frame) {
                Ok(commands) => {
                    // The shortest command but a pong is `{"send":1}`.
                    assert_bounded(&commands, 11 * (commands.len() - 1) <= frame.len());
                    self.commands.extend(commands);
                }
                Err(_) => return Some(Disconnect::BAD_REQUEST),
            },
            Step::Commands(commands) => match decode_both(&commands) {
                Ok(decoded) => self.commands.extend(decoded),
                Err(MalformedFrame) => return Some(Disconnect::BAD_REQUEST),
            },
            Step::Wait(millis) => {
                self.now.ticks = self.now.ticks.saturating_add(millis);
                self.now.unix = self.now.unix.saturating_add(millis / 1_000);
                return self.due();
            }
            Step::Answer(works) => self.answer(works),
            Step::Drop(channel) => {
                let was_in = self.is_in(&channel);
                assert_eq!(self.session.dropped(&channel).is_some(), was_in);
                assert!(!self.is_in(&channel));
            }
        }
        self.advance()
    }

    fn advance(&mut self) -> Option<Disconnect> {
        while self.running.is_none()
            && let Some(command) = self.commands.pop_front()
        {
            let id = command.id;
            let before: Vec<Arc<str>> = self.session.channels().cloned().collect();
            match self.session.command(command, self.now) {
                Action::Close(why) => return Some(why),
                Action::Nothing => assert_eq!(self.stage, Stage::Open, "only a pong is silent"),
                Action::Reply(reply) => self.replied(id, reply),
                Action::Leave(channel, reply) => {
                    assert!(before.contains(&channel), "left {channel} without having been there");
                    self.replied(id, reply);
                }
                granted => {
                    self.granted(id, &granted);
                    self.running = Some(granted);
                }
            }
        }
        None
    }

    fn replied(&mut self, id: u32, reply: Reply) {
        let reply = answer_to(id, reply);
        if self.stage == Stage::Fresh {
            assert_eq!(reply["error"]["code"], 109, "a fresh session said {reply}");
            self.stage = Stage::Refused;
        }
        assert!(self.stage != Stage::Refused || reply.get("error").is_some());
    }

    /// Checks that the session may grant this action.
    fn granted(&self, id: u32, action: &Action) {
        let open = self.stage == Stage::Open;
        match action {
            Action::Open(opening) => {
                assert!(self.stage == Stage::Fresh && opening.id == id);
                let user = opening.user.as_ref();
                opening
                    .joins
                    .iter()
                    .for_each(|join| assert!(is_own(&join.channel.channel, user), "opened {}", join.name));
            }
            Action::Join(join) => {
                assert!(open && join.id == id && !self.is_in(&join.name), "joined {} twice", join.name);
                assert!(
                    !matches!(join.channel.channel, Channel::Timeline(_) | Channel::Notifications(_)),
                    "a client let itself into {}",
                    join.name
                );
                assert!(join.name.len() <= self.options.client.channel_length);
                let mine = self.session.channels().filter(|name| !self.session.is_server_side(name)).count();
                assert!(mine < self.options.client.channels);
            }
            Action::Publish(publish) => {
                assert!(open && publish.id == id && publish.channel.is_app(), "published to {}", publish.name);
                let members = [b"{", &*publish.members, b"}"].concat();
                serde_json::from_slice::<Value>(&members).expect("a publication is JSON");
                assert!(!members.contains(&b'\n'));
            }
            Action::Presence(look) => assert!(open && look.id == id && self.is_in(&look.name)),
            Action::History(history) => assert!(open && history.id == id && self.is_in(&history.name)),
            Action::Rpc(call) => assert!(open && call.id == id),
            other => panic!("granted {other:?}"),
        }
    }

    /// Simulates the stores' answer to the running action.
    fn answer(&mut self, works: bool) {
        let joined = |join: &Join| Joined {
            position: join.channel.has_log().then(|| Position { offset: 7, epoch: "life".into() }),
            missed: join.recover.recover.then(Vec::new),
        };
        match self.running.take() {
            Some(Action::Open(opening)) if works => {
                let joins = opening.joins.into_iter().map(|join| {
                    let joined = joined(&join);
                    (join, joined)
                });
                let joins = joins.collect();
                let Action::Reply(reply) = self.session.opened(opening.id, joins, self.now) else {
                    panic!("an opened session has nothing to say");
                };
                assert_eq!(answer_to(opening.id, reply)["connect"]["client"], "the-client");
                self.stage = Stage::Open;
            }
            Some(Action::Open(opening)) => {
                let Action::Reply(reply) = self.session.not_opened(opening.id) else { panic!("not refused") };
                assert_eq!(answer_to(opening.id, reply)["error"]["code"], 100);
                self.stage = Stage::Refused;
            }
            Some(Action::Join(join)) if works => {
                let place = joined(&join);
                let reply = self.session.joined(&join, place, self.now);
                assert!(answer_to(join.id, reply).get("subscribe").is_some());
                assert!(self.is_in(&join.name));
            }
            _ => {}
        }
    }

    fn due(&mut self) -> Option<Disconnect> {
        for due in self.session.due(self.now) {
            match due {
                DueAction::Close(why) => return Some(why),
                DueAction::Expired(dropped) => {
                    assert!(!self.is_in(&dropped.channel), "{dropped:?} is over and still there")
                }
                DueAction::Ping => assert_eq!(self.stage, Stage::Open),
                DueAction::Ask(target) => panic!("asks about {target:?} without hooks"),
            }
        }
        let next = self.session.next_due(self.now);
        assert!(next > self.now.ticks, "something is due at {next} and was not done at {}", self.now.ticks);
        None
    }

    fn is_in(&self, channel: &str) -> bool {
        self.session.channels().any(|name| **name == *channel)
    }

    fn check(&self) {
        let mut names: Vec<&Arc<str>> = self.session.channels().collect();
        assert!(self.stage == Stage::Open || names.is_empty());
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "in a channel twice");
    }
}

/// Whether a channel is public, or belongs to this user.
fn is_own(channel: &Channel, user: Option<&UserId>) -> bool {
    match channel {
        Channel::Timeline(owner) | Channel::Notifications(owner) => user == Some(owner),
        _ => true,
    }
}

/// Parses a reply: one line of JSON with the id of the command.
fn answer_to(id: u32, reply: Reply) -> Value {
    let mut frame = Vec::new();
    Encoding::Json.append_reply(&mut frame, reply);
    assert!(!frame.contains(&b'\n'), "a line break separates replies");
    let reply: Value = serde_json::from_slice(&frame).expect("a reply is JSON");
    assert_eq!(reply["id"], id, "{reply}");
    reply
}
