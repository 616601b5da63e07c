//! The command line as users run it: in an empty directory, with an empty environment.

mod check_config;
mod demo;
mod doctor;
mod listening;
mod notify;
mod output;
mod reload;
mod status;
mod transfer;

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use feedline::auth::Verifier;
use feedline::config::{Config, Secrets};
use tempfile::TempDir;

fn feedline(dir: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_feedline"));
    command.args(args).current_dir(dir).env_clear().stdin(Stdio::null());
    command
}

fn run(dir: &TempDir, args: &[&str]) -> Output {
    feedline(dir, args).output().unwrap()
}

fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn err(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn entries(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// The configuration and the secrets as a process started in the directory loads them.
fn configured(dir: &TempDir, text: &str) -> (Config, Secrets) {
    let data = dir.path().join("data").display().to_string();
    let env = [("FEEDLINE__SERVER__DATA_DIR".to_owned(), data)];
    let config = Config::parse(text, env.into_iter()).unwrap();
    let secrets = Secrets::load(&config).unwrap();
    (config, secrets)
}

#[test]
fn check_config_checks_the_outlet() {
    let dir = tempfile::tempdir().unwrap();
    let check = |text: &str| {
        fs::write(dir.path().join("config.toml"), text).unwrap();
        run(&dir, &["check-config"])
    };
    let webhook = |url: &str| {
        let secrets = "secrets = [\"a-secret-of-thirty-two-characters\"]";
        format!("[[outlet.webhooks]]\nname = \"app\"\nurl = \"{url}\"\n{secrets}\n")
    };
    assert!(check(&webhook("https://backend.example/x")).status.success());
    for url in ["backend.example", "http://backend.example/x", "https://10.0.0.1/x", "https://localhost/?key=hidden"] {
        let checked = check(&webhook(url));
        assert!(!checked.status.success(), "{url}");
        assert!(err(&checked).contains("the url of the webhook \"app\"") && !err(&checked).contains("hidden"), "{url}");
    }
    let opened = "[outlet]\nallow_networks = [\"10.0.0.0/8\"]\n".to_owned();
    assert!(check(&(opened + &webhook("http://10.0.0.1/x"))).status.success());
    let streamed = check("[outlet]\nstream = true\n");
    assert!(err(&streamed).contains("outlet.stream needs Redis"), "{streamed:?}");
}

#[test]
fn check_config_checks_the_push_providers() {
    let dir = tempfile::tempdir().unwrap();
    let check = |keys: &str| {
        fs::write(dir.path().join("config.toml"), format!("[push]\nenabled = true\n{keys}\n")).unwrap();
        run(&dir, &["check-config"])
    };
    let private = "vapid_private_key = \"yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw\"";
    let subject = "vapid_subject = \"mailto:a@b.example\"";
    let vapid = format!("{private}\n{subject}");
    let right = check(&vapid);
    assert!(right.status.success(), "{right:?}");
    let pem = "'''-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----\n'''";
    let apns = format!("apns_key = {pem}\napns_key_id = \"KEY1234567\"\napns_team_id = \"TEAM123456\"");
    for (keys, place) in [
        (&*format!("vapid_private_key = \"SECRET\"\n{subject}"), "push.vapid_private_key"),
        (private, "push.vapid_subject"),
        (&*format!("{apns}\napns_topic = \"com.example.app\""), "push.apns_key"),
        (&apns, "push.apns_topic"),
        ("fcm_service_account = '{\"type\":\"SECRET\"}'", "push.fcm_service_account"),
        ("fcm_service_account = \"missing.json\"", "push.fcm_service_account"),
        (&*format!("{vapid}\nca_certificates = \"-----BEGIN SECRET\""), "push.ca_certificates"),
        ("webhook_secrets = [\"SECRET\"]", "push.webhook_secrets"),
        ("endpoints_allow = [\"https://push.example/\"]", "push.endpoints_allow"),
        ("endpoints_deny = [\"*.\"]", "push.endpoints_deny"),
        ("allow_networks = [\"local\"]", "push.allow_networks"),
    ] {
        let checked = check(keys);
        assert!(!checked.status.success(), "{keys}");
        assert!(err(&checked).contains(place), "{keys}: {}", err(&checked));
        assert!(!err(&checked).contains("SECRET"), "{keys}: {}", err(&checked));
    }
}

#[test]
fn check_config_reports_valid_and_creates_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let checked = run(&dir, &["check-config"]);
    assert!(checked.status.success(), "{checked:?}");
    assert_eq!(out(&checked), "there is no config.toml; the defaults and the environment are valid\n");
    fs::write(dir.path().join("config.toml"), "[timeline]\nlength = 500\n").unwrap();
    assert_eq!(out(&run(&dir, &["check-config"])), "config.toml is valid\n");
    fs::write(dir.path().join("other.toml"), "[server]\ndrain = \"1s\"\n").unwrap();
    assert_eq!(out(&run(&dir, &["check-config", "--config", "other.toml"])), "other.toml is valid\n");
    assert_eq!(out(&run(&dir, &["--config", "other.toml", "check-config"])), "other.toml is valid\n");
    assert_eq!(entries(dir.path()), ["config.toml", "other.toml"]);
}

#[test]
fn invalid_configurations_exit_with_2_and_list_every_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.toml"), "[server]\nlisen = \"x\"\n[timeline]\nlength = 0\n").unwrap();
    for args in [&["check-config"][..], &["token", "--user", "ann"]] {
        let mut command = feedline(&dir, args);
        let checked = command.env("FEEDLINE__CLIENT__CHANELS", "5").output().unwrap();
        assert_eq!((checked.status.code(), out(&checked)), (Some(2), ""), "{checked:?}");
        let lines: Vec<&str> = err(&checked).lines().collect();
        assert_eq!(
            lines,
            [
                "config.toml:4:1: timeline.length: expected a whole number from 1 to 100000, not 0",
                "config.toml:2:1: server.lisen: there is no such key; did you mean server.listen?",
                "FEEDLINE__CLIENT__CHANELS: there is no such key; did you mean FEEDLINE__CLIENT__CHANNELS?",
            ]
        );
    }
    let missing = run(&dir, &["check-config", "--config", "missing.toml"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(err(&missing).starts_with("missing.toml: cannot be read: "), "{missing:?}");
    assert_eq!(entries(dir.path()), ["config.toml"], "nothing was created");
}

/// Starts the server, reads its startup output, and stops it. Returns the greeting lines and the log.
fn serve(dir: &TempDir, args: &[&str]) -> (Vec<String>, String) {
    let mut serve = feedline(dir, args);
    serve.env("FEEDLINE__SERVER__LISTEN", "127.0.0.1:0").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = serve.spawn().unwrap();
    let greeting = BufReader::new(child.stdout.take().unwrap()).lines().take(4).map(Result::unwrap).collect();
    let stopped = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    (greeting, err(&ended).to_owned())
}

#[test]
fn serve_prints_addresses_and_logs_text_into_files() {
    let dir = tempfile::tempdir().unwrap();
    let (greeting, log) = serve(&dir, &[]);
    assert!(greeting[0].contains(" is at http://127.0.0.1:"), "{greeting:?}");
    let rest =
        ["  broker   memory", "  ledger   sqlite at data/feedline.db", "  secrets  created in data/secrets.toml"];
    assert_eq!(greeting[1..], rest);
    assert!(log.contains("stopped") && !log.contains('\x1b'), "{log:?}");

    let (greeting, log) = serve(&dir, &["--log-format", "json", "serve"]);
    assert_eq!(greeting[3], "  secrets  in data/secrets.toml");
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["timestamp"].is_string() && line["level"].is_string() && line["message"].is_string(), "{line}");
    }

    std::fs::write(dir.path().join("below.toml"), "[server]\nbase_path = \"/feed/\"\n").unwrap();
    let (greeting, _) = serve(&dir, &["--config", "below.toml", "serve"]);
    assert!(greeting[0].ends_with("/feed"), "{greeting:?}");
}

