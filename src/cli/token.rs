//! `feedline token`: prints a token, for tests and development.

use std::io::Write as _;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;

use super::output::{stderr, stdout};
use crate::auth::Issuer;
use crate::config::{Config, Secrets, parse_duration};
use crate::model::UserId;

/// The arguments of `feedline token`.
#[derive(Debug, clap::Args)]
pub(crate) struct TokenArgs {
    /// The id of the user: 1 to 64 of A-Z a-z 0-9 _ - .
    #[arg(long, value_name = "ID", value_parser = parse_user)]
    pub(crate) user: UserId,
    /// The lifetime of the token, such as 30m or 24h [default: auth.token_ttl]
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl)]
    pub(crate) ttl: Option<Duration>,
}

fn parse_user(text: &str) -> Result<UserId, &'static str> {
    UserId::parse(text).ok_or("expected 1 to 64 of A-Z a-z 0-9 _ - .")
}

fn parse_ttl(text: &str) -> Result<Duration, String> {
    let ttl = parse_duration(text)?;
    if ttl < Duration::from_secs(1) { Err("expected one second or more".into()) } else { Ok(ttl) }
}

/// Prints a token to standard output, and the source of the signing secret to standard error. Generates the secrets if
/// this is the first start.
///
/// # Errors
///
/// If no secret for signing is configured, or standard output is closed.
pub(crate) fn token(config: &Config, args: &TokenArgs) -> anyhow::Result<()> {
    let secrets = Secrets::load(config)?;
    let issuer = Issuer::new(&config.auth, &secrets)
        .context("tokens are verified with a public key only: sign them with its private key")?;
    let issuer = match args.ttl {
        Some(ttl) => issuer.with_ttl(ttl),
        None => issuer,
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).context("the clock is before 1970")?;
    let issued = issuer.issue(&args.user, now.as_secs())?;
    let is_new = secrets.created && config.auth.hmac_secret.is_none();
    let source = match secrets.file.filter(|_| config.auth.hmac_secret.is_none()) {
        Some(file) => format!("the hmac_secret in {}", file.display()),
        None => "the configured auth.hmac_secret".to_owned(),
    };
    writeln!(stderr(), "signed with {source}")?;
    if is_new {
        let hint = "it was created now: only servers with this data_dir accept the token";
        writeln!(stderr(), "{hint}")?;
    }
    writeln!(stdout(), "{}", issued.token.reveal())?;
    Ok(())
}
