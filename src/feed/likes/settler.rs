//! Takes batches off a partition of the queue into the ledger, in order.
//!
//! Who may do so holds the partition in the queue, which keeps others from doing the same work; that none is done twice is
//! for the ledger to see to: a batch is applied only where the last one ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::super::error::isolate;
use super::super::{Feed, Result, now};
use super::Pace;
use super::entry;
use super::notifications;
use super::quarantine::{BatchSize, Failure};
use super::settled::Settled;
use super::teller::Teller;
use crate::broker::{Append, Claim, Place};
use crate::ledger::{self, EventConsumer, LikeBatch, Reverted, SettledLikes};
use crate::model::{Entry, Epoch, LikeChange, Object};

/// How many entries a batch takes.
pub(super) const BATCH: usize = 4_000;

/// How long likes gather before a batch that is not full is taken: a transaction of the ledger is shared by that many.
const GATHER: Duration = Duration::from_millis(50);

/// Where the last batch had more entries than this, others are on their way, and the next gathers for longer: what is
/// written to the ledger for one like, many write to as well.
const MANY: usize = 500;
const GATHER_MANY: Duration = Duration::from_millis(150);

/// How often a partition is looked at without a word from this node's intake: others append too.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How often a node looks whether a partition that another holds has become free.
const TRY_EVERY: Duration = Duration::from_millis(1_000);

/// The first pause after a failure; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How many partitions are settled at once by a node. More would not settle faster: they contend for the same rows and log, and
/// a database on this machine would take from those who wait for an acknowledgement.
pub(super) const AT_ONCE: usize = 2;

/// How many likes are looked at in one step.
const LOOKS: usize = 500;

/// How many reverted likes are told in one step.
const REVERTS: usize = 200;

/// A signal that says what was settled begins so.
pub(in crate::feed) const SETTLED: &str = "likes ";

/// Where a settler is with its partition.
pub(super) struct Seat {
    pub(super) life: Epoch,
    /// The incarnation of the ledger that all this is about.
    incarnation: Arc<str>,
    /// What the ledger says of it.
    pub(super) position: String,
    /// Everything up to here is settled.
    pub(super) through: Place,
    pub(super) teller: Teller,
    /// Whether reverted likes may stand in the ledger of which nobody was told.
    pub(super) reverts: bool,
    /// How often in a row the oldest of those could not be told although the stores answered.
    revert_failures: u32,
    /// Below this the queue is trimmed.
    trimmed: Place,
}

/// What a turn came to.
enum Turn {
    /// There may be more at once.
    More,
    /// What there was is settled, so many.
    Done(usize),
    /// Another node has the partition.
    Elsewhere,
}

impl Feed {
    /// Settles a partition whenever this node has it, until the process stops.
    pub(super) async fn settle_partition(&self, partition: u16) {
        let mut seat = None;
        let mut failures = FIRST_PAUSE;
        let mut size = BatchSize::default();
        loop {
            let begun = Instant::now();
            let pause = match self.settle_turn(partition, &mut seat, &mut size).await {
                Ok(turn) => {
                    failures = FIRST_PAUSE;
                    match turn {
                        Turn::More => Duration::ZERO,
                        Turn::Done(many) => self.until_more(partition, &seat, begun, many).await,
                        Turn::Elsewhere => TRY_EVERY.mul_f64(rand::random_range(0.8..1.2)),
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, partition, pause = ?failures, "the settling of likes waits for its stores");
                    let pause = failures.mul_f64(rand::random_range(0.5..1.5));
                    failures = (failures * 2).min(LONGEST_PAUSE);
                    pause
                }
            };
            if !self.fanout.sleep(pause).await {
                break;
            }
        }
        if let Some(mut seat) = seat {
            // Whoever is next tells what is left, but not before this node's hold would have ended.
            let told = self.tell_counts(&mut seat.teller, Pace::Hurried).await;
            let trimmed = self.trim_settled(partition, &mut seat).await;
            if let Err(error) = told.and(trimmed) {
                tracing::debug!(%error, partition, "the last counts are left to the next settler");
            }
            if let Err(error) = self.likes.queue.release(partition, self.fanout.holder()).await {
                tracing::debug!(%error, partition, "a partition was not let go, its lease will run out");
            }
        }
    }

