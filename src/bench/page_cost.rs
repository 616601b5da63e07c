//! The cost of a timeline page near the top, at the end of the inbox, and far below it.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use hyper::Method;
use serde::Deserialize;
use serde_json::Value;

use super::context::BenchContext;
use super::dataset;
use super::http_client::HttpClient;
use super::report::{Better, Goal, Report, Row, median};
use super::seed;

/// Posts on a page.
const PAGE: usize = 30;
/// The pages that are compared, from 1. The inbox ends at page 34.
const PAGES: [usize; 3] = [1, 30, 200];
/// The number of reads of each page in a run.
const READS: usize = 200;
/// The number of readers.
const READERS: usize = 20;

/// The parts of a page that the bench reads.
#[derive(Deserialize)]
struct PageBody {
    items: Vec<Value>,
    next: Option<String>,
}

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext) -> Result<Report> {
    let mut report = Report::new("page-cost");
    let setup = bench.server_setup_noted(&mut report).await?;
    dataset::load(bench, &setup.ledger, READERS).await?;
    let server = bench.start_server(&setup).await?;
    let mut http = HttpClient::open(server.addr).await?;
    bench.start_progress(READERS + bench.options.runs);
    let mut readers = Vec::new();
    for n in 0..READERS {
        bench.bar.set_message("walking to the last page");
        let token = seed::token(&setup.secret, &seed::user(n))?;
        let paths = walk(&mut http, &token).await?;
        readers.push((token, paths));
        bench.bar.inc(1);
    }
    let mut runs = PAGES.map(|_| Vec::new());
    for run in 1..=bench.options.runs {
        bench.bar.set_message(format!("run {run}"));
        let mut times = PAGES.map(|_| Vec::new());
        for read in 0..READS {
            let (token, paths) = &readers[read % READERS];
            for (path, times) in paths.iter().zip(&mut times) {
                let start = Instant::now();
                http.call(Method::GET, path, token).await?;
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
        }
        for (times, runs) in times.iter().zip(&mut runs) {
            runs.push(median(times));
        }
        bench.bar.inc(1);
    }
    let first = runs[0].clone();
    for (page, runs) in PAGES.into_iter().zip(runs) {
        report.rows.push(Row {
            name: format!("page {page} of {PAGE} posts"),
            unit: "ms",
            better: Better::Less,
            measured: runs,
            against: (page > 1).then(|| ("page 1", first.clone())),
            goal: (page > 1).then_some(Goal::RatioAtMost(3.0)),
        });
    }
    server.stop().await?;
    bench.tear_down(setup).await?;
    Ok(report)
}

/// Reads from the first page to the last of [`PAGES`]. Returns the path of each of those.
async fn walk(http: &mut HttpClient, token: &str) -> Result<Vec<String>> {
    let mut path = format!("/api/v1/timeline?limit={PAGE}");
    let mut paths = Vec::new();
    for number in 1..=PAGES[PAGES.len() - 1] {
        let page: PageBody = serde_json::from_slice(&http.call(Method::GET, &path, token).await?)?;
        ensure!(page.items.len() == PAGE, "page {number} has {} posts", page.items.len());
        if PAGES.contains(&number) {
            paths.push(path);
        }
        let next = page.next.with_context(|| format!("page {number} is the last"))?;
        path = format!("/api/v1/timeline?limit={PAGE}&cursor={next}");
    }
    Ok(paths)
}
