//! The protocol of service managers.

use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn a_service_manager_learns_that_the_server_is_ready_alive_and_stopping() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let mut server = Command::new(env!("CARGO_BIN_EXE_feedline"))
        .current_dir(&folder)
        .env_clear()
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "400000")
        .env("FEEDLINE__SERVER__LISTEN", "127.0.0.1:0")
        .env("FEEDLINE__SERVER__DRAIN", "0s")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let state = || {
        let mut buffer = [0; 64];
        let length = manager.recv(&mut buffer).expect("a datagram");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert_eq!(state(), "READY=1");
    for _ in 0..3 {
        assert_eq!(state(), "WATCHDOG=1");
    }
    // Signals that a server could die of.
    for signal in ["-USR1", "-USR2", "-QUIT", "-TERM"] {
        let sent = Command::new("kill").args([signal, &server.id().to_string()]).status();
        assert!(sent.expect("to run kill").success());
    }
    while state() != "STOPPING=1" {}
    assert!(server.wait().expect("a status").success());
}
