//! The follow graph of the feed scenario, and the ledger with its users.

use anyhow::{Context as _, Result, ensure};
use feedline::model::UserId;

use super::context::BenchContext;
use super::ledger;
use super::seed;

/// The followers and the authors. Every author has as many followers.
#[derive(Clone, Copy, Debug)]
pub(super) struct FeedGraph {
    /// The followers. Each has a socket.
    pub sockets: usize,
    /// Followers of each author.
    pub followers: usize,
    /// The authors. No follower is an author.
    pub authors: usize,
    /// Authors that each follower follows.
    pub follows: usize,
}

impl FeedGraph {
    /// A graph; fails unless every author can have exactly `followers` followers.
    pub(super) fn new(sockets: usize, followers: usize, authors: usize) -> Result<Self> {
        let follows = followers * authors / sockets;
        ensure!(
            follows > 0
                && follows * sockets == followers * authors
                && authors.is_multiple_of(follows)
                && sockets.is_multiple_of(authors / follows),
            "{authors} authors cannot have {followers} of {sockets} followers each: sockets must divide authors × \
             followers, the quotient must divide authors, and that quotient sockets"
        );
        Ok(Self { sockets, followers, authors, follows })
    }

    /// The name of an author.
    pub(super) fn author(n: usize) -> String {
        format!("a{n:04}")
    }

    /// The authors that a follower follows: one of each group, another combination for each follower.
    pub(super) fn followees(self, follower: usize) -> impl Iterator<Item = String> {
        let group = self.authors / self.follows;
        (0..self.follows).map(move |n| Self::author(n * group + (follower + follower / group * n) % group))
    }

    /// Fills a ledger before its server starts.
    pub(super) async fn load(self, bench: &BenchContext, ledger: &str) -> Result<()> {
        bench.bar.set_message(format!("{} edges", self.sockets * self.follows));
        let ledger = ledger::open(ledger).await?;
        let id = |name: String| UserId::parse(&name).context("a name that is no id");
        let mut people: Vec<UserId> = (0..self.sockets).map(|n| id(seed::user(n))).collect::<Result<_>>()?;
        let mut edges = Vec::new();
        for (n, person) in people.iter().enumerate() {
            for author in self.followees(n) {
                edges.push((person.clone(), id(author)?));
            }
        }
        for n in 0..self.authors {
            people.push(id(Self::author(n))?);
        }
        let now = feedline::feed::now();
        ledger.load_users(&people, now).await?;
        for edges in edges.chunks(100_000) {
            ledger.load_follows(edges, now).await?;
        }
        ledger.close().await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn every_author_has_as_many_followers() {
        for (sockets, followers, authors) in [(1_000, 100, 100), (10_000, 1_000, 1_000), (20, 10, 4)] {
            let graph = FeedGraph::new(sockets, followers, authors).unwrap();
            let mut count = HashMap::<String, usize>::new();
            for n in 0..sockets {
                let followees: HashSet<String> = graph.followees(n).collect();
                assert_eq!(followees.len(), graph.follows, "a follower of {sockets} follows an author twice");
                for author in followees {
                    *count.entry(author).or_default() += 1;
                }
            }
            assert_eq!(count.len(), authors);
            assert!(count.values().all(|number| *number == followers), "{sockets} sockets: {count:?}");
        }
        assert!(FeedGraph::new(1_000, 3, 7).is_err());
    }
}
