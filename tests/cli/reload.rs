//! SIGHUP.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A server that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn hang_up(server: &Running) {
    let sent = Command::new("kill").args(["-HUP", &server.0.id().to_string()]).status();
    assert!(sent.expect("to run kill").success());
}

/// Waits until the log has a text.
fn until_logged(log: &Path, text: &str) {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let logged = fs::read_to_string(log).unwrap_or_default();
        if logged.contains(text) {
            return;
        }
        assert!(Instant::now() < until, "{text:?} is not logged:\n{logged}");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_hangup_reloads_the_log_level_and_a_broken_file_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config.toml");
    let log = folder.path().join("log");
    fs::write(&file, "[server]\nlisten = \"127.0.0.1:0\"\ndrain = \"0s\"\n").expect("a file");
    let server = Command::new(env!("CARGO_BIN_EXE_feedline"))
        .current_dir(&folder)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&log).expect("a file"))
        .spawn()
        .expect("it starts");
    let mut server = Running(server);
    until_logged(&log, "serving");
    fs::write(&file, "[server]\nlog_levle = \"debug\"\n").expect("a file");
    hang_up(&server);
    until_logged(&log, "the configuration was not reloaded");
    until_logged(&log, "log_level");
    assert!(!fs::read_to_string(&log).expect("a log").contains("DEBUG"));
    let new = "[server]\nlisten = \"127.0.0.1:0\"\ndrain = \"0s\"\nlog_level = \"debug\"\n[limits]\ntext = 77\n";
    fs::write(&file, new).expect("a file");
    hang_up(&server);
    until_logged(&log, "other changes of the configuration need a restart");
    let logged = fs::read_to_string(&log).expect("a log");
    let address = logged.split("address=").nth(1).and_then(|rest| rest.split(' ').next()).expect("an address");
    let mut connection = TcpStream::connect(address).expect("a connection");
    connection.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").expect("a request");
    until_logged(&log, "DEBUG");
    assert!(server.0.try_wait().expect("a state").is_none(), "it serves on");
}
