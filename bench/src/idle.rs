//! 10,000 idle signed-in connections with two channels each: bytes a connection.

use anyhow::Result;

use super::client::open_all;
use super::context::BenchContext;
use super::report::{Better, Goal, Report, Row};
use super::seed;
use super::target::LoadTransport;

/// The number of connections.
const CONNECTIONS: usize = 10_000;
/// Connections opened and closed first, so that memory that a server allocates only once is not counted.
const WARM_UP: usize = 100;

/// The most bytes of a connection.
fn goal(transport: LoadTransport) -> f64 {
    match transport {
        LoadTransport::Websocket => 5_000.0,
        LoadTransport::HttpStream | LoadTransport::Sse => 16_384.0,
    }
}

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext, transport: LoadTransport) -> Result<Report> {
    let mut report = Report::new("idle");
    let mut measured = Vec::new();
    for run in 1..=bench.options.runs {
        bench.bar.set_message(format!("run {run}"));
        measured.push(measure(bench, transport, &mut report).await?);
    }
    report.rows.push(Row {
        name: format!("resident, {CONNECTIONS} connections signed in, 2 channels each{}", transport.suffix()),
        unit: "bytes/connection",
        better: Better::Less,
        measured,
        against: None,
        goal: Some(Goal::AtMost(goal(transport))),
    });
    Ok(report)
}

async fn measure(bench: &BenchContext, transport: LoadTransport, report: &mut Report) -> Result<f64> {
    let setup = bench.server_setup_noted(report).await?;
    let greetings: Vec<String> =
        (0..CONNECTIONS + WARM_UP).map(|n| seed::connect(&setup.secret, &seed::user(n))).collect::<Result<_>>()?;
    let (first, all) = greetings.split_at(WARM_UP);
    let server = bench.start_server(&setup).await?;
    drop(open_all(server.feedline().over(transport), first, "\"connect\":", bench).await?);
    server.process.settle().await?;
    let before = server.process.resident()?;
    let sockets = open_all(server.feedline().over(transport), all, "\"connect\":", bench).await?;
    server.process.settle().await?;
    let after = server.process.resident()?;
    drop(sockets);
    server.stop().await?;
    bench.tear_down(setup).await?;
    Ok(after.saturating_sub(before) as f64 / CONNECTIONS as f64)
}
