//! The two text formats of metrics: OpenMetrics, and the older one that collectors read which do not ask for it.

use std::fmt::Write as _;

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// `application/openmetrics-text`.
    OpenMetrics,
    /// `text/plain;version=0.0.4`.
    Plain,
}

/// The format of `text/plain;version=0.0.4`, from that of OpenMetrics. Types name the samples of counters there, and
/// there are neither units nor an end mark.
pub(super) fn plain(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut counter = "";
    let mut help = "";
    for line in open_metrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            // It stands before the type, which shows whether the name gets an ending.
            (Some("#"), Some("HELP"), Some(_), text) => help = text.unwrap_or_default(),
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                counter = if kind == "counter" { name } else { "" };
                let ending = if kind == "counter" { "_total" } else { "" };
                // Writing to a string cannot fail.
                let _ = writeln!(text, "# HELP {name}{ending} {help}\n# TYPE {name}{ending} {kind}");
            }
            (Some("#"), ..) => {}
            _ => {
                debug_assert!(counter.is_empty() || line.starts_with(counter), "{line}");
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_get_their_ending_and_units_go() {
        let open = "# HELP a_seconds Time.\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\n\
            a_seconds_sum 0.5\na_seconds_count 1\na_seconds_bucket{le=\"+Inf\"} 1\n\
            # HELP b Calls, by kind.\n# TYPE b counter\nb_total{kind=\"c d\"} 3\n\
            # HELP g Now.\n# TYPE g gauge\ng 2\n# EOF\n";
        let expected = "# HELP a_seconds Time.\n# TYPE a_seconds histogram\na_seconds_sum 0.5\na_seconds_count 1\n\
            a_seconds_bucket{le=\"+Inf\"} 1\n# HELP b_total Calls, by kind.\n# TYPE b_total counter\n\
            b_total{kind=\"c d\"} 3\n# HELP g Now.\n# TYPE g gauge\ng 2\n";
        assert_eq!(plain(open), expected);
    }
}
