//! The official Python client of the server API, `cent`, against the server: `tests/sdk/cent_methods.py`.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

use crate::NAMESPACES;
use crate::client::{Client, Heard};
use crate::python_packages::python_with;
use crate::server::{API_KEY, Server, token};

/// The tested version.
const PACKAGE: &str = "cent==5.2.*";

/// Connects a user. Returns the id of the connection, too.
async fn connect(server: &Server, user: &str) -> (Client, String) {
    let mut client = Client::open(server).await;
    let connected = client.done(json!({ "connect": { "token": token(user) } })).await;
    (client, connected["connect"]["client"].as_str().expect("an id").to_owned())
}

#[tokio::test]
async fn the_official_python_client_calls_every_method() {
    let Some(python) = python_with(PACKAGE, "cent").await else { return };
    let server = Server::start_with(&[("namespaces", NAMESPACES)]).await;
    let (mut first, _) = connect(&server, "ann").await;
    let (mut kept, client_to_keep) = connect(&server, "ann").await;
    let (mut bo, _) = connect(&server, "bo").await;
    bo.subscribe("chat:1").await;

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk/cent_methods.py");
    let mut command = Command::new(python);
    command.arg(script).kill_on_drop(true).env("FEEDLINE_API", format!("http://127.0.0.1:{}/api", server.port()));
    command.env("FEEDLINE_KEY", API_KEY).env("CLIENT_TO_KEEP", &client_to_keep);
    let output = timeout(Duration::from_secs(60), command.output()).await.expect("in time").expect("a process");
    let (passed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "after {passed}\n{errors}");
    assert_eq!(passed.lines().count(), 19, "{passed}");

    for expected in [1, 2, 3, 4] {
        assert_eq!(bo.publication("chat:1").await["data"]["n"], expected);
    }
    let subscribed = kept.push_of("chat:3", "subscribe").await;
    assert_eq!((&subscribed["recoverable"], &subscribed["data"]), (&json!(true), &json!({ "hello": 1 })));
    assert_eq!(kept.push_of("chat:3", "unsubscribe").await["code"], 2000);
    let pushes = kept.pushed().await;
    let refreshed: Vec<&Value> = pushes.iter().filter_map(|push| push.get("refresh")).collect();
    assert!(refreshed.len() == 1 && refreshed[0]["expires"] == true, "{pushes:?}");
    assert_eq!(first.push_of("chat:3", "subscribe").await["data"], json!({ "hello": 1 }));
    loop {
        match first.hear().await {
            Heard::Closed(code, reason) => break assert_eq!((code, &*reason), (4001, "enough")),
            other => drop(other),
        }
    }
}