#[test]
fn first_token_creates_owner_only_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let issued = run(&dir, &["token", "--user", "ann", "--ttl", "5m"]);
    assert!(issued.status.success(), "{issued:?}");
    let said = "signed with the hmac_secret in data/secrets.toml\n\
                it was created now: only servers with this data_dir accept the token\n";
    assert_eq!(err(&issued), said);
    let data = dir.path().join("data");
    assert_eq!(entries(&data), ["secrets.toml"], "no draft is left");
    assert_eq!((mode(&data), mode(&data.join("secrets.toml"))), (0o700, 0o600));

    let (config, secrets) = configured(&dir, "");
    assert!(!secrets.created, "the second start finds them");
    assert_eq!(secrets.file, Some(data.join("secrets.toml")));
    let secret = secrets.hmac_secret.as_ref().unwrap().reveal();
    assert_eq!((secret.len(), secrets.api_keys.len(), secrets.api_keys[0].reveal().len()), (43, 1, 43));
    assert_ne!(secret, secrets.api_keys[0].reveal());
    let verifier = Verifier::new(&config.auth, &secrets).unwrap();
    let claims = verifier.verify_connect(out(&issued).trim_end(), now()).unwrap();
    assert_eq!(claims.user.unwrap().as_str(), "ann");
    let left = claims.expire_at.unwrap() - now();
    assert!((290..=300).contains(&left), "{left}");
}

