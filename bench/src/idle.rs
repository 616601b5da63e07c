//! 10,000 idle signed-in connections with two channels each: bytes a connection.

use anyhow::Result;

use super::client::{SocketTarget, sign_in_all};
use super::context::BenchContext;
use super::report::{Goal, Report};
use super::stores::Stores;

/// The number of connections.
const CONNECTIONS: usize = 10_000;
/// Connections opened and closed first, so that memory that a server allocates only once is not counted.
const WARM_UP: usize = 100;

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext) -> Result<Report> {
    let mut report = Report::new("idle");
    let mut bytes = Vec::new();
    for _ in bench.runs("idle connections") {
        let stores = Stores::start(bench, None).await?;
        bytes.push(measure(bench, &stores).await?);
        report.notes = vec![stores.note()];
    }
    let name = format!("resident, {CONNECTIONS} connections signed in, 2 channels each");
    report.row(name, "bytes/connection", bytes).goal(Goal::AtMost(5_000.0));
    Ok(report)
}

async fn measure(bench: &BenchContext, stores: &Stores) -> Result<f64> {
    let server = stores.start_feedline(bench).await?;
    let target = SocketTarget::feedline(server.addr);
    drop(sign_in_all(bench, target, &stores.secret, 0..WARM_UP).await?);
    server.settle().await?;
    let before = server.resident()?;
    let sockets = sign_in_all(bench, target, &stores.secret, 0..CONNECTIONS).await?;
    server.settle().await?;
    let after = server.resident()?;
    drop(sockets);
    server.stop().await?;
    Ok((after - before).max(0.0) / CONNECTIONS as f64)
}