    /// Waits until there may be something to settle or to tell. Answers how long to wait on, so that likes gather.
    async fn until_more(&self, partition: u16, seat: &Option<Seat>, begun: Instant, many: usize) -> Duration {
        let look = begun + LOOK_EVERY;
        let until = seat.as_ref().and_then(|seat| seat.teller.next()).map_or(look, |next| next.min(look));
        tokio::select! {
            () = self.likes.woken[usize::from(partition)].notified() => {}
            () = tokio::time::sleep_until(until) => {}
            () = self.fanout.stopped() => {}
        }
        let gather = if many > MANY { GATHER_MANY } else { GATHER };
        gather.saturating_sub(begun.elapsed())
    }

    async fn settle_turn(&self, partition: u16, seat: &mut Option<Seat>, size: &mut BatchSize) -> Result<Turn> {
        // Waited for before the batch is taken, which others may have done by the time it is this one's turn.
        let turn = tokio::select! {
            turn = self.likes.settling.acquire() => turn,
            () = self.fanout.stopped() => return Ok(Turn::Done(0)),
        };
        let (after, asked) = (seat.as_ref().map_or(Place::ZERO, |seat| seat.through), size.limit());
        let claim = self.likes.queue.claim(partition, self.fanout.holder(), after, asked).await?;
        let Some(claim) = claim else {
            *seat = None;
            return Ok(Turn::Elsewhere);
        };
        let incarnation = self.lineage.incarnation();
        if seat.as_ref().is_some_and(|seat| seat.life != claim.life || seat.incarnation != incarnation) {
            // The queue was lost and begins anew, or the ledger was replaced: it is to be read from its beginning.
            *seat = None;
            return Ok(Turn::More);
        }
        let Some(sitting) = seat.as_mut() else {
            *seat = Some(self.take_partition_over(partition, claim).await?);
            return Ok(Turn::More);
        };
        let many = claim.items.len();
        if many > 0 {
            let in_hand = &self.likes.in_hand[usize::from(partition)];
            let oldest = claim.items.iter().find_map(|item| entry::decode(&item.body)).map_or(0, |change| change.at);
            in_hand.store(oldest, Ordering::Relaxed);
            let first = claim.items[0].clone();
            let (settled, cause) = isolate(self.settle_batch(partition, sitting, claim)).await;
            match settled {
                Ok(Settling::Applied) => {
                    self.like_quarantine.succeeded();
                    size.succeeded();
                    in_hand.store(0, Ordering::Relaxed);
                }
                Ok(Settling::Moved) => {
                    // Another settled meanwhile; or this node did, and was not told.
                    *seat = None;
                    return Ok(Turn::More);
                }
                Err(error) => {
                    let turn = match size.failed(many, &error) {
                        Failure::Outage => Err(error),
                        Failure::Batch => Ok(Turn::More),
                        Failure::Single(failures) if self.like_quarantine.admits(failures, &error).await => {
                            self.skip_like(partition, sitting, first, cause).await.map(|()| Turn::More)
                        }
                        Failure::Single(_) => Err(error),
                    };
                    // The ledger may be further than this node knows.
                    *seat = None;
                    return turn;
                }
            }
        }
        drop(turn);
        self.tell_reverts(partition, sitting).await?;
        self.tell_counts(&mut sitting.teller, pace(many)).await?;
        self.trim_settled(partition, sitting).await?;
        Ok(if many == asked { Turn::More } else { Turn::Done(many) })
    }

