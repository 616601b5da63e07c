//! Which clients of this node asked for likes, and are to be told when those are settled.
//!
//! Settling may happen at another node, which tells every node how far it came. Each node knows its own clients' likes by
//! their places, so nothing of a client is in the queue, and the word goes to the connection that asked and to no other.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::provisional::Counts;
use super::settled::Settled;
use crate::broker::Place;
use crate::model::{LikeChange, Object, Tally, UserId};

/// How many likes may wait for their word here, in all. Past it clients are not told: their likes are settled all the same,
/// and what they were answered stays true.
const MOST: usize = 200_000;

/// How many publications a client is told of at once: a frame holds that many messages at most.
const TOGETHER: usize = 16;

/// What one client alone is told.
#[derive(Debug, PartialEq, Eq)]
pub struct Whisper {
    /// Which client of this node.
    pub client: Arc<str>,
    /// On which channel.
    pub channel: String,
    /// The members of each publication, 1 to 16 of them.
    pub publications: Vec<Bytes>,
}

/// The likes that clients of this node asked for.
pub(super) struct Asks {
    /// By partition, each in the order of places.
    waiting: Vec<Mutex<VecDeque<Ask>>>,
    /// How many may wait in each.
    most: usize,
}

struct Ask {
    place: Place,
    client: Arc<str>,
    change: LikeChange,
}

impl Asks {
    pub(super) fn new(partitions: u16) -> Self {
        let waiting = (0..partitions).map(|_| Mutex::default()).collect();
        Self { waiting, most: MOST / usize::from(partitions.max(1)) }
    }

    /// A client's like is in the queue. Those of a partition come in the order of their places.
    pub(super) fn wait(&self, partition: u16, place: Place, client: Arc<str>, change: LikeChange) {
        let mut waiting = self.waiting[usize::from(partition)].lock();
        if waiting.len() < self.most {
            waiting.push_back(Ask { place, client, change });
        }
    }

    /// Nobody can say any more how far the partitions are.
    pub(super) fn forget_all(&self) {
        self.waiting.iter().for_each(|waiting| *waiting.lock() = VecDeque::new());
    }

    /// Takes those that are settled now, and puts into words what their clients are told: once for each object, the state
    /// that came last. What was reverted is told elsewhere, to all of the user's devices. A client hears what there is for it
    /// together: being woken and written to is most of what a word costs.
    pub(super) fn settled(&self, settled: &Settled, counts: &Counts) -> Vec<Whisper> {
        let Some(waiting) = self.waiting.get(usize::from(settled.partition)) else { return Vec::new() };
        let done: Vec<Ask> = {
            let mut waiting = waiting.lock();
            let many = waiting.partition_point(|ask| ask.place <= settled.through);
            waiting.drain(..many).collect()
        };
        let reverted: HashSet<(&UserId, Object)> =
            settled.reverted.iter().map(|(user, object)| (user, *object)).collect();
        let last: HashMap<(&UserId, Object), bool> =
            done.iter().map(|ask| ((&ask.change.user, ask.change.object), ask.change.liked)).collect();
        let mut asks: HashMap<(&Arc<str>, Object), u64> = HashMap::new();
        for Ask { client, change, .. } in &done {
            *asks.entry((client, change.object)).or_default() += 1;
        }
        let mut whispers: Vec<Whisper> = Vec::new();
        let mut of_client: HashMap<&Arc<str>, usize> = HashMap::new();
        for Ask { client, change, .. } in &done {
            let key = (&change.user, change.object);
            // Taken out with the first of them.
            let Some(asks) = asks.remove(&(client, change.object)).filter(|_| !reverted.contains(&key)) else {
                continue;
            };
            // One that was settled before this node knew its place is not in the message that comes next.
            let tally = settled.tallies.get(&change.object).copied().or_else(|| counts.tally(change.object));
            let Some((liked, tally)) = last.get(&key).copied().zip(tally) else { continue };
            let publication = publication(change.object, liked, asks, tally);
            match of_client.get(client).and_then(|last| whispers.get_mut(*last)) {
                Some(whisper) if whisper.publications.len() < TOGETHER => whisper.publications.push(publication),
                _ => {
                    of_client.insert(client, whispers.len());
                    let (client, channel) = (Arc::clone(client), super::notifications(&change.user));
                    whispers.push(Whisper { client, channel, publications: vec![publication] });
                }
            }
        }
        whispers
    }
}

