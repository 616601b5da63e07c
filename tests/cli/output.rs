//! Output to a pipe whose reader has gone: commands do their work, and end as usual.

use std::fs;
use std::io::pipe;
use std::process::{Output, Stdio};

use tempfile::TempDir;

use crate::{err, feedline, out, run};

/// Commands, with their exit codes. `serve` is tested in `tests/resilience/logs.rs`.
const COMMANDS: [(&[&str], i32); 26] = [
    (&["--help"], 0),
    (&["--version"], 0),
    (&["no-such-command"], 2),
    (&["check-config"], 0),
    (&["check-config", "--config", "missing.toml"], 2),
    (&["token", "--user", "ann"], 0),
    (&["backup"], 0),
    (&["adopt"], 0),
    (&["backup", "--to", "copy.db"], 1),
    (&["restore", "copy.db"], 0),
    (&["restore", "missing.db"], 1),
    (&["export"], 0),
    (&["export", "--to", "other.jsonl"], 0),
    (&["import", "ledger.jsonl"], 0),
    (&["doctor"], 0),
    (&["status"], 0),
    (&["erasures", "list"], 0),
    (&["erasures", "apply", "old.log"], 0),
    (&["quarantine", "list"], 0),
    (&["quarantine", "list", "--json"], 0),
    (&["quarantine", "show", "job", "7"], 1),
    (&["quarantine", "retry", "job", "7"], 1),
    (&["quarantine", "drop", "job", "7"], 1),
    (&["push", "test", "--user", "ann", "--device", "phone"], 1),
    (&["outlet", "refill"], 1),
    (&["seed-demo", "--help"], 0),
];

/// A folder with a ledger, its copy, and an erasure log.
fn prepared() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("old.log"), "{\"user\":\"ann\",\"at\":1}\n").unwrap();
    let export = &["export", "--to", "ledger.jsonl"];
    let token = &["token", "--user", "ann"];
    for args in [&["erasures", "apply", "old.log"][..], &["backup", "--to", "copy.db"], token, export] {
        let done = run(&dir, args);
        assert!(done.status.success(), "{args:?}: {done:?}");
    }
    dir
}

/// A pipe without a reader.
fn closed() -> Stdio {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn commands_end_as_usual_when_nobody_reads_their_output() {
    let first = prepared();
    let in_copy = |args: &[&str], change: &dyn Fn(&mut std::process::Command)| -> Output {
        let dir = tempfile::tempdir().unwrap();
        let copied = std::process::Command::new("cp").args(["-r", "."]).arg(dir.path()).current_dir(&first).status();
        assert!(copied.unwrap().success());
        let mut command = feedline(&dir, args);
        change(&mut command);
        command.output().unwrap()
    };
    for (args, code) in COMMANDS {
        let usual = in_copy(args, &|_| {});
        assert_eq!(usual.status.code(), Some(code), "{args:?}: {usual:?}");
        let unread = in_copy(args, &|command| _ = command.stdout(closed()));
        assert_eq!((unread.status.code(), err(&unread)), (Some(code), err(&usual)), "{args:?}");
        let closed = in_copy(args, &|command| _ = command.stdout(closed()).stderr(closed()));
        assert_eq!(closed.status.code(), Some(code), "{args:?}: {closed:?}");
    }
}

#[test]
fn all_commands_are_tested() {
    let help = run(&tempfile::tempdir().unwrap(), &["--help"]);
    let list = out(&help).split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let names = list.lines().map(|line| line.split_whitespace().next().unwrap());
    // `serve` and `demo` go on until they are interrupted.
    for name in names.filter(|name| !["serve", "demo", "help"].contains(name)) {
        assert!(COMMANDS.iter().any(|(args, _)| args[0] == name), "{name} is not tested");
    }
}

#[test]
fn output_that_cannot_be_stored_is_an_error() {
    let dir = prepared();
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let failed = feedline(&dir, &["quarantine", "list"]).stdout(full()).output().unwrap();
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert!(err(&failed).contains("No space left"), "{failed:?}");
    assert_eq!(
        feedline(&dir, &["quarantine", "list"]).stdout(full()).stderr(full()).output().unwrap().status.code(),
        Some(1)
    );
}
