//! `feedline demo`.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::{Value, json};
use tokio::process::Command;

/// Twice what is promised to users, because other tests run beside this one.
const FIRST_LINE: Duration = Duration::from_secs(10);
const POST_INTERVAL: Duration = Duration::from_secs(20);
const STOP: Duration = Duration::from_secs(16);

/// The newest post of the user's timeline, and the number of posts.
async fn timeline(client: &Client, server: &str, token: &str) -> (u64, usize) {
    let request = client.get(format!("{server}/api/v1/timeline")).bearer_auth(token);
    let page: Value = request.send().await.expect("an answer").json().await.expect("JSON");
    let items = page["items"].as_array().unwrap_or_else(|| panic!("no items: {page}"));
    (items.first().and_then(|item| item["id"].as_u64()).unwrap_or(0), items.len())
}

#[tokio::test]
async fn the_demonstration_is_alive_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    // A configuration and an environment of another instance: neither may be used.
    std::fs::write(folder.path().join("config.toml"), "[ledger]\nurl = \"sqlite:mine.db\"\n").expect("a file");
    let begun = Instant::now();
    let mut demo = Command::new(env!("CARGO_BIN_EXE_feedline"))
        .arg("demo")
        .current_dir(&folder)
        .env_clear()
        .env("TMPDIR", folder.path())
        .env("FEEDLINE__LEDGER__URL", "sqlite:mine.db")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("it starts");
    let stdout = demo.stdout.take().expect("a pipe").into_owned_fd().expect("a descriptor");
    let mut lines = BufReader::new(std::fs::File::from(stdout)).lines();
    let (first, lines) = tokio::task::spawn_blocking(move || (lines.next(), lines)).await.expect("a line");
    let first = first.expect("a line").expect("text");
    assert!(begun.elapsed() < FIRST_LINE, "{:?}", begun.elapsed());
    let address = first.split("http://").nth(1).expect("an address");
    let (host, login) = address.split_once("/#demo=").expect("how the page signs in");
    let (user, password) = login.split_once(':').expect("a user and a password");
    let server = format!("http://{host}");
    let client = Client::builder().no_proxy().build().expect("a client");
    let login = json!({ "user": user, "password": password });
    let session = client.post(format!("{server}/api/v1/sessions")).json(&login).send().await.expect("an answer");
    let session: Value = session.json().await.expect("JSON");
    let token = session["token"].as_str().unwrap_or_else(|| panic!("no token: {session}"));

    let (newest, count) = timeline(&client, &server, token).await;
    assert!(count >= 5, "{count} posts");
    let begun = Instant::now();
    while timeline(&client, &server, token).await.0 == newest {
        assert!(begun.elapsed() < POST_INTERVAL, "nobody posts");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }

    let id = demo.id().expect("it runs").to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().await.expect("kill").success());
    let status = tokio::time::timeout(STOP, demo.wait()).await.expect("it ends").expect("a status");
    assert_eq!(status.code(), Some(0));
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(rest.len(), 1, "one more line says what to press: {rest:?}");
    let names: Vec<_> =
        std::fs::read_dir(&folder).expect("a folder").map(|it| it.expect("a name").file_name()).collect();
    assert_eq!(names, ["config.toml"], "the folder of the demonstration is gone");
}
