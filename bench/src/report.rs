//! The report of a scenario: medians, a table, JSON.

use serde::Serialize;
use serde_json::{Value, json};

/// The goal of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Goal {
    /// At least this, absolutely.
    AtLeast(f64),
    /// At most this, absolutely.
    AtMost(f64),
    /// At least this ratio to the baseline.
    RatioAtLeast(f64),
    /// At most this ratio to the baseline.
    RatioAtMost(f64),
}

/// One figure.
#[derive(Clone, Debug)]
pub(super) struct Row {
    name: String,
    unit: &'static str,
    /// The figure of each run.
    runs: Vec<f64>,
    /// The baseline: its name, and its figure of each run.
    against: Option<(&'static str, Vec<f64>)>,
    /// The goal of the median.
    goal: Option<Goal>,
}

impl Row {
    /// Compares the figure with a baseline, if there is one: its name, and its figure of each run.
    pub(super) fn against(&mut self, baseline: impl Into<Option<(&'static str, Vec<f64>)>>) -> &mut Self {
        self.against = baseline.into();
        self
    }

    /// The goal of the median.
    pub(super) fn goal(&mut self, goal: impl Into<Option<Goal>>) {
        self.goal = goal.into();
    }

    /// The ratio of the median to the median of the baseline.
    fn ratio(&self) -> Option<f64> {
        self.against.as_ref().map(|(_, runs)| median(&self.runs) / median(runs))
    }

    /// Whether the goal is reached; `None` without one.
    fn reached(&self) -> Option<bool> {
        Some(match self.goal? {
            Goal::AtLeast(least) => median(&self.runs) >= least,
            Goal::AtMost(most) => median(&self.runs) <= most,
            Goal::RatioAtLeast(least) => self.ratio()? >= least,
            Goal::RatioAtMost(most) => self.ratio()? <= most,
        })
    }

    fn line(&self) -> String {
        let against = self.against.as_ref().map(|(name, runs)| format!("{} {name}", number(median(runs))));
        let goal = self.goal.map(|goal| match goal {
            Goal::AtLeast(least) => format!("≥ {}", number(least)),
            Goal::AtMost(most) => format!("≤ {}", number(most)),
            Goal::RatioAtLeast(least) => format!("ratio ≥ {least:.2}"),
            Goal::RatioAtMost(most) => format!("ratio ≤ {most:.2}"),
        });
        line([
            &self.name,
            &number(median(&self.runs)),
            self.unit,
            &against.unwrap_or_default(),
            &self.ratio().map(|ratio| format!("{ratio:.3}")).unwrap_or_default(),
            &goal.unwrap_or_default(),
            self.reached().map_or("", |reached| if reached { "reached" } else { "missed" }),
        ])
    }

    fn json(&self) -> Value {
        let against = self.against.as_ref();
        json!({
            "name": self.name, "unit": self.unit, "median": median(&self.runs), "runs": self.runs,
            "against": against.map(|(name, runs)| json!({ "name": name, "median": median(runs), "runs": runs })),
            "ratio": self.ratio(), "goal": self.goal, "reached": self.reached(),
        })
    }
}

/// The report of a scenario.
#[derive(Clone, Debug)]
pub(super) struct Report {
    scenario: &'static str,
    rows: Vec<Row>,
    /// Notes on the conditions of the measurement.
    pub notes: Vec<String>,
}

impl Report {
    /// An empty report.
    pub(super) fn new(scenario: &'static str) -> Self {
        Self { scenario, rows: Vec::new(), notes: Vec::new() }
    }

    /// Adds a figure with its unit and its value in each run.
    pub(super) fn row(&mut self, name: impl Into<String>, unit: &'static str, runs: Vec<f64>) -> &mut Row {
        let at = self.rows.len();
        self.rows.push(Row { name: name.into(), unit, runs, against: None, goal: None });
        &mut self.rows[at]
    }

    /// The report as a table.
    pub(super) fn table(&self) -> String {
        let mut text = line(["", "median", "", "against", "ratio", "to reach", ""]);
        text.extend(self.rows.iter().map(Row::line));
        text.extend(self.notes.iter().map(|note| format!("  {note}\n")));
        text
    }

    /// The report as JSON, with every run.
    pub(super) fn json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(Row::json).collect();
        json!({ "scenario": self.scenario, "rows": rows, "notes": self.notes })
    }
}

fn line([name, figure, unit, against, ratio, goal, reached]: [&str; 7]) -> String {
    let line = format!("{name:<66} {figure:>10} {unit:<16} {against:>22} {ratio:>7}  {goal:<12} {reached}");
    format!("{}\n", line.trim_end())
}

/// A figure of each run.
pub(super) fn each<R>(runs: &[R], of: impl Fn(&R) -> f64) -> Vec<f64> {
    runs.iter().map(of).collect()
}

/// The median of a figure of each run.
pub(super) fn middle<R>(runs: &[R], of: impl Fn(&R) -> f64) -> f64 {
    median(&each(runs, of))
}

/// The median; of an even number of runs, the mean of the middle two. NaN for no runs.
fn median(runs: &[f64]) -> f64 {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
    }
}

/// Formats a number with three or more digits and separated thousands.
fn number(value: f64) -> String {
    if value.is_nan() {
        return "–".to_owned();
    }
    if value.abs() < 100.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{value:.0}");
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap_or_default()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle() {
        assert!(median(&[]).is_nan());
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!(
            [0.123, 42.0, 999.6, 1_459_000.4, f64::NAN].map(number),
            ["0.12", "42.00", "1,000", "1,459,000", "–"]
        );
    }

    #[test]
    fn a_goal_is_judged_by_the_medians() {
        let reached = |goal, against: &[f64]| {
            let mut report = Report::new("");
            let row = report.row("", "", vec![80.0, 90.0, 100.0]).against(("floor", against.to_vec()));
            row.goal(goal);
            row.reached()
        };
        assert_eq!(reached(Goal::RatioAtLeast(0.85), &[100.0]), Some(true));
        assert_eq!(reached(Goal::RatioAtLeast(0.85), &[110.0]), Some(false));
        assert_eq!(reached(Goal::RatioAtMost(1.0), &[90.0]), Some(true));
        assert_eq!(reached(Goal::AtLeast(91.0), &[]), Some(false));
        assert_eq!(reached(Goal::AtMost(90.0), &[]), Some(true));
    }
}
