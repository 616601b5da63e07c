//! 10,000 clients lose their connections, miss 5 posts and reconnect at once: reconnects a second of the server's CPU.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use super::client::{LoadClient, open_all};
use super::context::BenchContext;
use super::process::Process;
use super::report::{Better, Goal, Report, Row, median};
use super::seed::{self, AUTHOR};
use super::target::SocketTarget;

/// The number of connections.
const CONNECTIONS: usize = 10_000;
/// The number of posts that each client missed.
const MISSED: u32 = 5;
/// Concurrent handshakes.
const MAX_HANDSHAKES: usize = 512;

/// The figures of a run.
struct ReconnectRun {
    /// Reconnects a second of the server's CPU time.
    per_core: f64,
    /// Reconnects a second of elapsed time.
    rate: f64,
    /// The server's part of a core.
    server: f64,
    /// The clients' part of a core.
    clients: f64,
}

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext) -> Result<Report> {
    let mut report = Report::new("reconnect");
    let mut tallies = Vec::new();
    for run in 1..=bench.options.runs {
        bench.bar.set_message(format!("run {run}"));
        tallies.push(measure(bench, &mut report).await?);
    }
    let each = |of: fn(&ReconnectRun) -> f64| tallies.iter().map(of).collect::<Vec<_>>();
    report.rows.push(Row {
        name: format!("{CONNECTIONS} reconnect, each recovers {MISSED} entries"),
        unit: "a second a core",
        better: Better::More,
        measured: each(|tally| tally.per_core),
        against: None,
        goal: Some(Goal::AtLeast(5_000.0)),
    });
    let rate = each(|t| t.rate);
    let server = each(|t| t.server * 100.0);
    let clients = each(|t| t.clients * 100.0);
    report.notes.push(format!(
        "{:.0} a second on the clock; server {:.0} % of a core, clients {:.0} %",
        median(&rate),
        median(&server),
        median(&clients)
    ));
    Ok(report)
}

async fn measure(bench: &BenchContext, report: &mut Report) -> Result<ReconnectRun> {
    let setup = bench.server_setup_noted(report).await?;
    seed::followers(&setup.ledger, CONNECTIONS).await?;
    let server = bench.start_server(&setup).await?;
    let target = server.feedline();
    let greet = |n: usize| seed::connect(&setup.secret, &seed::user(n));

    let greetings: Vec<String> = (0..CONNECTIONS).map(greet).collect::<Result<_>>()?;
    let sockets = open_all(target, &greetings, "\"connect\":", bench).await?;
    let returns: Vec<String> =
        sockets.iter().enumerate().map(|(n, (_, reply))| comeback(&setup.secret, n, reply)).collect::<Result<_>>()?;
    drop(sockets);
    // The last user by id is written to last: once their second socket has an entry, all users have it.
    let mut witness = LoadClient::open(target).await?;
    witness.send(&greet(CONNECTIONS - 1)?).await?;
    witness.expect("\"connect\":").await?;
    write_posts(target, &setup.secret).await?;
    witness.expect_marks(MISSED).await?;
    server.process.settle().await?;

    let cpu = server.process.cpu()?;
    let own = Process::own_cpu()?;
    let start = Instant::now();
    let back = come_back(bench, target, &returns).await?;
    let took = start.elapsed().as_secs_f64();
    let used = (server.process.cpu()? - cpu).as_secs_f64();
    let own = (Process::own_cpu()? - own).as_secs_f64();
    drop(back);
    server.stop().await?;
    bench.tear_down(setup).await?;
    let count = CONNECTIONS as f64;
    Ok(ReconnectRun { per_core: count / used, rate: count / took, server: used / took, clients: own / took })
}

/// The connect command with which client `n` returns, from the reply to its first connect.
fn comeback(secret: &str, n: usize, reply: &str) -> Result<String> {
    let user = seed::user(n);
    let reply: Value =
        reply.lines().find_map(|line| serde_json::from_str(line).ok()).context("the answer is not JSON")?;
    let subs = reply["connect"]["subs"].as_object().context("no server-side subscriptions came")?;
    ensure!(subs.contains_key(&format!("timeline:{user}")), "{user} has no timeline");
    let recover =
        |sub: &Value| json!({ "recover": true, "epoch": sub["epoch"], "offset": sub["offset"].as_u64().unwrap_or(0) });
    let subs = subs.iter().map(|(channel, sub)| (channel.clone(), recover(sub))).collect();
    seed::connect_with(secret, &user, Value::Object(subs))
}

/// Writes the posts that the other clients miss.
async fn write_posts(target: SocketTarget, secret: &str) -> Result<()> {
    let mut author = LoadClient::open(target).await?;
    author.send(&seed::connect(secret, AUTHOR)?).await?;
    author.expect("\"connect\":").await?;
    for n in 0..MISSED {
        let id = 10 + u64::from(n);
        author.send(&seed::post(id)).await?;
        author.expect(&format!("\"id\":{id},")).await?;
    }
    Ok(())
}

/// Reconnects all clients, and checks that each receives the missed entries.
async fn come_back(bench: &BenchContext, target: SocketTarget, returns: &[String]) -> Result<Vec<LoadClient>> {
    bench.start_progress(returns.len());
    stream::iter(returns)
        .map(|hello| async move {
            let mut socket = LoadClient::open(target).await?;
            socket.send(hello).await?;
            socket.expect_marks(MISSED).await?;
            bench.bar.inc(1);
            Ok(socket)
        })
        .buffer_unordered(MAX_HANDSHAKES)
        .try_collect()
        .await
}
