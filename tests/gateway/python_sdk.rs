//! The official Python SDK, `centrifuge-python`, against the server: `tests/sdk/python_sdk.py`.

use std::path::Path;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::NAMESPACES;
use crate::python_packages::python_with;
use crate::server::{API_KEY, SECRET, Server};

/// Lines of the script: nine tests in two encodings.
const TESTS: usize = 18;

async fn all_tests_pass(package: &str) {
    let Some(python) = python_with(package, "centrifuge").await else { return };
    let server = Server::start_with(&[("namespaces", NAMESPACES)]).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk/python_sdk.py");
    let mut command = Command::new(python);
    command.arg(script).kill_on_drop(true).env("FEEDLINE_PORT", server.port().to_string());
    command.env("FEEDLINE_SECRET", SECRET).env("FEEDLINE_KEY", API_KEY);
    let output = timeout(Duration::from_secs(120), command.output()).await.expect("in time").expect("a process");
    let (passed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{package}: after {passed}\n{errors}");
    assert_eq!(passed.lines().count(), TESTS, "{package}: {passed}");
}

#[tokio::test]
async fn the_official_python_sdk_works() {
    all_tests_pass("centrifuge-python==0.7.0").await;
}

#[tokio::test]
async fn the_official_python_sdk_0_5_works() {
    all_tests_pass("centrifuge-python==0.5.0").await;
}