#[test]
fn configured_secrets_win_over_generated_ones() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = feedline(&dir, &["token", "--user", "ann"]);
    const CONFIGURED: &str = "a secret that somebody configured";
    let issued = command.env("FEEDLINE__AUTH__HMAC_SECRET", CONFIGURED).output().unwrap();
    assert_eq!(err(&issued), "signed with the configured auth.hmac_secret\n");
    let (config, secrets) = configured(&dir, &format!("auth.hmac_secret = \"{CONFIGURED}\""));
    assert_eq!(secrets.hmac_secret.as_ref().unwrap().reveal(), CONFIGURED);
    assert_eq!(secrets.api_keys.len(), 1, "no key is configured");
    let verifier = Verifier::new(&config.auth, &secrets).unwrap();
    assert!(verifier.verify_connect(out(&issued).trim_end(), now()).is_ok());

    let untouched = tempfile::tempdir().unwrap();
    let all = format!("auth = {{ hmac_secret = \"{CONFIGURED}\", api_keys = [\"key\"] }}");
    let (_, secrets) = configured(&untouched, &all);
    assert_eq!((secrets.file, secrets.created), (None, false));
    assert!(entries(untouched.path()).is_empty(), "all secrets are configured: none is generated");
}

#[test]
fn secrets_readable_by_others_stop_the_start() {
    let dir = tempfile::tempdir().unwrap();
    run(&dir, &["token", "--user", "ann"]);
    let path = dir.path().join("data/secrets.toml");
    for wide in [0o604, 0o602, 0o666] {
        fs::set_permissions(&path, Permissions::from_mode(wide)).unwrap();
        let refused = run(&dir, &["token", "--user", "ann"]);
        assert_eq!((refused.status.code(), out(&refused)), (Some(1), ""));
        assert!(err(&refused).starts_with("data/secrets.toml: others may "), "{refused:?}");
        assert!(!err(&refused).contains("delete"), "{refused:?}");
    }
    // Kubernetes adds the rights of `fsGroup` to the files of a volume.
    for accepted in [0o400, 0o440, 0o640, 0o660] {
        fs::set_permissions(&path, Permissions::from_mode(accepted)).unwrap();
        let second = run(&dir, &["token", "--user", "ann"]);
        assert!(second.status.success(), "{accepted:o}: {second:?}");
    }
    assert!(!fs::read_to_string(&path).unwrap().contains("delete"));
}

