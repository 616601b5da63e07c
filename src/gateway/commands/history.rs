//! Executes `history`.

use super::channel_commands::ChannelCommands;
use super::outcome::CommandOutcome;
use crate::broker::Span;
use crate::feed::{FeedError, Viewer};
use crate::gateway::hub::log_reader::{ChannelLog, ENTRIES_PER_UNIT};
use crate::gateway::session::HistoryGrant;
use crate::protocol::{ErrorCode, ReplyBody};

impl ChannelCommands {
    pub(crate) async fn history(&self, grant: HistoryGrant) -> CommandOutcome {
        let id = grant.id;
        self.try_history(grant).await.unwrap_or_else(|error| CommandOutcome::failed(id, &error))
    }

    async fn try_history(&self, grant: HistoryGrant) -> Result<CommandOutcome, FeedError> {
        let (Span::After(_, limit) | Span::Before(_, limit)) = grant.span;
        let units = u32::try_from(1 + limit / ENTRIES_PER_UNIT).unwrap_or(u32::MAX);
        self.base.rates.take_reads(grant.user.as_ref(), grant.address, units)?;
        let viewer = Viewer::Client(grant.user.as_ref());
        let audience = grant.channel.audience(grant.user.as_ref()).ok_or(FeedError::Internal)?;
        let log = ChannelLog { name: &grant.name, audience, viewer };
        Ok(match self.logs.read_history(&log, grant.span, grant.epoch.as_deref()).await? {
            Some(result) => CommandOutcome::done(grant.id, ReplyBody::History(result)),
            None => CommandOutcome::refused(grant.id, ErrorCode::UNRECOVERABLE_POSITION),
        })
    }
}