    /// Begins where the ledger says that the last settler ended, and with what that one may not have told.
    async fn take_partition_over(&self, partition: u16, first: Claim) -> Result<Seat> {
        let incarnation = self.lineage.incarnation();
        let position = self.ledger.like_position(partition).await?;
        let through = read_position(&position, &first.life).unwrap_or(Place::ZERO);
        let mut untold: HashMap<Object, Place> = HashMap::new();
        let (life, mut items) = (first.life, first.items);
        while let Some(last) = items.last() {
            let reached = last.place;
            let settled = items.iter().take_while(|item| item.place <= through);
            for (place, change) in settled.filter_map(|item| Some((item.place, entry::decode(&item.body)?))) {
                untold.entry(change.object).or_insert(place);
            }
            if reached >= through {
                break;
            }
            let next = self.likes.queue.claim(partition, self.fanout.holder(), reached, BATCH).await?;
            items = next.filter(|next| next.life == life).map_or_else(Vec::new, |next| next.items);
        }
        let mut teller = Teller::new(self.likes.options.counts_per_second);
        let objects: Vec<Object> = untold.keys().copied().collect();
        for objects in objects.chunks(BATCH) {
            for (object, tally) in self.ledger.like_tallies(objects).await? {
                teller.inherited(object, tally, untold.get(&object).copied().unwrap_or(through));
            }
        }
        tracing::debug!(partition, %through, untold = objects.len(), "settles likes here from now on");
        Ok(Seat {
            life,
            incarnation,
            position,
            through,
            teller,
            reverts: true,
            revert_failures: 0,
            trimmed: Place::ZERO,
        })
    }

    async fn settle_batch(&self, partition: u16, seat: &mut Seat, claim: Claim) -> Result<Settling> {
        let Some((first, last)) = claim.items.first().zip(claim.items.last()) else { return Ok(Settling::Applied) };
        let (first, through) = (first.place, last.place);
        let (merged, oldest) = entry::merge(&claim.items);
        self.quarantine_unreadable(partition, &seat.life, &claim.items).await?;
        let many = merged.len();
        let (changes, unseen) = self.part_unseen(merged, pace(claim.items.len())).await?;
        let (from, to) = (seat.position.clone(), format!("{} {through}", seat.life));
        let noted = self.events.likes_noted();
        let batch = LikeBatch { partition, from, to: to.clone(), changes, unseen, noted, now: now() };
        let Some(mut settled) = self.ledger.settle_likes(batch).await? else { return Ok(Settling::Moved) };
        if !std::mem::take(&mut settled.added).is_empty() {
            self.events.wake(EventConsumer::Likes);
        }
        self.metrics.likes_settled(claim.items.len(), many, oldest.map_or(0, |at| now().saturating_sub(at)));
        self.move_on(partition, seat, to, (first, through), settled).await?;
        Ok(Settling::Applied)
    }

    /// Tells what came of the entries from `first` through `through`, and goes on behind them.
    pub(super) async fn move_on(
        &self,
        partition: u16,
        seat: &mut Seat,
        position: String,
        (first, through): (Place, Place),
        settled: SettledLikes,
    ) -> Result<()> {
        self.lineage.note_settled(partition, &seat.life, through).await?;
        (seat.position, seat.through) = (position, through);
        for (object, tally) in &settled.tallies {
            // Nothing ever came of what has no version.
            if tally.version > 0 {
                seat.teller.changed(*object, *tally, first);
            }
        }
        for reverted in &settled.reverted {
            self.metrics.like_reverted(reverted.reason.as_str());
            seat.reverts = true;
        }
        self.tell_settled(partition, through, settled).await;
        Ok(())
    }

    /// Parts the changes from likes of what their users may not see by now: it was taken on trust, or they were blocked
    /// meanwhile. Whoever takes a like back may do so whatever they see.
    async fn part_unseen(&self, changes: Vec<LikeChange>, pace: Pace) -> Result<(Vec<LikeChange>, Vec<LikeChange>)> {
        let asked: Vec<_> = changes.iter().map(|change| (change.user.clone(), change.object)).collect();
        let mut seen = Vec::with_capacity(asked.len());
        for step in asked.chunks(LOOKS) {
            if !seen.is_empty() {
                pace.pause().await;
            }
            seen.append(&mut self.each_may_like(step).await?);
        }
        let mut seen = seen.into_iter();
        Ok(changes.into_iter().partition(|change| seen.next() == Some(true) || !change.liked))
    }