/// It says of how many likes and takings back it is, so that a client that asked in quick succession knows whether another
/// word will follow.
fn publication(object: Object, liked: bool, asks: u64, tally: Tally) -> Bytes {
    let (id, Tally { likes, version, .. }) = (object.number(), tally);
    format!(
        r#""data":{{"type":"like.settled","id":{id},"liked":{liked},"asks":{asks},"likes":{likes},"version":{version}}}"#
    )
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PostId;

    fn at(major: u64) -> Place {
        Place { major, minor: 0 }
    }

    fn change(user: &str, post: u64, liked: bool) -> LikeChange {
        LikeChange { user: UserId::parse(user).unwrap(), object: Object::Post(PostId(post)), liked, at: 1 }
    }

    #[test]
    fn each_client_that_asked_is_told_once_of_the_last_state() {
        let (asks, counts) = (Asks::new(2), Counts::new());
        asks.wait(1, at(1), "phone".into(), change("ann", 7, true));
        asks.wait(1, at(2), "phone".into(), change("ann", 7, true));
        asks.wait(1, at(3), "desk".into(), change("ann", 7, false));
        asks.wait(1, at(4), "bo's".into(), change("bo", 8, true));
        asks.wait(1, at(5), "late".into(), change("cy", 7, true));
        asks.wait(0, at(1), "other".into(), change("dee", 7, true));
        let tally = |likes| Tally { likes, comments: 0, version: 3 };
        let settled = Settled {
            partition: 1,
            through: at(4),
            tallies: HashMap::from([(Object::Post(PostId(7)), tally(4)), (Object::Post(PostId(8)), tally(0))]),
            reverted: vec![(UserId::parse("bo").unwrap(), Object::Post(PostId(8)))],
        };
        let told = asks.settled(&settled, &counts);
        let members = |asks| {
            let counts = r#""likes":4,"version":3"#;
            format!(r#""data":{{"type":"like.settled","id":7,"liked":false,"asks":{asks},{counts}}}"#)
        };
        let expected = [("phone", 2), ("desk", 1)].map(|(client, asks)| Whisper {
            client: client.into(),
            channel: "notifications:ann".to_owned(),
            publications: vec![members(asks).into()],
        });
        assert_eq!(told, expected);
        assert_eq!(asks.settled(&settled, &counts), []);
        // The next message does not speak of that object: what is known here is told.
        let next = Settled { partition: 1, through: at(5), ..Settled::default() };
        counts.insert(Object::Post(PostId(7)), tally(5));
        let told = asks.settled(&next, &counts);
        assert_eq!(told.iter().map(|whisper| &*whisper.client).collect::<Vec<_>>(), ["late"]);
    }

    #[test]
    fn what_there_is_for_a_client_is_told_together_and_in_order() {
        let (asks, counts) = (Asks::new(1), Counts::new());
        let many = TOGETHER as u64 + 1;
        for n in 1..=many {
            asks.wait(0, at(2 * n), "phone".into(), change("ann", n, true));
            asks.wait(0, at(2 * n + 1), "desk".into(), change("ann", 100 + n, true));
            counts.insert(Object::Post(PostId(n)), Tally::default());
            counts.insert(Object::Post(PostId(100 + n)), Tally::default());
        }
        let told = asks.settled(&Settled { through: at(u64::MAX), ..Settled::default() }, &counts);
        let heard = |client: &str| {
            let mine = told.iter().filter(|whisper| &*whisper.client == client);
            mine.map(|whisper| whisper.publications.clone()).collect::<Vec<_>>()
        };
        for (client, from) in [("phone", 0), ("desk", 100)] {
            let expected: Vec<Bytes> =
                (1..=many).map(|n| publication(Object::Post(PostId(from + n)), true, 1, Tally::default())).collect();
            assert_eq!(heard(client), [expected[..TOGETHER].to_vec(), expected[TOGETHER..].to_vec()], "{client}");
        }
    }

    #[test]
    fn no_more_than_fit_wait() {
        let (asks, counts) = (Asks::new(200), Counts::new());
        for n in 0..=asks.most as u64 {
            asks.wait(0, at(n + 1), n.to_string().into(), change("ann", n, true));
        }
        counts.insert(Object::Post(PostId(asks.most as u64)), Tally::default());
        let all = Settled { through: at(u64::MAX), ..Settled::default() };
        assert_eq!(asks.settled(&all, &counts), []);
    }
}
