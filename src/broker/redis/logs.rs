//! Channels and their logs: the broker's commands, as commands of Redis.

use std::sync::Arc;

use async_trait::async_trait;

use super::command_connections::millis;
use super::scripts::SCRIPTS;
use super::{RedisBroker, hint, replies};
use crate::broker::epoch::new_epoch;
use crate::broker::{
    Append, AppendOutcome, Broadcast, Broker, BrokerError, CacheLease, Confirmation, IdTimes, Invalidation,
    MessageListener, NODE_LEASE, NodeLease, PresenceEvent, Result, Signal, Slice, Span, inbox_channel, is_inbox,
    timeline_owner,
};
use crate::model::{Entry, Millis, Position, PostId, UserId};

#[async_trait]
impl Broker for RedisBroker {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn listen(&self, listener: Arc<dyn MessageListener>) {
        // The first listener stays.
        let _ = self.listener.set(listener);
        self.invalidations.poll_now.notify_one();
    }

    async fn ping(&self) -> Result<()> {
        // A write: a replica, and a Redis whose memory is full, reply to PING.
        let mut probe = redis::cmd("SET");
        probe.arg(self.keys.single("ping")).arg(1).arg("PX").arg(10_000);
        self.commands.send(&probe).await?;
        self.pubsub.check()
    }

    fn round_trips(&self) -> u64 {
        self.commands.round_trips()
    }

    async fn subscribe(&self, channel: &str) -> Result<()> {
        self.pubsub.subscribe(channel).await
    }

    async fn unsubscribe(&self, channel: &str) -> Result<()> {
        self.pubsub.unsubscribe(channel).await
    }

    async fn connected(&self, users: &[UserId]) -> Result<Vec<bool>> {
        if users.is_empty() {
            return Ok(Vec::new());
        }
        let mut ask = redis::cmd("PUBSUB");
        ask.arg("NUMSUB");
        users.iter().for_each(|user| _ = ask.arg(self.keys.hints(&inbox_channel(user))));
        replies::subscribed(self.commands.send(&ask).await?, users.len())
    }

    async fn signal(&self, signal: Signal) -> Result<u64> {
        let message = signal.encode().map_err(|error| BrokerError::Failed(error.to_string()))?;
        self.publish_raw(&self.keys.signal(None), &message).await
    }

    async fn invalidate(&self, what: &[Invalidation]) -> Result<Confirmation> {
        self.invalidations.append(what).await
    }

    fn node(&self) -> &Arc<str> {
        self.pubsub.node()
    }

    async fn signal_node(&self, node: &str, signal: Signal) -> Result<bool> {
        let message = signal.encode().map_err(|error| BrokerError::Failed(error.to_string()))?;
        let receivers = self.publish_raw(&self.keys.signal(Some(node)), &message).await?;
        Ok(receivers > 0)
    }

    fn cache_lease(&self) -> Arc<CacheLease> {
        self.invalidations.lease()
    }

    async fn append(&self, append: Append<'_>) -> Result<AppendOutcome> {
        self.append_to_one(append).await
    }

    async fn broadcast(&self, broadcast: Broadcast<'_>) -> Vec<Result<AppendOutcome>> {
        self.append_to_all(broadcast).await
    }

    async fn publish(&self, channel: &str, entry: &Entry) -> Result<AppendOutcome> {
        self.publish_raw(&self.keys.hints(channel), &hint::unlogged(entry)).await.map(AppendOutcome::unlogged)
    }

    async fn publish_on_all(
        &self,
        channels: &[&str],
        entry: &Entry,
        idempotency_key: Option<&str>,
    ) -> Vec<Result<AppendOutcome>> {
        self.publish_on_all(channels, entry, idempotency_key).await
    }

    async fn publish_presence_event(&self, channel: &str, event: &PresenceEvent) -> Result<()> {
        self.publish_raw(&self.keys.hints(channel), &hint::presence_event(event)).await.map(drop)
    }