#[test]
fn broken_secrets_files_are_named_and_not_quoted() {
    let dir = tempfile::tempdir().unwrap();
    run(&dir, &["token", "--user", "ann"]);
    let path = dir.path().join("data/secrets.toml");
    let long = "hunter2".repeat(10);
    for text in [
        format!("hmac_secret = \"{long}\"\napi_key = {long}\n"),
        format!("hmac_secret = \"{long}\"\n"),
        format!("hmac_secret = \"{long}\"\napi_key = \"hunter2\"\n"),
        format!("hmac_secret = \"{long}\"\napi_key = \"{long}\"\nhunter2 = 1\n"),
        String::new(),
    ] {
        fs::write(&path, text).unwrap();
        let refused = run(&dir, &["token", "--user", "ann"]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(err(&refused).starts_with("data/secrets.toml: is not a file of secrets: "), "{refused:?}");
        assert!(!err(&refused).contains("hunter2"), "{refused:?}");
    }
}

#[test]
fn unusable_data_dirs_are_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("data"), "a file").unwrap();
    let refused = run(&dir, &["token", "--user", "ann"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).starts_with("data"), "{refused:?}");
}

#[test]
fn concurrent_starts_agree_on_the_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let started: Vec<_> = (0..8)
        .map(|_| {
            let mut command = feedline(&dir, &["token", "--user", "ann"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let tokens: Vec<String> = started
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
            out(&output).trim_end().to_owned()
        })
        .collect();
    assert_eq!(entries(&dir.path().join("data")), ["secrets.toml"]);
    let (config, secrets) = configured(&dir, "");
    let verifier = Verifier::new(&config.auth, &secrets).unwrap();
    for token in tokens {
        assert!(verifier.verify_connect(&token, now()).is_ok(), "signed with a secret that lost");
    }
}

#[test]
fn a_token_needs_a_user_and_a_key() {
    let dir = tempfile::tempdir().unwrap();
    for args in [
        &["token"][..],
        &["token", "--user", "a b"],
        &["token", "--user", ""],
        &["token", "--user", "ann", "--ttl", "soon"],
        &["token", "--user", "ann", "--ttl", "500ms"],
        &["no-such-command"],
        &["--log-format", "xml", "check-config"],
    ] {
        let refused = run(&dir, args);
        assert_eq!((refused.status.code(), out(&refused)), (Some(2), ""), "{args:?}");
    }
    let generated = Command::new("openssl").args(["genpkey", "-algorithm", "RSA"]).output().unwrap();
    fs::write(dir.path().join("private.pem"), generated.stdout).unwrap();
    let args = ["pkey", "-in", "private.pem", "-pubout", "-out", "public.pem"];
    assert!(Command::new("openssl").args(args).current_dir(&dir).status().unwrap().success());
    let mut command = feedline(&dir, &["token", "--user", "ann"]);
    command.env("FEEDLINE__AUTH__RSA_PUBLIC_KEY", "public.pem").env("FEEDLINE__ACCOUNTS__ENABLED", "false");
    let refused = command.output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("public key only"), "{refused:?}");
}