    /// Tells the nodes what the counts are, and to tell their clients. A word that is lost does no harm: the counts come
    /// again, and what was acknowledged stays so.
    async fn tell_settled(&self, partition: u16, through: Place, settled: SettledLikes) {
        let tallies = settled.tallies.into_iter().collect();
        let reverted = settled.reverted.into_iter().map(|reverted| (reverted.user, reverted.object)).collect();
        let message = [SETTLED, &Settled { partition, through, tallies, reverted }.encode()].concat();
        if let Err(error) = self.broker.signal(message.into()).await {
            tracing::debug!(%error, partition, "settled likes were not told");
        }
    }

    /// Tells users which of their likes could not be settled: in the log of their notifications, so that a device that
    /// is away takes them back too.
    async fn tell_reverts(&self, partition: u16, seat: &mut Seat) -> Result<()> {
        while seat.reverts {
            let reverts = self.ledger.untold_reverts(partition, REVERTS).await?;
            seat.reverts = reverts.len() == REVERTS;
            for reverted in &reverts {
                self.likes.states.remove(&(reverted.user.clone(), reverted.object));
                let (told, cause) = isolate(self.tell_revert(reverted)).await;
                let Err(error) = told else { continue };
                seat.reverts = true;
                seat.revert_failures = if error.is_outage() { 0 } else { seat.revert_failures + 1 };
                if !self.like_quarantine.admits(seat.revert_failures, &error).await {
                    return Err(error);
                }
                seat.revert_failures = 0;
                self.quarantine_revert(reverted, cause).await?;
            }
            if !reverts.is_empty() {
                let ids: Vec<i64> = reverts.iter().map(|reverted| reverted.id).collect();
                self.ledger.reverts_told(&ids).await.inspect_err(|_| seat.reverts = true)?;
            }
        }
        Ok(())
    }

    async fn tell_revert(&self, Reverted { id, user, object, reason }: &Reverted) -> Result<()> {
        self.lineage.note_number(ledger::REVERTS, u64::try_from(*id).unwrap_or_default()).await?;
        let data =
            format!(r#""data":{{"type":"like.reverted","id":{},"reason":"{}"}}"#, object.number(), reason.as_str());
        let (channel, entry, key) = (notifications(user), Entry::Data(data.into()), format!("revert {id}"));
        let keep = self.likes.options.notifications;
        let append = Append { channel: &channel, entry: &entry, keep, idempotency_key: Some(&key), version: None };
        self.broker.append(append).await?;
        Ok(())
    }

    /// Drops from the queue what is settled and told.
    async fn trim_settled(&self, partition: u16, seat: &mut Seat) -> Result<()> {
        let before = seat.teller.untold().unwrap_or_else(|| seat.through.next());
        if before > seat.trimmed && seat.through > Place::ZERO {
            self.likes.queue.trim(partition, self.fanout.holder(), &seat.life, before).await?;
            seat.trimmed = before;
        }
        Ok(())
    }
}

/// A full batch is followed by another at once.
fn pace(many: usize) -> Pace {
    Pace::hurried_if(many == BATCH)
}

/// What came of a batch.
enum Settling {
    /// It is in the ledger.
    Applied,
    /// The ledger stands elsewhere than thought.
    Moved,
}

/// How far a partition of this life is settled, as the ledger says; `None` if it speaks of another life.
fn read_position(position: &str, life: &Epoch) -> Option<Place> {
    let (of, place) = position.split_once(' ')?;
    (of == &**life).then(|| Place::parse(place)).flatten()
}