    async fn position(&self, channel: &str) -> Result<Option<Position>> {
        if is_inbox(channel) {
            return Ok(self.positions(&[channel.into()]).await?.pop().flatten());
        }
        let mut call = SCRIPTS.position.call(4);
        call.arg(&self.log_keys(channel)[..]);
        replies::position(self.call_with_epoch(call, |_| ()).await?).map(Some)
    }

    async fn positions(&self, channels: &[Arc<str>]) -> Result<Vec<Option<Position>>> {
        if channels.is_empty() {
            return Ok(Vec::new());
        }
        let mut call = SCRIPTS.positions.call(1 + 3 * channels.len());
        call.arg(self.keys.epochs());
        for channel in channels {
            call.arg(&self.keys.log(channel)[..]).arg(self.keys.counts(channel, &self.incarnation.read()));
        }
        let answer = self.call_with_epoch(call, |call| {
            for channel in channels {
                let connection = match timeline_owner(channel) {
                    Some(_) => self.pubsub.connection_of(channel).unwrap_or_default(),
                    None if is_inbox(channel) => Default::default(),
                    None => "-".into(),
                };
                call.arg(&*connection);
            }
        });
        replies::positions(answer.await?)
    }

    async fn read(&self, channel: &str, span: Span) -> Result<Option<Slice>> {
        let part = match is_inbox(channel) {
            true => self.read_part(&self.keys.log(channel), span).await?,
            false => self.read_part(&self.log_keys(channel), span).await?,
        };
        Ok(part.map(|part| Slice { top: part.top, entries: part.entries }))
    }

    async fn clear_log(&self, channel: &str) -> Result<()> {
        if is_inbox(channel) {
            return Err(BrokerError::Failed("an inbox is not cleared".to_owned()));
        }
        // The metadata of the log, which stays, holds its position: the entries may have expired as well.
        self.commands.send(redis::cmd("UNLINK").arg(self.keys.log(channel)[0].as_str())).await.map(drop)
    }

    async fn drop_logs(&self, channels: &[String]) -> Result<()> {
        // One command for each channel: the keys of a channel are in one slot.
        for channel in channels {
            let mut call = SCRIPTS.drop.call(2);
            call.arg(&self.keys.log(channel)[..]);
            let answer = self.call_with_run(call, |call| {
                let is_inbox = is_inbox(channel);
                call.arg(&*new_epoch()).arg(millis(self.position_ttl)).arg(u8::from(is_inbox));
            });
            answer.await?;
        }
        Ok(())
    }

    async fn lease_node(&self, holder: &str, number: Option<u8>, ids: IdTimes) -> Result<NodeLease> {
        const NUMBERS: u8 = PostId::NODES;
        let keeps = number.is_some();
        let start = number.unwrap_or_else(|| rand::random_range(0..NUMBERS)) % NUMBERS;
        let numbers: Vec<u8> = (start..NUMBERS).chain(0..start).collect();
        let mut call = SCRIPTS.lease.call(1 + numbers.len());
        call.arg(self.keys.node_ceilings());
        numbers.iter().for_each(|number| _ = call.arg(self.keys.node(*number)));
        call.arg(holder).arg(millis(NODE_LEASE)).arg(ids.ceiling).arg(u8::from(keeps)).arg(ids.used);
        numbers.iter().for_each(|number| _ = call.arg(*number));
        match replies::parse::<(u8, Millis, Millis)>(self.commands.send(&call).await?)? {
            (0, ..) => Err(BrokerError::Failed(format!(
                "all {NUMBERS} node numbers are taken: stop a node; that of a killed one is free after {} s",
                NODE_LEASE.as_secs()
            ))),
            (at, used_until, time) => Ok(NodeLease {
                number: numbers[usize::from(at) - 1],
                ttl: Some(NODE_LEASE),
                used_until,
                store_time: Some(time),
            }),
        }
    }

    async fn release_node(&self, holder: &str, number: u8, used_until: Millis) -> Result<()> {
        let mut call = SCRIPTS.release_node.call(2);
        call.arg(self.keys.node(number)).arg(self.keys.node_ceilings());
        call.arg(holder).arg(number).arg(used_until);
        self.commands.send(&call).await.map(drop)
    }
}