#[test]
fn backups_are_one_file_and_overwrite_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let missing = run(&dir, &["backup"]);
    assert!(
        !missing.status.success() && err(&missing).contains("data/feedline.db: there is no such file"),
        "{missing:?}"
    );
    // The first start of a server would create this ledger.
    let options = feedline::ledger::SqliteOptions::new(dir.path().join("data/feedline.db"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ledger = runtime.block_on(feedline::ledger::SqliteLedger::open(options)).unwrap();
    let made = run(&dir, &["backup"]);
    assert!(made.status.success() && err(&made).contains("secrets.toml"), "{made:?}");
    let path = dir.path().join(out(&made).trim_end());
    assert!(path.starts_with(dir.path().join("data/backups")) && mode(&path) == 0o600, "{path:?}");
    assert_eq!(entries(path.parent().unwrap()).len(), 1, "no other file is created");
    let again = run(&dir, &["backup", "--to", path.to_str().unwrap()]);
    assert!(!again.status.success() && err(&again).contains("exists already"), "{again:?}");

    let used = run(&dir, &["restore", path.to_str().unwrap()]);
    assert!(!used.status.success() && err(&used).contains("a server uses it: stop all of them first"), "{used:?}");
    runtime.block_on(feedline::ledger::Ledger::close(&ledger));
    for (name, content, why) in [
        ("none.db", None, "there is no such file"),
        ("text.db", Some(&b"this is no database at all, but it is long enough to be looked at"[..]), "not a database"),
        ("empty.db", Some(&b""[..]), "it is no ledger of Feedline"),
    ] {
        if let Some(content) = content {
            fs::write(dir.path().join(name), content).unwrap();
        }
        let refused = run(&dir, &["restore", name]);
        assert!(!refused.status.success() && err(&refused).contains(why), "{name}: {refused:?}");
    }
    let own = run(&dir, &["restore", "data/feedline.db"]);
    assert!(!own.status.success() && err(&own).contains("it is the ledger itself"), "{own:?}");
    let restored = run(&dir, &["restore", path.to_str().unwrap()]);
    assert!(restored.status.success(), "{restored:?}");
    assert!(out(&restored).contains("kept as data/feedline.db.replaced-1"), "{restored:?}");
    assert_eq!(entries(&dir.path().join("data")), ["backups", "feedline.db", "feedline.db.replaced-1"]);
}

#[test]
fn postgres_is_backed_up_with_pg_dump() {
    let dir = tempfile::tempdir().unwrap();
    for (args, tool) in [(&["backup"][..], "pg_dump"), (&["restore", "x"], "pg_restore")] {
        let refused = feedline(&dir, args).env("FEEDLINE__LEDGER__URL", "postgres://u:secret@db/x").output().unwrap();
        assert!(!refused.status.success() && err(&refused).contains(tool), "{refused:?}");
        assert!(!err(&refused).contains("secret"), "{refused:?}");
    }
}

#[test]
fn erasure_logs_are_applied_once_and_listed() {
    let dir = tempfile::tempdir().unwrap();
    let log = "{\"user\":\"ann\",\"at\":1}\n{\"user\":\"bo\",\"at\":2}\n";
    fs::write(dir.path().join("old.log"), log).unwrap();
    for new in [2, 0] {
        let applied = run(&dir, &["erasures", "apply", "old.log"]);
        let expected = format!("{new} of 2 entries were new to the ledger\n");
        assert_eq!((applied.status.code(), out(&applied)), (Some(0), &*expected), "{applied:?}");
    }
    let listed = run(&dir, &["erasures", "list"]);
    assert_eq!((listed.status.code(), out(&listed)), (Some(0), log), "{listed:?}");
    // Readable lines of a damaged log are applied; the others are reported as errors.
    fs::write(dir.path().join("damaged.log"), "{\"user\":\"cy\",\"at\":3}\n{\"user\":\"../../x\",\"at\":1}\n{\"us")
        .unwrap();
    let damaged = run(&dir, &["erasures", "apply", "damaged.log"]);
    assert_eq!(
        (damaged.status.code(), out(&damaged)),
        (Some(1), "1 of 1 entries were new to the ledger\n"),
        "{damaged:?}"
    );
    assert!(err(&damaged).starts_with("damaged.log: lines that cannot be read: 2, 3;"), "{damaged:?}");
    let missing = run(&dir, &["erasures", "apply", "missing.log"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(err(&missing).starts_with("missing.log"), "{missing:?}");
}

#[test]
fn the_quarantine_is_listed_retried_and_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let answer = |args: &[&str]| {
        let output = run(&dir, &[&["quarantine"], args].concat());
        (output.status.code().unwrap(), out(&output).to_owned(), err(&output).to_owned())
    };
    let fine = |text: &str| (0, text.to_owned(), String::new());
    assert_eq!(answer(&["list"]), fine("the quarantine is empty\n"));
    assert_eq!(answer(&["list", "--json"]), fine("[]\n"));
    assert_eq!(answer(&["retry", "--all"]), fine("nothing is in quarantine\n"));
    for command in ["show", "retry", "drop"] {
        let why = "job 7 is not in quarantine; `feedline quarantine list` prints what is\n";
        assert_eq!(answer(&[command, "job", "7"]), (1, String::new(), why.to_owned()), "{command}");
    }
    for wrong in [&["retry"][..], &["drop", "job"], &["drop", "job", "7", "--all"], &["show", "jobs", "7"], &[]] {
        let (status, stdout, stderr) = answer(wrong);
        assert!(status == 2 && stdout.is_empty() && stderr.contains("--help"), "{wrong:?}: {stderr}");
    }

    let db = rusqlite::Connection::open(dir.path().join("data/feedline.db")).unwrap();
    let job = concat!(
        r#"{"work":"{\"post\":{\"post\":1,\"author\":\"ann\"}}","author":"ann","partition":9,"cursor":"","#,
        r#""created_at":5}"#,
    );
    let put = "INSERT INTO quarantine (kind, name, content, reason, attempts, at) \
               VALUES (?1, ?2, ?3, 'WRONGTYPE', 5, 1800000000006)";
    db.execute(put, ["job", "7", job]).unwrap();
    for name in ["0/a/1-0", "0/a/2-0", "0/a/3-0"] {
        db.execute(put, ["like", name, "+ p1 1 bo"]).unwrap();
    }
    let line = |what: &str| format!("{what} since 2027-01-15T08:00:00.006Z, 5 attempts: WRONGTYPE\n");
    let listed = line("job 7") + &line("like 0/a/1-0") + &line("like 0/a/2-0") + &line("like 0/a/3-0");
    assert_eq!(answer(&["list"]), fine(&listed));
    assert_eq!(answer(&["list", "--kind", "job"]), fine(&line("job 7")));
    let as_json: serde_json::Value = serde_json::from_str(&answer(&["list", "--json"]).1).unwrap();
    assert_eq!(
        (&as_json[0]["kind"], &as_json[0]["attempts"], &as_json[3]["name"]),
        (&"job".into(), &5.into(), &"0/a/3-0".into())
    );
    let shown: serde_json::Value = serde_json::from_str(&answer(&["show", "job", "7"]).1).unwrap();
    assert_eq!((&shown["content"]["author"], &shown["reason"]), (&"ann".into(), &"WRONGTYPE".into()));
    let shown: serde_json::Value = serde_json::from_str(&answer(&["show", "like", "0/a/1-0"]).1).unwrap();
    assert_eq!(shown["content"], "+ p1 1 bo");

    assert_eq!(answer(&["retry", "job", "7"]), fine("job 7 was returned to its work\n"));
    let jobs = db.query_row("SELECT id, partition FROM jobs", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(jobs, (7, 9));
    let requested = "like 0/a/1-0 is returned to its work by a running node within seconds\n";
    assert_eq!(answer(&["retry", "like", "0/a/1-0"]), fine(requested));
    assert!(answer(&["list"]).1.contains("like 0/a/1-0 since 2027-01-15T08:00:00.006Z, 5 attempts, retry requested: "));
    assert_eq!(answer(&["drop", "like", "0/a/1-0"]), fine("like 0/a/1-0 was dropped\n"));
    let dropped = "like 0/a/2-0 was dropped\nlike 0/a/3-0 was dropped\n";
    assert_eq!(answer(&["drop", "like", "--all"]), fine(dropped));
    assert_eq!(answer(&["list"]), fine("the quarantine is empty\n"));
}
