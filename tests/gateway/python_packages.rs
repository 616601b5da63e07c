//! Python packages of official clients, each version in a virtual environment of its own below `target/`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

/// How long a package may take to install.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(120);

/// A Python that has the package. `None`: it cannot be installed, for example without a network; the reason is printed.
///
/// # Panics
/// If it cannot be installed in CI, where a test that does not run would stay unnoticed.
pub(crate) async fn python_with(package: &str, module: &str) -> Option<PathBuf> {
    match install(package, module).await {
        Ok(python) => Some(python),
        Err(reason) => {
            let is_required = ["CI", "FEEDLINE_REQUIRE_SDKS"].iter().any(|name| std::env::var_os(name).is_some());
            assert!(!is_required, "{package} is required here: {reason}");
            eprintln!("SKIPPED: {reason}");
            None
        }
    }
}

async fn install(package: &str, module: &str) -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python").join(package);
    let python = folder.join("bin/python");
    if run(&python, &["-c", &format!("import {module}")]).await.is_ok() {
        return Ok(python);
    }
    let created = run("python3".as_ref(), &["-m", "venv", "--clear", &folder.display().to_string()]).await;
    created.map_err(|error| format!("there is no Python 3 with venv: {error}"))?;
    let installed = run(&python, &["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]).await;
    installed.map_err(|error| format!("{package} cannot be installed: {error}"))?;
    Ok(python)
}

async fn run(program: &Path, arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new(program);
    let output = timeout(INSTALL_TIMEOUT, command.args(arguments).kill_on_drop(true).output()).await;
    match output {
        Ok(Ok(output)) if output.status.success() => Ok(()),
        Ok(Ok(output)) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("it takes too long".to_owned()),
    }
}
