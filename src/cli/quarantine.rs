//! `feedline quarantine`: lists what was set aside, returns it to its work, or drops it.

use std::io::Write as _;

use anyhow::bail;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use super::output::stdout;
use crate::app::{open_ledger, open_paired_stores};
use crate::config::Config;
use crate::feed::now;
use crate::ledger::{ERASURE, Ledger, QUARANTINE_KINDS, Quarantined, RetryOutcome};

/// The items of one read.
const PAGE: usize = 500;

/// The arguments of `feedline quarantine`.
#[derive(Debug, Args)]
pub(crate) struct QuarantineArgs {
    /// The command
    #[command(subcommand)]
    pub(crate) command: QuarantineCommand,
}

/// The subcommands of `feedline quarantine`.
#[derive(Debug, Subcommand)]
pub(crate) enum QuarantineCommand {
    /// List the items in quarantine, oldest first, with the reasons
    List {
        /// Only items of this kind
        #[arg(long, value_parser = PossibleValuesParser::new(QUARANTINE_KINDS))]
        kind: Option<String>,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Print an item with its content, as JSON
    Show {
        /// The kind of work
        #[arg(value_parser = PossibleValuesParser::new(QUARANTINE_KINDS))]
        kind: String,
        /// The name of the item, as `list` prints it
        name: String,
    },
    /// Return items to their work; a running node tries them again
    Retry(Selection),
    /// Drop items for good: their work is never done
    Drop(Selection),
}

/// The items that a command is about.
#[derive(Debug, Args)]
pub(crate) struct Selection {
    /// The kind of work; with --all, only items of this kind
    #[arg(value_parser = PossibleValuesParser::new(QUARANTINE_KINDS), required_unless_present = "all")]
    kind: Option<String>,
    /// The name of the item, as `list` prints it
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    name: Option<String>,
    /// All items, or all of the kind
    #[arg(long)]
    all: bool,
}

/// What to do with the items of a [`Selection`].
#[derive(Clone, Copy)]
enum Change {
    Retry,
    Drop,
}

/// Runs a subcommand.
///
/// # Errors
///
/// If the ledger cannot be used, or the item is not in quarantine; for a change, also if the stores do not belong
/// together.
pub(crate) fn quarantine(config: &Config, args: &QuarantineArgs) -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let ledger = match &args.command {
            QuarantineCommand::List { .. } | QuarantineCommand::Show { .. } => open_ledger(config).await?,
            QuarantineCommand::Retry(_) | QuarantineCommand::Drop(_) => open_paired_stores(config).await?.1,
        };
        let done = match &args.command {
            QuarantineCommand::List { kind, json } => list(&*ledger, kind.as_deref(), *json).await,
            QuarantineCommand::Show { kind, name } => show(&*ledger, kind, name).await,
            QuarantineCommand::Retry(selection) => change(&*ledger, selection, Change::Retry).await,
            QuarantineCommand::Drop(selection) => change(&*ledger, selection, Change::Drop).await,
        };
        ledger.close().await;
        done
    })
}

async fn list(ledger: &dyn Ledger, kind: Option<&str>, as_json: bool) -> anyhow::Result<()> {
    let mut out = stdout();
    let mut after = 0;
    let mut number = 0;
    if as_json {
        write!(out, "[")?;
    }
    loop {
        let items = ledger.quarantined(kind, after, PAGE).await?;
        for item in &items {
            if as_json {
                let separator = if number > 0 { "," } else { "" };
                write!(out, "{separator}\n  {}", summary(item))?;
            } else {
                let Quarantined { kind, name, reason, .. } = item;
                let reason = reason.replace('\n', " ");
                writeln!(out, "{kind} {name} since {}, {}: {reason}", time(item.at), state(item))?;
            }
            number += 1;
        }
        match items.last() {
            Some(last) if items.len() == PAGE => after = last.id,
            _ => break,
        }
    }
    if as_json {
        writeln!(out, "{}]", if number > 0 { "\n" } else { "" })?;
    } else if number == 0 {
        writeln!(out, "the quarantine is empty")?;
    }
    Ok(())
}

async fn show(ledger: &dyn Ledger, kind: &str, name: &str) -> anyhow::Result<()> {
    let Some(item) = ledger.quarantined_item(kind, name).await? else { bail!(absent(kind, name)) };
    let mut shown = summary(&item);
    // The content of a like is no JSON.
    shown["content"] = serde_json::from_str(&item.content).unwrap_or(Value::String(item.content));
    writeln!(stdout(), "{shown:#}")?;
    Ok(())
}

async fn change(ledger: &dyn Ledger, selection: &Selection, change: Change) -> anyhow::Result<()> {
    if let (Some(kind), Some(name)) = (&selection.kind, &selection.name) {
        if !change_one(ledger, kind, name, change).await? {
            bail!(absent(kind, name));
        }
        return Ok(());
    }
    let mut after = 0;
    let mut number = 0;
    loop {
        let items = ledger.quarantined(selection.kind.as_deref(), after, PAGE).await?;
        for Quarantined { kind, name, .. } in &items {
            // Another operator may have been faster.
            number += usize::from(change_one(ledger, kind, name, change).await?);
        }
        match items.last() {
            Some(last) if items.len() == PAGE => after = last.id,
            _ => break,
        }
    }
    if number == 0 {
        writeln!(stdout(), "nothing is in quarantine")?;
    }
    Ok(())
}

/// Retries or drops an item, and confirms it. `false` if it is not in quarantine.
async fn change_one(ledger: &dyn Ledger, kind: &str, name: &str, change: Change) -> anyhow::Result<bool> {
    let done = match change {
        Change::Retry => match ledger.retry_quarantined(kind, name, now()).await? {
            RetryOutcome::Absent => return Ok(false),
            RetryOutcome::Returned => "was returned to its work",
            RetryOutcome::Requested => "is returned to its work by a running node within seconds",
        },
        Change::Drop if !ledger.drop_quarantined(kind, name).await? => return Ok(false),
        Change::Drop if kind == ERASURE => "was dropped; the data that is left stays",
        Change::Drop => "was dropped",
    };
    writeln!(stdout(), "{kind} {name} {done}")?;
    Ok(true)
}

fn absent(kind: &str, name: &str) -> String {
    format!("{kind} {name} is not in quarantine; `feedline quarantine list` prints what is")
}

fn summary(item: &Quarantined) -> Value {
    let Quarantined { kind, name, reason, attempts, at, is_retried, .. } = item;
    json!({
        "kind": kind, "name": name, "reason": reason, "attempts": attempts, "at": at, "retry_requested": is_retried,
    })
}

/// The attempts, and whether another one was asked for.
fn state(item: &Quarantined) -> String {
    let attempts = match item.attempts {
        1 => "1 attempt".to_owned(),
        many => format!("{many} attempts"),
    };
    if item.is_retried { format!("{attempts}, retry requested") } else { attempts }
}

/// A time in RFC 3339.
fn time(at: u64) -> String {
    let at = i64::try_from(at).ok().and_then(|at| Timestamp::from_millisecond(at).ok());
    at.map_or_else(|| "an unknown time".to_owned(), |at| at.to_string())
}
