//! The report of a scenario: medians, a table, JSON.

use serde_json::{Value, json};

/// Whether larger figures are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    /// Larger figures are better.
    More,
    /// Smaller figures are better.
    Less,
}

/// The goal of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    /// The name of the figure.
    pub name: String,
    /// The unit.
    pub unit: &'static str,
    /// Whether larger figures are better.
    pub better: Better,
    /// The figure of each run.
    pub measured: Vec<f64>,
    /// The baseline: its name, and its figure of each run.
    pub against: Option<(&'static str, Vec<f64>)>,
    /// The goal of the median.
    pub goal: Option<Goal>,
}

impl Row {
    /// The median of the runs.
    pub(super) fn median(&self) -> f64 {
        median(&self.measured)
    }

    /// The ratio of the median to the median of the baseline.
    pub(super) fn ratio(&self) -> Option<f64> {
        self.against.as_ref().map(|(_, runs)| self.median() / median(runs))
    }

    /// Whether the goal is reached; `None` without one.
    pub(super) fn reached(&self) -> Option<bool> {
        Some(match self.goal? {
            Goal::AtLeast(least) => self.median() >= least,
            Goal::AtMost(most) => self.median() <= most,
            Goal::RatioAtLeast(least) => self.ratio()? >= least,
            Goal::RatioAtMost(most) => self.ratio()? <= most,
        })
    }

    fn cells(&self) -> [String; 7] {
        let (against, other) = match &self.against {
            Some((name, runs)) => (format!("{} {name}", number(median(runs))), self.ratio()),
            None => (String::new(), None),
        };
        let goal = match self.goal {
            None => String::new(),
            Some(Goal::AtLeast(least)) => format!("≥ {}", number(least)),
            Some(Goal::AtMost(most)) => format!("≤ {}", number(most)),
            Some(Goal::RatioAtLeast(least)) => format!("ratio ≥ {least:.2}"),
            Some(Goal::RatioAtMost(most)) => format!("ratio ≤ {most:.2}"),
        };
        let reached = self.reached().map_or("", |reached| if reached { "reached" } else { "missed" });
        [
            self.name.clone(),
            number(self.median()),
            self.unit.to_owned(),
            against,
            other.map(|ratio| format!("{ratio:.3}")).unwrap_or_default(),
            goal,
            reached.to_owned(),
        ]
    }

    fn json(&self) -> Value {
        let goal = self.goal.map(|goal| match goal {
            Goal::AtLeast(least) => json!({ "at_least": least }),
            Goal::AtMost(most) => json!({ "at_most": most }),
            Goal::RatioAtLeast(least) => json!({ "ratio_at_least": least }),
            Goal::RatioAtMost(most) => json!({ "ratio_at_most": most }),
        });
        let against =
            self.against.as_ref().map(|(name, runs)| json!({ "name": name, "median": median(runs), "runs": runs }));
        json!({
            "name": self.name, "unit": self.unit, "better": if self.better == Better::More { "more" } else { "less" },
            "median": self.median(), "runs": self.measured, "against": against, "ratio": self.ratio(),
            "goal": goal, "reached": self.reached(),
        })
    }
}

/// The report of a scenario.
#[derive(Clone, Debug)]
pub(super) struct Report {
    /// Its name.
    pub scenario: &'static str,
    /// The figures.
    pub rows: Vec<Row>,
    /// Notes on the conditions of the measurement.
    pub notes: Vec<String>,
}

impl Report {
    /// An empty report.
    pub(super) fn new(scenario: &'static str) -> Self {
        Self { scenario, rows: Vec::new(), notes: Vec::new() }
    }

    /// The report as a table.
    pub(super) fn table(&self) -> String {
        let header = ["", "median", "", "against", "ratio", "to reach", ""].map(str::to_owned);
        let lines: Vec<[String; 7]> = std::iter::once(header).chain(self.rows.iter().map(Row::cells)).collect();
        let widths: [usize; 7] =
            std::array::from_fn(|at| lines.iter().map(|cells| cells[at].chars().count()).max().unwrap_or(0));
        let mut text = String::new();
        for cells in &lines {
            let mut line = String::new();
            for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
                let gap = " ".repeat(width - cell.chars().count());
                // Numbers are aligned to the right, text to the left.
                line += &if matches!(at, 1 | 3 | 4) { format!("{gap}{cell}  ") } else { format!("{cell}{gap}  ") };
            }
            text += line.trim_end();
            text.push('\n');
        }
        for note in &self.notes {
            text += &format!("  {note}\n");
        }
        text
    }

    /// The report as JSON, with every run.
    pub(super) fn json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(Row::json).collect();
        json!({ "scenario": self.scenario, "rows": rows, "notes": self.notes })
    }
}

/// The median; of an even number of runs, the mean of the middle two. NaN for no runs.
pub(super) fn median(runs: &[f64]) -> f64 {
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
        let row = |goal, against: &[f64]| Row {
            name: String::new(),
            unit: "",
            better: Better::More,
            measured: vec![80.0, 90.0, 100.0],
            against: Some(("floor", against.to_vec())),
            goal: Some(goal),
        };
        assert_eq!(row(Goal::RatioAtLeast(0.85), &[100.0]).reached(), Some(true));
        assert_eq!(row(Goal::RatioAtLeast(0.85), &[110.0]).reached(), Some(false));
        assert_eq!(row(Goal::RatioAtMost(1.0), &[90.0]).reached(), Some(true));
        assert_eq!(row(Goal::AtLeast(91.0), &[]).reached(), Some(false));
        assert_eq!(row(Goal::AtMost(90.0), &[]).reached(), Some(true));
    }
}
