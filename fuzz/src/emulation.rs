//! Bodies of requests to `/emulation`, in both encodings.

use bytes::Bytes;
use feedline::protocol::{Command, EmulatedData, EmulationRequest, Encoding, decode_binary_frame, decode_frame};
use feedline_test_support::protobuf::{command_frame, emulation_body};
use serde_json::{Value, json};

use crate::script::Script;
use crate::{assert_bounded, drive_open_session};

/// Decodes a body that begins after the first byte, which chooses its form: arbitrary JSON, arbitrary Protobuf, or
/// commands in both encodings, which must be the same then. An open session executes the commands.
///
/// # Panics
/// If an invariant is violated.
pub fn drive_emulation(bytes: &[u8]) {
    let Some((form, rest)) = bytes.split_first() else { return };
    match form % 4 {
        0 => drive_body(Encoding::Json, rest),
        1 => drive_body(Encoding::Protobuf, rest),
        _ => drive_both(rest),
    }
}

fn drive_body(encoding: Encoding, bytes: &[u8]) {
    let body = Bytes::copy_from_slice(bytes);
    let Ok(request) = encoding.decode_emulation(&body) else { return };
    let EmulationRequest { node, session, data } = &request;
    // Bounds that the server applies to a body also hold for its members.
    assert!(node.len() + session.len() + data.len() <= bytes.len(), "{request:?} is longer than its body");
    let again = match data {
        EmulatedData::Text(text) => json_body(session, node, text),
        EmulatedData::Binary(binary) => emulation_body(session, node, binary.clone()).into(),
    };
    assert_eq!(encoding.decode_emulation(&again).as_ref(), Ok(&request));
    if let Some(commands) = commands_of(data) {
        drive_open_session(commands);
    }
}

/// The same commands in both encodings.
fn drive_both(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let (session, node) = (script.text(), script.text());
    let commands = script.commands();
    let lines: Vec<String> = commands.iter().map(Value::to_string).collect();
    let frame: Vec<u8> = commands.iter().flat_map(command_frame).collect();
    let bodies = [
        (Encoding::Json, json_body(&session, &node, &lines.join("\n"))),
        (Encoding::Protobuf, emulation_body(&session, &node, frame.into()).into()),
    ];
    let [in_json, in_protobuf] = bodies.map(|(encoding, body)| {
        let request = encoding.decode_emulation(&body).expect("a request");
        assert_eq!((&request.session, &request.node), (&session, &node));
        commands_of(&request.data)
    });
    assert_eq!(format!("{in_json:?}"), format!("{in_protobuf:?}"));
    if let Some(commands) = in_json {
        drive_open_session(commands);
    }
}

fn json_body(session: &str, node: &str, data: &str) -> Bytes {
    json!({ "session": session, "node": node, "data": data }).to_string().into()
}

/// The commands, as the connection of the stream decodes them; `None` if it closes.
fn commands_of(data: &EmulatedData) -> Option<Vec<Command>> {
    let commands = match data {
        EmulatedData::Text(text) => decode_frame(text).ok()?,
        EmulatedData::Binary(bytes) => decode_binary_frame(bytes).ok()?,
    };
    let shortest = if matches!(data, EmulatedData::Text(_)) { 11 } else { 3 };
    assert_bounded(&commands, shortest * (commands.len() - 1) <= data.len());
    Some(commands)
}
