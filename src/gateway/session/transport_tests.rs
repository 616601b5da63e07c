//! The few differences that the transport and the encoding of a client make to its session.

use serde_json::json;

use super::tests::{ann, at, close, code, connecting, opened, options};
use super::{Action, DueAction, PingKind};
use crate::protocol::{Command, CommandBody};

fn empty() -> Command {
    Command { id: 0, request: None }
}

#[test]
fn pings_of_the_transport_need_its_pongs() {
    let (mut session, reply) = opened(connecting(options(), PingKind::Frame), &json!({ "sub": "ann" }));
    assert!(reply["connect"].get("ping").is_none() && reply["connect"].get("pong").is_none(), "{reply}");
    session.pong_frame(at(1));
    assert_eq!(session.due(at(25)), [DueAction::Ping], "a pong that nobody asked for changes nothing");
    session.pong_frame(at(32));
    assert_eq!(session.due(at(34)), []);
    assert_eq!(session.due(at(50)), [DueAction::Ping]);
    let missed = session.due(at(58));
    assert!(matches!(&missed[..], [DueAction::Close(why)] if why.code == 3012), "{missed:?}");
    assert_eq!(close(session.command(empty(), at(58))), 3501, "an empty command answers no ping of the transport");
}

#[test]
fn pongs_of_the_transport_answer_no_message() {
    let (mut session, _) = ann();
    assert_eq!(session.due(at(25)), [DueAction::Ping]);
    session.pong_frame(at(26));
    let missed = session.due(at(33));
    assert!(matches!(&missed[..], [DueAction::Close(why)] if why.code == 3012), "{missed:?}");
    assert!(matches!(session.command(empty(), at(33)), Action::Nothing));
}

#[test]
fn pings_that_no_client_answers_go_on() {
    let (mut session, reply) = opened(connecting(options(), PingKind::OneWay), &json!({ "sub": "ann" }));
    assert!(reply["connect"]["ping"] == 25 && reply["connect"].get("pong").is_none(), "{reply}");
    for ping in 1..=4 {
        assert_eq!(session.due(at(25 * ping)), [DueAction::Ping]);
        assert_eq!(session.due(at(25 * ping + 9)), [], "no pong is missing");
        assert!(!session.probe(at(25 * ping + 9)), "the client cannot give a sign");
    }
}

#[test]
fn data_that_is_not_json_is_a_bad_request() {
    let (mut session, _) = ann();
    assert_eq!(code(session.command(Command { id: 7, request: Some(CommandBody::InvalidData) }, at(0))), 107);
}
