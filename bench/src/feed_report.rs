//! The report of the feed scenario.

use super::feed_side::FeedRun;
use super::report::{Better, Goal, Report, Row, median};

/// The runs of one system with one number of writers.
#[derive(Clone, Debug, Default)]
pub(super) struct FeedRuns {
    /// As fast as posts are accepted.
    pub top: Vec<FeedRun>,
    /// At a part of that rate.
    pub paced: Vec<FeedRun>,
}

/// Everything that was measured of one system, for each number of writers.
pub(super) struct FeedResult {
    /// The name of the system.
    pub name: &'static str,
    /// The names of its processes.
    pub processes: Vec<&'static str>,
    /// The runs.
    pub runs: Vec<FeedRuns>,
}

/// The stores, which decide the goals.
#[derive(Clone, Copy, Debug)]
pub(super) struct FeedGoals {
    /// The broker is on Redis.
    pub on_redis: bool,
    /// The ledger is on PostgreSQL.
    pub on_postgres: bool,
}

impl FeedGoals {
    /// The goal for posts a second, as a ratio to the peer's.
    fn posts(self) -> Goal {
        Goal::RatioAtLeast(if self.on_postgres { 2.0 } else { 3.0 })
    }

    /// A goal that holds for the embedded stores only.
    fn embedded(self, goal: Goal) -> Option<Goal> {
        (!self.on_redis && !self.on_postgres).then_some(goal)
    }
}

/// Adds the rows and notes of all systems; the server is the first.
pub(super) fn fill(report: &mut Report, writers: &[usize], load: f64, goals: FeedGoals, results: &[FeedResult]) {
    let other = |name: &str| results.iter().find(|result| result.name == name);
    let floor = other("floor");
    let peer = other("peer");
    for (at, &writers) in writers.iter().enumerate() {
        let runs = &results[0].runs[at];
        let top = FeedRows { runs: &runs.top, floor: floor.map(|floor| &*floor.runs[at].top) };
        let peer = peer.map(|peer| &*peer.runs[at].top);
        report.rows.push(top.row(
            format!("{writers} writers: deliveries"),
            ("deliveries/s", Better::More),
            |run| run.deliveries,
            floor.and(goals.embedded(Goal::RatioAtLeast(0.7))),
        ));
        let posts = |runs: &[FeedRun]| each(runs, |run| run.posts);
        let fewer = at.checked_sub(1).map(|at| ("fewer writers", posts(&results[0].runs[at].top)));
        let fewer_goal = fewer.as_ref().map(|_| Goal::RatioAtLeast(1.0));
        report.rows.push(Row {
            against: fewer,
            goal: fewer_goal,
            ..top.alone("  posts", "posts/s", Better::More, |run| run.posts)
        });
        if let Some(peer) = peer {
            report.rows.push(Row {
                against: Some(("peer", posts(peer))),
                goal: Some(goals.posts()),
                ..top.alone("  posts, beside the peer's", "posts/s", Better::More, |run| run.posts)
            });
        }
        cpu_rows(report, &top, goals.embedded(Goal::AtMost(0.3)).filter(|_| writers == 8));
        latency_rows(report, &top, peer);
        let paced = FeedRows { runs: &runs.paced, floor: None };
        if !runs.paced.is_empty() {
            for (place, name) in PERCENTILES.into_iter().enumerate() {
                let name = format!("  at {load} of that, publish to socket, {name}");
                let goal = goals.embedded(Goal::AtMost(10.0)).filter(|_| place == 1);
                let row = paced.alone(&name, "ms", Better::Less, |run| run.latency[place]);
                report.rows.push(Row { goal, ..row });
            }
        }
        for result in results {
            report.notes.push(note(writers, result, &result.runs[at].top));
        }
    }
}

/// The names of the latencies of a run.
const PERCENTILES: [&str; 3] = ["p50", "p99", "p99.9"];

fn cpu_rows(report: &mut Report, top: &FeedRows<'_>, goal: Option<Goal>) {
    let server = ("µs", Better::Less);
    report.rows.push(top.row("  CPU of the server a delivery".to_owned(), server, FeedRun::cpu_a_delivery, None));
    if let Some(floor) = top.floor {
        let bare = median(&each(floor, FeedRun::cpu_a_delivery));
        let beside = |run: &FeedRun| (run.cpu[0] - bare * run.fan_out()) / 1e3;
        let row = top.alone("  CPU of a post beside the floor's for its deliveries", "ms", Better::Less, beside);
        report.rows.push(Row { goal, ..row });
    }
}

fn latency_rows(report: &mut Report, top: &FeedRows<'_>, peer: Option<&[FeedRun]>) {
    for (place, name) in PERCENTILES.into_iter().enumerate() {
        let name = format!("  publish to socket, {name}");
        match peer {
            Some(peer) => report.rows.push(Row {
                against: Some(("peer", each(peer, |run| run.latency[place]))),
                goal: (place == 1).then_some(Goal::RatioAtMost(1.0)),
                ..top.alone(&name, "ms", Better::Less, |run| run.latency[place])
            }),
            None => report.rows.push(top.row(name, ("ms", Better::Less), |run| run.latency[place], None)),
        }
    }
}

/// The runs of the server, and of the floor.
struct FeedRows<'a> {
    runs: &'a [FeedRun],
    floor: Option<&'a [FeedRun]>,
}

impl FeedRows<'_> {
    /// A row beside the floor.
    fn row(
        &self,
        name: String,
        (unit, better): (&'static str, Better),
        of: impl Fn(&FeedRun) -> f64,
        goal: Option<Goal>,
    ) -> Row {
        let against = self.floor.map(|floor| ("floor", each(floor, &of)));
        Row { name, unit, better, measured: each(self.runs, of), against, goal }
    }

    /// A row without a baseline.
    fn alone(&self, name: &str, unit: &'static str, better: Better, of: impl Fn(&FeedRun) -> f64) -> Row {
        Row { name: name.to_owned(), unit, better, measured: each(self.runs, of), against: None, goal: None }
    }
}

fn each(runs: &[FeedRun], of: impl Fn(&FeedRun) -> f64) -> Vec<f64> {
    runs.iter().map(of).collect()
}

/// CPU time by process.
fn note(writers: usize, result: &FeedResult, runs: &[FeedRun]) -> String {
    let middle = |of: &dyn Fn(&FeedRun) -> f64| median(&each(runs, of));
    let processes = result.processes.iter().enumerate().map(|(at, name)| {
        let post = middle(&|run| run.cpu[at]);
        let delivery = middle(&|run| run.cpu[at] / run.fan_out());
        format!("{name} {post:.0} µs a post, {delivery:.1} a delivery")
    });
    let [p50, p99, p999] = [0, 1, 2].map(|at| middle(&|run| run.latency[at]));
    format!(
        "{writers} writers, {}: {:.0} posts/s; CPU: {}; clients {:.0} % of a core; p50 {p50:.1}, p99 {p99:.1}, p99.9 \
         {p999:.1} ms",
        result.name,
        middle(&|run| run.posts),
        processes.collect::<Vec<_>>().join("; "),
        middle(&|run| run.clients) * 100.0,
    )
}
