//! 10,000 clients lose their connections, miss 5 posts and reconnect at once: reconnects a second of the server's CPU.

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use super::client::{LoadClient, SocketTarget, sign_in_all};
use super::context::BenchContext;
use super::process::{CpuMeter, CpuUse};
use super::report::{Goal, Report, each, middle};
use super::seed::{self, AUTHOR};
use super::stores::Stores;

/// The number of connections.
const CONNECTIONS: usize = 10_000;
/// The number of posts that each client missed.
const MISSED: u32 = 5;
/// Concurrent handshakes.
const MAX_HANDSHAKES: usize = 512;

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext) -> Result<Report> {
    let mut report = Report::new("reconnect");
    let mut runs = Vec::new();
    for _ in bench.runs("reconnect") {
        let stores = Stores::start(bench, None).await?;
        runs.push(measure(bench, &stores).await?);
        report.notes = vec![stores.note()];
    }
    let name = format!("{CONNECTIONS} reconnect, each recovers {MISSED} entries");
    let count = CONNECTIONS as f64;
    report.row(name, "a second a core", each(&runs, |run| count / run.server)).goal(Goal::AtLeast(5_000.0));
    report.notes.push(format!(
        "{:.0} a second on the clock; server {:.0} % of a core, clients {:.0} %",
        middle(&runs, |run| count / run.took),
        middle(&runs, |run| run.server / run.took * 100.0),
        middle(&runs, |run| run.clients / run.took * 100.0)
    ));
    Ok(report)
}

async fn measure(bench: &BenchContext, stores: &Stores) -> Result<CpuUse> {
    seed::fill_followers(&stores.ledger, &seed::ids(seed::user, CONNECTIONS)?).await?;
    let server = stores.start_feedline(bench).await?;
    let target = SocketTarget::feedline(server.addr);
    let secret = &stores.secret;
    let sockets = sign_in_all(bench, target, secret, 0..CONNECTIONS).await?;
    let replies = sockets.iter().enumerate();
    let returns: Vec<String> = replies.map(|(n, (_, reply))| comeback(secret, n, reply)).collect::<Result<_>>()?;
    drop(sockets);
    // The last user by id is written to last: once their second socket has an entry, all users have it.
    let mut witness = LoadClient::sign_in(target, secret, &seed::user(CONNECTIONS - 1)).await?;
    write_posts(target, secret).await?;
    witness.expect_deliveries(MISSED).await?;
    server.settle().await?;

    bench.say("all come back");
    let meter = CpuMeter::start(server.pid)?;
    let sockets = come_back(target, &returns).await?;
    let cpu = meter.read()?;
    drop((sockets, witness));
    server.stop().await?;
    Ok(cpu)
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
    let subs: Value = subs.iter().map(|(channel, sub)| (channel.clone(), recover(sub))).collect();
    Ok(json!({ "id": 1, "connect": { "token": seed::token(secret, &user)?, "subs": subs } }).to_string())
}

/// Writes the posts that the other clients miss.
async fn write_posts(target: SocketTarget, secret: &str) -> Result<()> {
    let mut author = LoadClient::sign_in(target, secret, AUTHOR).await?;
    for id in (10..).take(MISSED as usize) {
        author.send(seed::post_command(id)).await?;
        author.expect(format!("\"id\":{id},")).await?;
    }
    Ok(())
}

/// Reconnects all clients, and checks that each receives the missed entries.
async fn come_back(target: SocketTarget, returns: &[String]) -> Result<Vec<LoadClient>> {
    stream::iter(returns)
        .map(|hello| async move {
            let mut socket = LoadClient::open(target).await?;
            socket.send(hello).await?;
            socket.expect_deliveries(MISSED).await?;
            Ok(socket)
        })
        .buffer_unordered(MAX_HANDSHAKES)
        .try_collect()
        .await
}
