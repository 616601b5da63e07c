//! Which partitions a process takes and gives away, decided from what the ledger shows.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rand::seq::SliceRandom as _;

use crate::ledger::{Fence, PartitionRow, WorkView};

/// The partitions that a process takes and gives away.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Free partitions to take, with the generations of their last owners.
    pub(super) take: Vec<Fence>,
    /// Partitions of this process that are above its share.
    pub(super) give_away: Vec<Arc<str>>,
}

/// Decides. `wanted` has the partitions that this process works on, with their kinds; `holder` is its name. Each
/// process with a lease has an equal share of the partitions of a kind, rounded up.
pub(super) fn plan(view: &WorkView, wanted: &[(Arc<str>, Arc<str>)], holder: &str) -> Plan {
    let rows: HashMap<&str, &PartitionRow> = view.partitions.iter().map(|row| (row.name.as_str(), row)).collect();
    let mut kinds: BTreeMap<&str, Vec<&Arc<str>>> = BTreeMap::new();
    for (name, kind) in wanted {
        kinds.entry(kind).or_default().push(name);
    }
    let mut plan = Plan::default();
    for (kind, mut names) in kinds {
        let nodes = view.nodes.iter().filter(|kinds| kinds.iter().any(|it| it == kind)).count();
        let share = names.len().div_ceil(nodes.max(1));
        // Processes that start together do not all ask for the same ones.
        names.shuffle(&mut rand::rng());
        let mut mine = Vec::new();
        let mut free = Vec::new();
        for name in names {
            match rows.get(&**name) {
                Some(PartitionRow { owner: Some(owner), .. }) if owner == holder => mine.push(name),
                Some(PartitionRow { owner: Some(_), .. }) => {}
                row => free.push((name, row.map_or(0, |row| row.generation))),
            }
        }
        let room = share.saturating_sub(mine.len());
        let fence = |(name, generation): (&Arc<str>, u64)| Fence { partition: Arc::clone(name), generation };
        plan.take.extend(free.into_iter().take(room).map(fence));
        // The same ones in each round, until the ledger shows them as released.
        mine.sort_unstable();
        plan.give_away.extend(mine.into_iter().skip(share).cloned());
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, owner: Option<&str>, generation: u64) -> PartitionRow {
        PartitionRow { name: name.into(), owner: owner.map(Into::into), generation }
    }

    fn wanted(names: &[&str]) -> Vec<(Arc<str>, Arc<str>)> {
        names.iter().map(|name| ((*name).into(), name.split('/').next().unwrap_or_default().into())).collect()
    }

    fn nodes(kinds: &[&[&str]]) -> Vec<Vec<String>> {
        kinds.iter().map(|kinds| kinds.iter().map(|kind| (*kind).to_owned()).collect()).collect()
    }

    #[test]
    fn a_process_alone_takes_all() {
        let view = WorkView { nodes: nodes(&[&["a", "b"]]), partitions: vec![row("a/0", None, 7)] };
        let mut plan: Plan = plan(&view, &wanted(&["a/0", "a/1", "b"]), "me");
        plan.take.sort_by(|one, other| one.partition.cmp(&other.partition));
        let taken: Vec<_> = plan.take.iter().map(|fence| (&*fence.partition, fence.generation)).collect();
        assert_eq!(taken, [("a/0", 7), ("a/1", 0), ("b", 0)]);
        assert_eq!(plan.give_away, [] as [Arc<str>; 0]);
    }

    #[test]
    fn shares_are_equal_among_the_processes_of_a_kind() {
        let owned = ["a/0", "a/1", "a/2"].map(|name| row(name, Some("me"), 1));
        let partitions = owned.into_iter().chain([row("b", Some("me"), 1)]).collect();
        let mut view = WorkView { nodes: nodes(&[&["a", "b"], &["c"]]), partitions };
        let names = wanted(&["a/0", "a/1", "a/2", "b"]);
        assert_eq!(plan(&view, &names, "me"), Plan::default(), "the other one does not work on these");
        view.nodes = nodes(&[&["a", "b"], &["a", "b"]]);
        let given = plan(&view, &names, "me").give_away;
        assert_eq!(given.len(), 1, "two of three, and the only one of b: {given:?}");
        assert!(given[0].starts_with("a/"));
        assert_eq!(plan(&view, &names, "other"), Plan::default(), "nothing is free");
        view.partitions[0].owner = None;
        let taken = plan(&view, &names, "other").take;
        assert_eq!(taken, [Fence { partition: "a/0".into(), generation: 1 }]);
        assert_eq!(plan(&view, &names, "me"), Plan::default(), "its share is full");
    }

    #[test]
    fn the_surplus_is_the_same_in_each_round() {
        let names: Vec<String> = (0..8).map(|number| format!("a/{number}")).collect();
        let partitions = names.iter().map(|name| row(name, Some("me"), 1)).collect();
        let view = WorkView { nodes: nodes(&[&["a"], &["a"]]), partitions };
        let wanted = wanted(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let first = plan(&view, &wanted, "me").give_away;
        assert_eq!(first.len(), 4);
        for _ in 0..10 {
            assert_eq!(plan(&view, &wanted, "me").give_away, first, "the first ones still stop");
        }
    }
}
