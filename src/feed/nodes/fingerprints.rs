//! What must be the same on all nodes: keys by their digests, the version, the clock.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::ledger::{NodeDetails, NodeRow};

/// What is compared, as in `/ready`: first the kinds of keys, in the order of their digests in a [`NodeDetails`].
/// `key_versions` are the former keys that are still accepted.
pub const FINGERPRINTS: [&str; 6] = ["token_keys", "session_keys", "api_keys", "key_versions", "clock", "version"];

/// Clocks that differ by less count as equal: the clock of a store is known to within the time of a call.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(2);

/// The most nodes that a reason names.
const MAX_NAMED: usize = 5;

/// For each of [`FINGERPRINTS`], the names of the nodes that differ from this one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mismatches(BTreeMap<&'static str, Vec<String>>);

impl Mismatches {
    /// Compares this node with the others.
    pub(super) fn find<'a>(own: &NodeDetails, others: impl Iterator<Item = &'a NodeRow>) -> Self {
        let mut found = Self::default();
        for other in others.map(|row| &row.description) {
            let differing = FINGERPRINTS.into_iter().filter(|kind| differs(kind, own, other));
            differing.for_each(|kind| found.0.entry(kind).or_default().push(other.name.clone()));
        }
        found
    }

    /// The number of differences.
    pub(super) fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// For each of [`FINGERPRINTS`], which nodes differ; `None`: none does.
    pub(crate) fn report(&self) -> Vec<(&'static str, Option<String>)> {
        FINGERPRINTS.into_iter().map(|kind| (kind, self.0.get(kind).map(|nodes| reason(nodes)))).collect()
    }
}

fn differs(kind: &str, own: &NodeDetails, other: &NodeDetails) -> bool {
    match kind {
        "version" => own.version != other.version,
        "clock" => {
            let difference = own.clock_skew.abs_diff(other.clock_skew);
            Duration::from_millis(difference) > MAX_CLOCK_DIFFERENCE
        }
        // Nodes of other versions may not have this kind.
        _ => own.fingerprints.get(kind).zip(other.fingerprints.get(kind)).is_some_and(|(own, other)| own != other),
    }
}

fn reason(nodes: &[String]) -> String {
    let named = nodes.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match nodes.len().checked_sub(MAX_NAMED) {
        None | Some(0) => format!("differs from that of {named}"),
        Some(more) => format!("differs from that of {named}, and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, change: impl FnOnce(&mut NodeDetails)) -> NodeRow {
        let mut description = NodeDetails { name: name.into(), version: "1".into(), ..Default::default() };
        for kind in &FINGERPRINTS[..4] {
            description.fingerprints.insert((*kind).to_owned(), format!("digest of {kind}"));
        }
        change(&mut description);
        NodeRow { id: name.into(), broker: "b".into(), description, lease_until: 1, is_live: true }
    }

    #[test]
    fn differences_are_counted_by_kind_and_node() {
        let own = node("own", |own| own.clock_skew = 1_500).description;
        let others = [
            node("same", |it| it.clock_skew = -400),
            node("late", |it| it.clock_skew = -600),
            node("old", |it| it.version = "0".into()),
            node("keys", |it| _ = it.fingerprints.insert("api_keys".into(), "others".into())),
            node("before", |it| it.fingerprints.clear()),
        ];
        let found = Mismatches::find(&own, others.iter());
        let differing: Vec<_> = found.report().into_iter().filter_map(|(kind, why)| Some((kind, why?))).collect();
        let of = |name| format!("differs from that of {name}");
        assert_eq!(differing, [("api_keys", of("keys")), ("clock", of("late")), ("version", of("old"))]);
        assert_eq!((found.len(), found.report().len()), (3, FINGERPRINTS.len()));
        let many: Vec<_> = (0..7).map(|n| node(&format!("n{n}"), |it| it.version = "0".into())).collect();
        let report = Mismatches::find(&own, many.iter()).report();
        assert_eq!(report[5].1.as_deref(), Some("differs from that of n0, n1, n2, n3, n4, and 2 more"));
    }
}
