//! What a server of a test is started with: its program, folder, environment, limits, and where its output goes.

use std::fs::{self, OpenOptions};
use std::io::PipeWriter;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::server::{API_KEY, PATIENCE, SECRET};

/// The rate limits that are off unless a test sets them.
const RATES: [&str; 12] = [
    "rates.posts",
    "rates.comments",
    "rates.likes",
    "rates.follows",
    "rates.writes",
    "rates.mentions",
    "rates.topics",
    "rates.subscriptions",
    "rates.reads",
    "rates.publications",
    "rates.accounts",
    "rates.sessions",
];

/// Where a server writes its output.
#[derive(Debug)]
pub(crate) enum ServerOutput {
    /// Into the file `log` of its folder.
    File,
    /// Into a pipe.
    Pipe(PipeWriter),
}

/// What a server is started with.
pub(crate) struct ServerSetup {
    pub(crate) program: PathBuf,
    pub(crate) dir: TempDir,
    /// The environment variables: nothing is inherited.
    pub(crate) env: Vec<(String, String)>,
    /// The limit of open files of the process, if a test sets one.
    pub(crate) open_files: Option<u32>,
    pub(crate) output: ServerOutput,
}

impl ServerSetup {
    /// A folder of its own, a short drain, and these keys of the configuration.
    pub(crate) fn with(keys: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let data = dir.path().join("data").display().to_string();
        let own = [("server.data_dir", data.as_str()), ("server.drain", "100ms")];
        let env = own.iter().chain(keys).map(|(key, value)| (variable(key), (*value).to_owned())).collect();
        Self { program: binary(), dir, env, open_files: None, output: ServerOutput::File }
    }

    /// The same with a secret, an API key and accounts, and without rate limits.
    pub(crate) fn of_tests(keys: &[(&str, &str)]) -> Self {
        let common = [
            ("auth.hmac_secret", SECRET),
            ("auth.api_keys", API_KEY),
            // Tests use short tokens: only `sub`, and no leeway for expiry.
            ("auth.require_exp", "false"),
            ("auth.leeway", "0s"),
            // Accounts are enabled next to the application's tokens, which use the secret above.
            ("accounts.enabled", "true"),
        ];
        // Tests send requests faster than the default rate limits allow.
        let rates = RATES.map(|rate| (rate, "0"));
        Self::with(&[&common[..], &rates, keys].concat())
    }

    /// The file of the output.
    pub(crate) fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// Gives a command the folder and the environment.
    pub(crate) fn configure(&self, command: &mut Command) {
        let env = self.env.iter().map(|(key, value)| (key, value));
        command.current_dir(self.dir.path()).env_clear().envs(env);
    }

    /// Starts the process.
    pub(crate) fn spawn(&self) -> Child {
        let log = OpenOptions::new().create(true).append(true).open(self.log()).expect("a log file");
        let stdio = || match &self.output {
            ServerOutput::File => Stdio::from(log.try_clone().expect("a second handle")),
            ServerOutput::Pipe(pipe) => Stdio::from(pipe.try_clone().expect("a second handle")),
        };
        // Without XFSZ, a write beyond a limit of the process ends with an error, as on a full disk.
        let limit = self.open_files.map_or_else(String::new, |files| format!("ulimit -n {files} && "));
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(format!("trap '' XFSZ && {limit}exec \"$0\" \"$@\"")).arg(&self.program).arg("serve");
        self.configure(&mut command);
        command.stdin(Stdio::null()).stdout(stdio()).stderr(stdio()).spawn().expect("the binary that cargo built")
    }

    /// Waits until the server reports that it listens. Returns `false` if the port was taken.
    pub(crate) async fn listens(&self, child: &mut Child) -> bool {
        let until = Instant::now() + PATIENCE;
        loop {
            let ended = child.try_wait().expect("the state of the server").is_some();
            let text = fs::read_to_string(self.log()).unwrap_or_default();
            if text.contains(" is at http://") {
                return true;
            }
            if ended && text.contains("cannot listen on") {
                fs::remove_file(self.log()).expect("to remove the log");
                return false;
            }
            assert!(!ended && Instant::now() < until, "the server does not start:\n{text}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// The environment variable of a configuration key.
pub(crate) fn variable(key: &str) -> String {
    format!("FEEDLINE__{}", key.replace('.', "__").to_uppercase())
}

/// The program under test. Cargo 1.94 and later pass its path to tests. Otherwise it is in the parent folder of the
/// test's folder.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("CARGO_BIN_EXE_feedline").map_or_else(
        || {
            let test = std::env::current_exe().expect("the test's own path");
            test.ancestors().nth(2).expect("a folder above deps/").join("feedline")
        },
        PathBuf::from,
    )
}
