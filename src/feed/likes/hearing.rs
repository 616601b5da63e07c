//! What every node makes of what a settler tells: counts, and words to the clients that asked.
//!
//! A settler may tell of thousands of likes at once. Their clients are told a few at a time, with pauses: each word wakes
//! a connection that writes, and a client that reads. Whoever likes meanwhile would wait behind all of them for the
//! acknowledgement, which is what people watch; to hear a little later that it is settled changes nothing that they see.

use bytes::Bytes;
use tokio::sync::mpsc::error::TrySendError;

use super::super::Feed;
use super::settled::Settled;
use super::{Likes, Pace, Whisper};

/// How many messages may wait. A node that is so far behind forgets what it knows of counts, and asks for them again.
pub(super) const WAITING: usize = 64;

/// How many counts are looked at, or clients told at most, before it is others' turn.
const AT_ONCE: usize = 128;

/// Clients are told in so many steps, of no fewer than this, with pauses between them: some 80 ms in all, for a partition's
/// batches come every 80 to 150 ms where many like. Where other messages wait, so that there is less time for each, in fewer
/// steps, and where so many wait, without pauses.
const STEPS: usize = 48;
const LEAST: usize = 8;
const MANY: usize = 8;

impl Likes {
    /// A settler, here or at another node, told how far it came and what the counts are.
    pub(in super::super) fn on_settled(&self, message: Bytes) {
        if let Err(TrySendError::Full(_)) = self.heard.try_send(message) {
            tracing::warn!("too many likes are settled for this node to follow, it asks for their counts again");
            self.on_resync();
        }
    }
}

impl Feed {
    /// Hears what settlers tell, until dropped, and passes on what clients of this node are to be told.
    pub async fn hear_settled(&self, tell: impl Fn(&Whisper) + Send) {
        let mut heard = self.likes.to_hear.lock().await;
        while let Some(message) = heard.recv().await {
            let Some(settled) = std::str::from_utf8(&message).ok().and_then(Settled::parse) else {
                tracing::debug!("a message about settled likes could not be read");
                continue;
            };
            let Settled { partition, through, tallies, .. } = &settled;
            for (place, (object, tally)) in tallies.iter().enumerate() {
                if place % AT_ONCE == AT_ONCE - 1 {
                    tokio::task::yield_now().await;
                }
                self.likes.counts.settle(*partition, *through, *object, *tally);
            }
            let whispers = self.likes.asks.settled(&settled, &self.likes.counts);
            let waiting = heard.len();
            let size = whispers.len().div_ceil(STEPS.div_ceil(waiting + 1)).clamp(LEAST, AT_ONCE);
            for (place, step) in whispers.chunks(size).enumerate() {
                if place > 0 {
                    Pace::hurried_if(waiting >= MANY).pause().await;
                }
                step.iter().for_each(&tell);
            }
        }
    }
}
