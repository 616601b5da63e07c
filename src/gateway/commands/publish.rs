//! Executes `publish`.

use super::channel_commands::ChannelCommands;
use super::outcome::CommandOutcome;
use crate::broker::Append;
use crate::feed::FeedError;
use crate::gateway::session::PublishGrant;
use crate::model::Entry;
use crate::protocol::ReplyBody;

/// What the log of a channel takes in the store besides its entries, in bytes.
const LOG_SIZE: usize = 4 * 1024;

impl ChannelCommands {
    pub(crate) async fn publish(&self, grant: PublishGrant) -> CommandOutcome {
        let id = grant.id;
        self.try_publish(grant).await.unwrap_or_else(|error| CommandOutcome::failed(id, &error))
    }

    async fn try_publish(&self, grant: PublishGrant) -> Result<CommandOutcome, FeedError> {
        let channel = &*grant.name;
        let retention = self.sessions.channels.retention(&grant.channel).filter(|_| !grant.skip_history);
        // The publication may begin a log, unless the channel has subscribers here.
        let may_begin = retention.is_some() && !self.hub.has_room(channel);
        let size = grant.members.len() + if may_begin { LOG_SIZE } else { 0 };
        self.base.rates.take_publication(grant.user.as_ref(), grant.address, size)?;
        let entry = &Entry::Data(grant.members);
        match retention {
            Some(retention) => {
                let append = Append { channel, entry, retention, idempotency_key: None, version: None };
                self.base.broker.append(append).await?;
            }
            None => {
                self.base.broker.publish(channel, entry).await?;
            }
        }
        Ok(CommandOutcome::done(grant.id, ReplyBody::Publish {}))
    }
}
